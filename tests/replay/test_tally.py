"""The figures of a saturated run, each by hand on a few arrivals."""

import pytest

from gpufleet.engine.instruction import Nearest, Verdict
from gpufleet.model.identifiers import NodeName
from gpufleet.model.shape import GpuRequest
from gpufleet.replay.results import TASK_CLASSES
from gpufleet.replay.tally import Tally, at_load_points, cause

SHARE = GpuRequest(1, 500)
ONE = GpuRequest(1, 1000)
EIGHT = GpuRequest(8, 1000)
CPU = GpuRequest(0, 0)


def tally_of(gpus: int, *arrivals: tuple[GpuRequest, str | None, int]) -> Tally:
    """A tally whose fragmentation is against a workload of two tasks."""
    tally = Tally(gpus, fragmentation_weight=2)
    for request, refused, fragmented in arrivals:
        tally.count(request, refused, fragmented)
    return tally


def test_a_point_of_the_curve_is_the_mean_over_the_arrivals_whose_load_rounds_to_it() -> None:
    # Of 100 GPUs: loads 0.5, 0.5 (round to 0), 1, 2, 2.5 (rounds to 2), 3.5 (rounds to 4).
    tally = tally_of(
        100,
        (SHARE, None, 40_000),
        (CPU, None, 20_000),
        (SHARE, None, 30_000),
        (ONE, "gpu", 30_000),
        (SHARE, None, 10_000),
        (ONE, None, 8_000),
    )
    curve = tally.curve()
    assert curve.load_pct == [0, 1, 2, 4]
    # GPUs allocated: mean(0.5, 0.5), 1, mean(1, 1.5), 2.5
    assert curve.alloc_pct == [0.5, 1.0, 1.25, 2.5]
    # fragments in GPUs are the given numbers / 1000 / 2: mean(20, 10), 15, mean(15, 5), 4
    assert curve.frag_pct_of_cluster == [15.0, 15.0, 10.0, 4.0]
    # idle GPUs: 99.5, 99, 98.75, 97.5
    assert curve.frag_pct_of_idle == [15.0754, 15.1515, 10.1266, 4.1026]


def test_a_full_cluster_has_no_idle_gpu_to_divide_by() -> None:
    curve = tally_of(1, (ONE, None, 0)).curve()
    assert (curve.alloc_pct, curve.frag_pct_of_idle) == ([100.0], [0.0])


def test_load_counts_what_arrives_placed_or_not() -> None:
    tally = tally_of(4, (ONE, None, 0), (ONE, "gpu", 0), (ONE, "cpu", 0))
    assert tally.curve().load_pct == [25, 50, 75]
    assert tally.curve().alloc_pct == [25.0, 25.0, 25.0]


def test_first_refusal_is_told_by_the_load_that_includes_the_refused() -> None:
    assert tally_of(3, (ONE, None, 0), (ONE, "gpu", 0), (ONE, "gpu", 0)).first_refusal_load() == 66.667
    assert tally_of(3, (ONE, None, 0)).first_refusal_load() is None


def test_acceptance_by_class_ends_at_the_load() -> None:
    tally = tally_of(
        10,
        (EIGHT, None, 0),
        (ONE, None, 0),
        (SHARE, None, 0),
        (SHARE, "gpu", 0),
        (CPU, None, 0),
        (ONE, "gpu", 0),
        (GpuRequest(2, 1000), "gpu", 0),
    )
    found = {
        name: {load: (count.arrived, count.accepted, count.accepted_pct) for load, count in by_load.items()}
        for name, by_load in tally.accepted_by_class().items()
    }
    assert found == {
        "cpu": {"100": (1, 1, 100.0), "130": (1, 1, 100.0)},
        "share": {"100": (2, 1, 50.0), "130": (2, 1, 50.0)},
        "1": {"100": (1, 1, 100.0), "130": (2, 1, 50.0)},
        "2": {"100": (0, 0, None), "130": (1, 0, 0.0)},
        "4": {"100": (0, 0, None), "130": (0, 0, None)},
        "8": {"100": (1, 1, 100.0), "130": (1, 1, 100.0)},
    }


def test_loads_that_were_not_reached_are_left_out() -> None:
    tally = tally_of(2, (ONE, None, 0))
    assert tally.accepted_by_class() == {name: {} for name in TASK_CLASSES}
    curve = tally.curve()
    assert at_load_points(curve, curve.alloc_pct, tally.reached_pct()) == {"50": 50.0}


def test_between_two_arrivals_of_a_small_fleet_the_state_is_that_after_the_first() -> None:
    """Arrivals bring the load of 4 GPUs to 50 and 100 %; the run was to end at 130."""
    tally = Tally(4, 1, until_pct=130)
    for refused in (None, "gpu"):
        tally.count(GpuRequest(2, 1000), refused, 0)
    assert tally.curve().load_pct == [50, 100]
    curve = tally.curve()
    assert at_load_points(curve, [7.0, 8.0], tally.reached_pct()) == {
        **dict.fromkeys(("50", "70", "80", "90", "95"), 7.0),
        **dict.fromkeys(("100", "110", "120", "130"), 8.0),
    }
    assert tally.accepted_by_class()["2"]["130"].arrived == 2


def test_before_the_first_arrival_there_is_nothing_to_tell() -> None:
    tally = tally_of(1, (EIGHT, "gpu", 0))
    assert at_load_points(tally.curve(), [0.0], tally.reached_pct()) == {}


def test_nothing_arrived() -> None:
    tally = tally_of(2)
    assert (tally.arrived, tally.placed, tally.first_refusal_load()) == (0, 0, None)
    assert tally.curve().load_pct == []
    assert tally.reached_pct() == 0
    assert tally.accepted_by_class()["cpu"] == {}


def test_failures_are_counted_by_cause() -> None:
    tally = tally_of(2, (ONE, "gpu", 0), (ONE, None, 0), (ONE, "cpu", 0), (ONE, "gpu", 0))
    assert dict(tally.failures) == {"gpu": 2, "cpu": 1}
    assert (tally.arrived, tally.placed) == (4, 1)


@pytest.mark.parametrize(
    ("short", "expected"),
    [
        ({"gpus": 2}, "gpu"),
        ({"gpu_shares": 1, "cpu_milli": 4000}, "cpu and gpu"),
        ({"memory_bytes": 1}, "memory"),
        ({"ephemeral_storage_bytes": 1}, "storage"),
        ({"pods": 1}, "pods"),
    ],
)
def test_cause_is_what_the_nearest_node_lacks(short: dict[str, int], expected: str) -> None:
    assert cause(Verdict(3, {"gpu-busy": 3}, {}, Nearest(NodeName("n"), short, 1))) == expected


@pytest.mark.parametrize(
    ("nodes", "first_reasons", "expected"),
    [
        (5, {"gpu-model": 3, "taint": 2}, "gpu-model"),
        (5, {"gpu-busy": 4}, "its gang"),
        (0, {}, "no nodes"),
    ],
)
def test_cause_where_no_room_would_help(nodes: int, first_reasons: dict[str, int], expected: str) -> None:
    assert cause(Verdict(nodes, first_reasons, first_reasons, None)) == expected
