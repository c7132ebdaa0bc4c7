"""The chart of how long tasks waited before they started, by class of task.

It shows the first seed of each policy: percentiles of different seeds have no mean that would be a
percentile of anything. The table lists every run. ``page`` shows it.
"""

from collections.abc import Sequence

from gpufleet.replay.report.chart import Chart, Panel, Spec
from gpufleet.replay.report.class_charts import class_title
from gpufleet.replay.report.figures import count, duration
from gpufleet.replay.report.policy_dots import Dot, DotMark, dots_key, dots_panel
from gpufleet.replay.report.selection import first_timelines, policy_names, runs_of
from gpufleet.replay.report.table import Table, table
from gpufleet.replay.results import TASK_CLASSES, SweepResult, Timeline, Waits

_MARKS = (DotMark("half", "dot"), DotMark("90%", "diamond"), DotMark("99%", "ring"))
_TICKS = (
    (0, "0"),
    (60, "1 min"),
    (600, "10 min"),
    (3_600, "1 h"),
    (21_600, "6 h"),
    (86_400, "1 d"),
    (604_800, "7 d"),
    (2_592_000, "30 d"),
    (31_536_000, "1 y"),
)
# The label stands behind the last point.
_ROOM_AFTER_LONGEST = 1.15


def _classes(timelines: dict[str, Timeline]) -> list[str]:
    found = {name for one in timelines.values() for name in one.waits_by_class}
    known = [name for name in ("all", *TASK_CLASSES) if name in found]
    return known + sorted(found - set(known))


def _dots(policy: str, waits: Waits) -> list[Dot]:
    figures = (waits.p50_s, waits.p90_s, waits.p99_s)
    return [
        Dot(policy, mark.label, wait_s, f"waited at most {duration(wait_s)}")
        for mark, wait_s in zip(_MARKS, figures, strict=True)
        if wait_s is not None
    ]


def _dots_of_class(timelines: dict[str, Timeline], task_class: str) -> list[Dot]:
    return [
        dot
        for policy, timeline in timelines.items()
        if task_class in timeline.waits_by_class
        for dot in _dots(policy, timeline.waits_by_class[task_class])
    ]


def wait_scale_and_axis(longest_s: float) -> Spec:
    """A scale that is logarithmic past a minute and still has a place for no wait at all."""
    ticks = [(at, name) for at, name in _TICKS if at <= longest_s]
    names = ", ".join(f"'{at}': '{name}'" for at, name in ticks)
    return {
        "scale": {"type": "symlog", "constant": 60, "domain": [0, longest_s], "nice": False},
        "axis": {
            "title": "wait",
            "values": [at for at, _ in ticks],
            "labelExpr": f"{{{names}}}[datum.value]",
            "labelOverlap": "greedy",
        },
    }


def _panel(timelines: dict[str, Timeline], names: Sequence[str], task_class: str, longest_s: float) -> Panel:
    title = class_title(task_class)
    dots = _dots_of_class(timelines, task_class)
    return dots_panel(title, dots, names, _MARKS, wait_scale_and_axis(longest_s))


def _row(policy: str, seed: int, task_class: str, waits: Waits) -> list[str]:
    figures = (waits.mean_s, waits.p50_s, waits.p90_s, waits.p99_s, waits.max_s)
    return [
        policy,
        str(seed),
        class_title(task_class),
        count(waits.started),
        *(duration(figure) for figure in figures),
        count(waits.never_started),
    ]


def _table(result: SweepResult, classes: Sequence[str]) -> Table:
    columns = ["started", "mean", "half", "90%", "99%", "longest", "never started"]
    return table(
        "How long tasks waited before they started, by run and class of task",
        ["Policy", "Seed", "Tasks", *columns],
        [
            _row(policy, run.seed, name, run.timeline.waits_by_class[name])
            for policy in policy_names(result)
            for run in runs_of(result, policy)
            if run.timeline is not None
            for name in classes
            if name in run.timeline.waits_by_class
        ],
        label_columns=3,
    )


def wait_charts(result: SweepResult) -> list[Chart]:
    """Waiting times by class of task; empty where no run has a timeline."""
    timelines = first_timelines(result)
    waits = [one for timeline in timelines.values() for one in timeline.waits_by_class.values()]
    longest_s = max((one.p99_s for one in waits if one.p99_s is not None), default=0.0)
    end_s = longest_s * _ROOM_AFTER_LONGEST or 1.0
    names = policy_names(result)
    classes = _classes(timelines)
    started = [name for name in classes if _dots_of_class(timelines, name)]
    panels = tuple(_panel(timelines, names, name, end_s) for name in started)
    if not panels:
        return []
    return [
        Chart(
            name="waits-by-class",
            title="How long tasks waited, by class",
            note="First seed of each policy: half, 90% and 99% of the tasks that started waited at "
            "most this long. The scale is logarithmic. Means, longest waits, tasks that never "
            "started and classes of which none did are in the table.",
            panels=panels,
            table=_table(result, classes),
            key=dots_key(_MARKS),
        )
    ]
