"""Cases of other projects' own tests, restated: windows of kured, budgets of Karpenter, cullers of notebooks.

Each has what their test expects. Where gpufleet decides otherwise, the case has that too, with the reason;
``designs/0008-operate.md`` lists all sources.
"""

import math
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

import msgspec
import pytest

from gpufleet.kube.codec.rollout_settings import read_rollout_settings
from gpufleet.kube.objects.fleet_policies import RolloutSpec
from gpufleet.model.model_errors import InputError
from gpufleet.model.rollout_settings import NodeCount, RolloutSettings, Window
from gpufleet.operator.parking.activity import Activity, judge
from gpufleet.operator.parking.workloads import Workload, sessions_of
from gpufleet.operator.rollout.windows import EPOCH, check, may_begin
from tests.operator.parking.measured import MINUTE_US, NOW_US, measured, minutes, quiet

# kured, pkg/timewindow/timewindow_test.go: days, start and end become a schedule and a length.
OFFICE = Window("0 9 * * 1-5", 8 * 3600, "America/Los_Angeles")
MORNING = Window("1 10 * * 1,3,5", 89 * 60, "America/Los_Angeles")
ALL_DAY = Window("0 0 * * 1-5", 86_399, "UTC")


def at(text: str, hours_ahead: int = 0) -> int:
    """A moment of a zone that is so many hours ahead of UTC; negative ones are behind."""
    moment = datetime.fromisoformat(text).replace(tzinfo=UTC) - timedelta(hours=hours_ahead)
    return round((moment - EPOCH) / timedelta(microseconds=1))


@pytest.mark.parametrize(
    ("window", "moment", "theirs"),
    [
        (OFFICE, at("2019-04-04T00:49", -7), False),
        (OFFICE, at("2019-04-05T08:59", -7), False),
        (OFFICE, at("2019-04-05T09:01", -7), True),
        (OFFICE, at("2019-03-31T10:00", -7), False),
        (OFFICE, at("2019-04-04T12:00", -7), True),
        (OFFICE, at("2019-04-04T11:59"), False),
        (MORNING, at("2019-04-05T10:30", -7), True),
        (MORNING, at("2019-04-06T10:30", -7), False),
        (MORNING, at("2019-04-07T10:30", -7), False),
        (MORNING, at("2019-04-08T10:30", -7), True),
        (MORNING, at("2019-04-09T10:30", -7), False),
        (MORNING, at("2019-04-10T10:30", -7), True),
        (MORNING, at("2019-04-11T10:30", -7), False),
        (ALL_DAY, at("2019-04-18T00:00"), True),
        (ALL_DAY, at("2019-04-18T23:59"), True),
    ],
)
def test_windows_of_kured(window: Window, moment: int, *, theirs: bool) -> None:
    assert may_begin((window,), moment) is theirs


# karpenter, pkg/apis/v1/nodepool_budgets_test.go.
NOON = at("2000-06-15T12:30:30")
MINUTELY, YEARLY = "* * * * *", "0 0 1 1 *"


@pytest.mark.parametrize(
    ("windows", "moment", "theirs"),
    [
        # One hour ahead of UTC it is midnight already: a schedule counts by its own zone.
        ((Window("0 0 * * *", 1800),), at("2000-05-31T00:00", 1), False),
        ((), NOON, True),
        ((Window(MINUTELY, 3600),), NOON, True),
        ((Window(YEARLY, 3600),), NOON, False),
        ((Window(YEARLY, 86_400),), at("1000-01-01T12:00"), True),
        ((Window("0 0 * * *", 2 * 86_400),), at("2024-01-07T00:00"), True),
        ((Window("30 6 * * SUN", 6 * 3600),), at("2024-01-07T00:00"), False),
    ],
)
def test_schedules_of_karpenters_budgets(windows: tuple[Window, ...], moment: int, *, theirs: bool) -> None:
    assert may_begin(windows, moment) is theirs


class Budgeted(NamedTuple):
    """So many nodes may be disrupted at once, of a hundred; ``ours`` where gpufleet decides otherwise."""

    settings: RolloutSettings
    theirs: float
    ours: float | None = None
    because: str = ""


NIGHT = (Window(YEARLY, 3600),)
BUDGETS = [
    Budgeted(RolloutSettings(nodes_at_once=NodeCount(10), windows=(Window(MINUTELY, 3600),)), 10),
    Budgeted(RolloutSettings(nodes_at_once=NodeCount(100, is_percent=True)), 100),
    Budgeted(RolloutSettings(nodes_at_once=NodeCount(10)), 10),
    Budgeted(
        RolloutSettings(nodes_at_once=NodeCount(10), windows=NIGHT),
        math.inf,
        0,
        "their schedule says when a limit holds; a window says when nodes begin at all",
    ),
    Budgeted(
        RolloutSettings(nodes_at_once=NodeCount(10), is_paused=True),
        0,
    ),
]


@pytest.mark.parametrize("case", BUDGETS)
def test_numbers_of_karpenters_budgets(case: Budgeted) -> None:
    assert (case.ours is None) == (not case.because)
    settings = case.settings
    may = may_begin(settings.windows, NOON) and not settings.is_paused
    found = settings.nodes_at_once.of(100) if may else 0
    assert found == (case.theirs if case.ours is None else case.ours)


@pytest.mark.parametrize("schedule", ["@wrongly", "0 0 * * tue-mon"])
def test_schedules_that_karpenter_refuses(schedule: str) -> None:
    with pytest.raises(InputError):
        check(Window(schedule, 3600))


def test_a_number_that_karpenter_refuses() -> None:
    with pytest.raises(InputError):
        read_rollout_settings(RolloutSpec(max_parallel="1000a%"))


# kubeflow, components/notebook-controller/controllers/culling_controller_test.go.
KUBEFLOW = "notebooks.kubeflow.org/last-activity"


def ago(minutes_ago: float) -> str:
    moment = EPOCH + timedelta(microseconds=NOW_US - minutes_ago * MINUTE_US)
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")


class Notebook(NamedTuple):
    """A notebook whose GPU is quiet; ``theirs`` and ``ours`` say whether it is idle after five minutes."""

    annotations: dict[str, str]
    theirs: bool
    ours: bool | None = None
    because: str = ""


NOTEBOOKS = [
    Notebook(
        {},
        False,
        True,
        "theirs knows of sessions alone; here the pods are measured, and no culler need be there",
    ),
    Notebook({KUBEFLOW: "2021-08-30T15:37:36.990063Z"}, True),
    Notebook({KUBEFLOW: "1900-08-30T15:37:36.990063Z"}, True),
    Notebook({KUBEFLOW: ago(0)}, False),
    Notebook({KUBEFLOW: ago(6)}, True),
    Notebook({KUBEFLOW: ago(3)}, False),
    # Their culler writes the moment of its look while a kernel is busy, and lets it be while all are idle.
    Notebook({KUBEFLOW: ago(0.5), "notebooks.kubeflow.org/last_activity_check_timestamp": ago(0.5)}, False),
    Notebook(
        {KUBEFLOW: ago(60), "notebooks.kubeflow.org/last_activity_check_timestamp": ago(60)},
        True,
        False,
        "a server that answers nobody any more is unknown, and unknown is never idle",
    ),
]


def notebook(annotations: dict[str, str]) -> Workload:
    body = {"metadata": {"name": "lab", "namespace": "team", "annotations": annotations}}
    return msgspec.json.decode(msgspec.json.encode(body), type=Workload)


def is_idle(annotations: dict[str, str], after_minutes: float, later_minutes: float = 0) -> bool:
    """Whether work that is measured and quiet counts as idle, so many minutes from now."""
    now_us = NOW_US + round(later_minutes * MINUTE_US)
    sessions = sessions_of(notebook(annotations))
    pods = [measured(*quiet(61))]
    found = judge(pods, sessions, minutes(61), round(after_minutes * MINUTE_US), now_us)
    return found.activity is Activity.IDLE


@pytest.mark.parametrize("case", NOTEBOOKS)
def test_notebooks_of_kubeflows_culler(case: Notebook) -> None:
    assert (case.ours is None) == (not case.because)
    assert is_idle(case.annotations, 5) is (case.theirs if case.ours is None else case.ours)


def test_a_time_that_kubeflow_cannot_read_makes_nothing_idle() -> None:
    with pytest.raises(InputError):
        sessions_of(notebook({KUBEFLOW: "should-fail"}))


def test_a_notebook_that_is_stopped_is_not_stopped_again() -> None:
    """It has no pod, and work without one is unknown."""
    assert judge([], sessions_of(notebook({})), minutes(61), MINUTE_US, NOW_US).activity is Activity.UNKNOWN


@pytest.mark.parametrize(("later_s", "theirs"), [(0, False), (600, True)])
def test_servers_of_jupyterhubs_culler(later_s: int, *, theirs: bool) -> None:
    """jupyterhub-idle-culler, tests/test_idle_culler.py: started just now, with a limit of 300 s."""
    assert is_idle({"gpufleet.io/last-activity": ago(0)}, 5, later_s / 60) is theirs
