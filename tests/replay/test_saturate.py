"""Arrivals one by one, with placements that were worked out by hand."""

from pathlib import Path

import pytest

from gpufleet.replay.arrivals import units_of
from gpufleet.replay.csv_export import Placement
from gpufleet.replay.run import run
from gpufleet.replay.run_request import RunRequest
from gpufleet.replay.saturate import SaturateRun
from gpufleet.replay.tally import Tally
from gpufleet.replay.trace import Trace
from tests.replay.small_traces import set_up, trace_of_rows
from tests.replay.trace_files import NODE_HEADER, TASK_HEADER, table

TWO_NODES = ("n1,32000,1024,1,T4", "n2,32000,1024,1,T4")


def saturated(trace: Trace, policy: str = "best-fit") -> SaturateRun:
    measured, meter = set_up(trace, policy)
    gpus = sum(len(node.devices) for node in trace.nodes)
    run_of_all = SaturateRun(measured, meter, Tally(gpus, meter.weight))
    run_of_all.run(units_of(trace))
    return run_of_all


def came_of(placements: list[Placement]) -> dict[str, str]:
    """By task, its devices or the reason why it has none."""
    return {one.pod: " ".join(one.devices) or one.reason for one in placements}


@pytest.mark.parametrize(
    ("policy", "expected"),
    [
        # y goes where least is left; then z finds 100 on n1 and goes to n2
        ("best-fit", {"x": "n1/0", "y": "n1/0", "z": "n2/0"}),
        # y on n1 would leave 100, useless to tasks of 400: 100 fragments; on n2 none. z then
        # fills n1, where on n2 it would make 300 useless
        ("fgd", {"x": "n1/0", "y": "n2/0", "z": "n1/0"}),
    ],
)
def test_fixed_arrivals_on_nodes_ranked_as_listed(
    policy: str, expected: dict[str, str], tmp_path: Path
) -> None:
    """Through the request of ``--arrivals``: x of 600 goes to n1 (equal nodes, lower rank), then y
    of 300 and z of 400 choose. The target workload, of 400 only, comes from the other list.
    """
    arrivals = ("x,1000,1,1,600", "y,1000,1,1,300", "z,1000,1,1,400")
    out = tmp_path / "placements.csv"
    result = run(
        RunRequest(
            nodes_path=str(table(tmp_path, *TWO_NODES, header=NODE_HEADER, name="nodes.csv")),
            pods_path=str(table(tmp_path, "t,1000,1,1,400", name="target.csv")),
            arrivals_path=str(table(tmp_path, *arrivals, name="arrivals.csv", header=TASK_HEADER)),
            policy=policy,
            seed=99,
            placements_path=str(out),
        )
    )
    rows = [line.split(",") for line in out.read_text(encoding="utf-8").splitlines()[1:]]
    assert {row[0]: row[2] for row in rows} == expected
    assert [row[0] for row in rows] == ["x", "y", "z"]
    assert (result.arrived, result.placed, result.failed, result.first_refusal_load) == (3, 3, 0, None)
    # loads 30, 45, 65 % of two GPUs
    assert (result.curve.load_pct, result.curve.alloc_pct) == ([30, 45, 65], [30.0, 45.0, 65.0])


def test_order_of_the_node_list_decides_ties(tmp_path: Path) -> None:
    upside_down = trace_of_rows(tmp_path, TWO_NODES[::-1], "", "x,1000,1,1,600")
    assert came_of(saturated(upside_down).placements) == {"x": "n2/0"}


def test_who_is_refused_is_gone_and_never_tried_again(tmp_path: Path) -> None:
    """The refused task of two GPUs must not stand in the way of those behind it."""
    rows = ("a,1,1,1,1000", "big,1,1,2,1000", "b,1,1,1,1000", "c,1,1,1,1")
    result = saturated(trace_of_rows(tmp_path, ("n,9,9,2,T4",), "", *rows))
    assert came_of(result.placements) == {"a": "n/0", "big": "gpu", "b": "n/1", "c": "gpu"}
    assert dict(result.tally.failures) == {"gpu": 2}
    assert result.tally.first_refusal_load() == 150.0


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        ("t,40000,1,1,1000,", "cpu"),
        ("t,1,2000,1,1000,", "memory"),
        ("t,1,1,2,1000,", "gpu-count"),
        ("t,1,1,1,1000,P100", "gpu-model"),
    ],
)
def test_cause_of_a_refusal(row: str, reason: str, tmp_path: Path) -> None:
    nodes = (*TWO_NODES, "other,1,1,0,")
    result = saturated(trace_of_rows(tmp_path, nodes, "gpu_spec", row))
    assert dict(result.tally.failures) == {reason: 1}


def test_a_share_is_never_split_over_gpus(tmp_path: Path) -> None:
    rows = ("a,1,1,1,600", "b,1,1,1,600", "c,1,1,1,600")
    result = saturated(trace_of_rows(tmp_path, ("n,9,9,2,T4",), "", *rows))
    assert came_of(result.placements) == {"a": "n/0", "b": "n/1", "c": "gpu"}


GANG = ("g0,1,1,1,1000,g,", "g1,1,1,1,1000,g,", "g2,1,1,1,1000,g,")


def test_a_gang_without_room_for_all_takes_none(tmp_path: Path) -> None:
    result = saturated(
        trace_of_rows(tmp_path, TWO_NODES, "gang,gang_min_members", *GANG, "after,1,1,1,1000,,")
    )
    assert came_of(result.placements) == {
        "g0": "its gang",
        "g1": "its gang",
        "g2": "its gang",
        "after": "n1/0",
    }


def test_a_gang_starts_with_its_minimum_and_the_rest_is_refused(tmp_path: Path) -> None:
    rows = [row + "2" for row in GANG]
    result = saturated(trace_of_rows(tmp_path, TWO_NODES, "gang,gang_min_members", *rows))
    assert came_of(result.placements) == {"g0": "n1/0", "g1": "n2/0", "g2": "gpu"}
    assert (result.tally.arrived, result.tally.placed) == (3, 2)


def test_progress_is_told_every_thousand(tmp_path: Path) -> None:
    trace = trace_of_rows(tmp_path, TWO_NODES, "", *(f"t{number},1,1,0,0" for number in range(2500)))
    measured, meter = set_up(trace)
    told: list[int] = []
    SaturateRun(measured, meter, Tally(2, meter.weight)).run(units_of(trace), told.append)
    assert told == [1000, 2000]
