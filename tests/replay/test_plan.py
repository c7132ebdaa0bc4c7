"""What a person asks for becomes a list of runs, or one sentence about what is wrong with it."""

from pathlib import Path

import msgspec
import pytest

from gpufleet.engine.policy import POLICIES
from gpufleet.model.model_errors import InputError
from gpufleet.replay.plan import (
    SweepPlan,
    check_load,
    parse_policies,
    parse_seeds,
    plan,
    titles,
    whole_result,
)
from gpufleet.replay.run_request import RunRequest
from gpufleet.replay.sweep import RunOutcome
from tests.replay.small_traces import FLEET, small_files
from tests.replay.trace_files import NODE_HEADER, table


@pytest.fixture
def template(tmp_path: Path) -> RunRequest:
    nodes, tasks = small_files(tmp_path)
    return RunRequest(str(nodes), str(tasks), policy="", seed=0)


def planned(
    template: RunRequest, policies: str = "fgd", seeds: str = "1", out: Path | None = None
) -> SweepPlan:
    return plan(template, policies, seeds, out, "gpufleet replay")


@pytest.mark.parametrize(
    ("text", "seeds"),
    [
        ("42", [42]),
        ("42..45", [42, 43, 44, 45]),
        ("1, 5,9..11", [1, 5, 9, 10, 11]),
        ("3,3,2..4", [3, 2, 4]),
        ("0", [0]),
        ("7..7", [7]),
    ],
)
def test_seeds(text: str, seeds: list[int]) -> None:
    assert parse_seeds(text) == seeds


@pytest.mark.parametrize(
    "text",
    ["", "x", "1..", "..2", "1...3", "5..1", "-1", "1.5", "1e3", "1,,2", "1..99999999", "\u0661", "9" * 30],
)
def test_no_seeds(text: str) -> None:
    with pytest.raises(InputError, match=r"^--seed: "):
        parse_seeds(text)


def test_policies_are_taken_once_and_in_order() -> None:
    assert parse_policies("best-fit, fgd,best-fit") == ["best-fit", "fgd"]


@pytest.mark.parametrize("text", ["", "fgd,", "FGD", "fdg"])
def test_an_unknown_policy_is_told_with_those_there_are(text: str) -> None:
    with pytest.raises(InputError) as caught:
        parse_policies(text)
    assert all(name in str(caught.value) for name in POLICIES)


@pytest.mark.parametrize("load", [0.0, -1.0, float("nan"), float("inf"), 100.5])
def test_no_load(load: float) -> None:
    with pytest.raises(InputError, match=r"^--load: "):
        check_load(load)


def test_every_policy_on_every_seed(template: RunRequest, tmp_path: Path) -> None:
    requests = planned(template, "fgd,best-fit", "1..2", tmp_path).requests
    assert [request.title for request in requests] == [
        "fgd, seed 1",
        "fgd, seed 2",
        "best-fit, seed 1",
        "best-fit, seed 2",
    ]
    assert [request.picture for request in requests] == [True, False, True, False]
    assert [request.placements_path for request in requests] == [
        str(tmp_path / "placements-fgd-1.csv"),
        None,
        str(tmp_path / "placements-best-fit-1.csv"),
        None,
    ]
    assert titles(requests) == "4 runs of fgd, best-fit"
    assert titles(requests[:1]) == "fgd, seed 1"


def changed(template: RunRequest, **fields: object) -> RunRequest:
    return msgspec.structs.replace(template, **fields)


def test_a_log_is_of_one_run(template: RunRequest) -> None:
    logged = changed(template, log_path="log")
    assert len(planned(logged).requests) == 1
    with pytest.raises(InputError, match="--log: a log is of one run"):
        planned(logged, seeds="1..2")


def test_a_timeline_needs_times(template: RunRequest, tmp_path: Path) -> None:
    untimed = str(table(tmp_path, "a,1,1,0,0", name="untimed.csv"))
    with pytest.raises(InputError, match=r"untimed\.csv: no creation times"):
        planned(changed(template, pods_path=untimed, mode="timeline"))


def test_a_fixed_order_has_no_times(template: RunRequest) -> None:
    with pytest.raises(InputError, match="--arrivals: a fixed order has no times"):
        planned(changed(template, arrivals_path=template.pods_path, mode="timeline"))


def test_a_fleet_needs_a_gpu(template: RunRequest, tmp_path: Path) -> None:
    hosts = str(table(tmp_path, "n,1,1,0,", header=NODE_HEADER, name="hosts.csv"))
    tasks = str(table(tmp_path, "a,1,1,0,0", name="hosted.csv"))
    with pytest.raises(InputError, match=r"hosts\.csv: the nodes have no GPU"):
        planned(changed(template, nodes_path=hosts, pods_path=tasks))


@pytest.mark.parametrize("field", ["nodes_path", "pods_path", "arrivals_path"])
def test_every_file_is_read_before_the_first_run(field: str, template: RunRequest, tmp_path: Path) -> None:
    bad = str(table(tmp_path, "a,1,1,0,1e3", name="bad.csv"))
    with pytest.raises(InputError, match=r"bad\.csv"):
        planned(changed(template, **{field: bad}))


def test_result_says_what_was_replayed(template: RunRequest, tmp_path: Path) -> None:
    fixed = str(table(tmp_path, "a,1,1,0,0", "b,1,1,0,0", name="fixed.csv"))
    for fields, order, target in (
        ({}, "shuffled", None),
        ({"submitted_order": True}, "submitted", None),
        ({"mode": "timeline"}, "recorded", None),
        ({"arrivals_path": fixed}, "fixed", "tasks.csv"),
    ):
        asked = planned(changed(template, **fields))
        result = whole_result(asked, RunOutcome(asked.requests))
        assert (result.order, result.target_file) == (order, target)
        file, tasks = ("fixed.csv", 2) if order == "fixed" else ("tasks.csv", 18)
        assert (result.nodes_file, result.pods_file, result.tasks) == ("nodes.csv", file, tasks)
        assert (result.nodes, result.gpus) == (len(FLEET), 15)
        assert (result.complete, result.missing, result.runs) == (False, ["fgd, seed 1"], [])


def test_skipped_rows_of_every_list_are_told(template: RunRequest, tmp_path: Path) -> None:
    fixed = str(table(tmp_path, "a,1,1,0,0", "b,1,1,0,x", name="fixed.csv"))
    tasks = str(table(tmp_path, "a,1,1,0,y", "b,1,1,0,0", name="target.csv"))
    asked = planned(changed(template, pods_path=tasks, arrivals_path=fixed, skip_bad_rows_pct=50.0))
    skipped = whole_result(asked, RunOutcome(asked.requests)).skipped_rows
    assert [(Path(row.file).name, row.row) for row in skipped] == [("target.csv", 2), ("fixed.csv", 3)]
