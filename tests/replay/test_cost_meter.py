"""What a fleet costs while a trace is played: amounts that were worked out by hand, and what always holds."""

from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from gpufleet.model.identifiers import NodeName
from gpufleet.replay.cost_meter import CostMeter, _integrals
from gpufleet.replay.fleet_prices import FleetPrices, NodePrice
from gpufleet.replay.idle import typical_gpu_shapes
from gpufleet.replay.results import FleetCost
from gpufleet.replay.timeline import TimelineRun
from gpufleet.replay.trace import Trace
from tests.replay.small_traces import set_up, trace_of_rows

EURO = 1_000_000
TWO_GPUS = ("n,64000,1024,2,T4",)


def cost_of(trace: Trace, prices: dict[str, NodePrice]) -> FleetCost:
    measured, _ = set_up(trace)
    by_node = {NodeName(name): price for name, price in prices.items()}
    meter = CostMeter(measured.engine, typical_gpu_shapes(trace.tasks), FleetPrices("EUR", by_node))
    play = TimelineRun(measured, trace, sum(len(node.devices) for node in trace.nodes), meter)
    play.run()
    cost = play.result().cost
    assert cost is not None
    return cost


def amounts(cost: FleetCost) -> dict[tuple[str, str], int]:
    return {(one.bucket, one.reason): one.amount_micro for one in cost.buckets}


def test_two_gpus_for_two_hours(tmp_path: Path) -> None:
    """a holds one GPU for an hour, b half of the other one from then on for an hour; 3 EUR are for both GPUs.

    Half of the requests are a whole GPU. In the first hour one GPU is wholly free, in the second one and a
    half: b's other half is of no use to requests like a.
    """
    trace = trace_of_rows(
        tmp_path, TWO_GPUS, "creation_time,duration_s", "a,1,1,1,1000,0,3600", "b,1,1,1,500,3600,3600"
    )
    cost = cost_of(trace, {"n": NodePrice(3 * EURO, 1 * EURO)})
    assert cost.amount_micro == 2 * (3 + 1) * EURO
    assert amounts(cost) == {
        ("host", ""): 2 * EURO,
        ("unmeasured", ""): 1_500_000 + 750_000,
        ("idle-free", ""): 1_500_000 + 1_500_000 + 375_000,
        ("stranded", "scraps"): 375_000,
    }
    held = next(one for one in cost.buckets if one.bucket == "unmeasured")
    half = len(held.series_micro) // 2
    assert (sum(held.series_micro[:half]), sum(held.series_micro[half:])) == (1_500_000, 750_000)


def test_what_lacks_cpu_is_stranded_and_a_node_without_a_price_is_in_no_amount(tmp_path: Path) -> None:
    """a takes all CPU of the node, so its second GPU is of use to no request like a."""
    nodes = ("n,1000,1024,2,T4", "m,1000,1024,4,A10")
    trace = trace_of_rows(tmp_path, nodes, "gpu_spec,creation_time,duration_s", "a,1000,1,1,1000,T4,0,3600")
    cost = cost_of(trace, {"n": NodePrice(2 * EURO, 0)})
    assert amounts(cost) == {("unmeasured", ""): EURO, ("stranded", "cpu"): EURO}
    assert cost.unpriced_gpus == 4


@settings(max_examples=30, deadline=None)
@given(
    tasks=st.lists(
        st.tuples(st.sampled_from([250, 333, 500, 1000]), st.integers(0, 50), st.integers(1, 50)),
        min_size=1,
        max_size=8,
    ),
    prices=st.tuples(st.integers(1, 10**12), st.integers(0, 10**12), st.integers(1, 10**12)),
)
def test_buckets_and_intervals_add_up_to_the_price_of_the_nodes(
    tmp_path_factory: object, tasks: list[tuple[int, int, int]], prices: tuple[int, int, int]
) -> None:
    folder = tmp_path_factory.mktemp("trace")  # type: ignore[attr-defined]
    rows = [f"t{place},1,1,1,{milli},{at},{took}" for place, (milli, at, took) in enumerate(tasks)]
    trace = trace_of_rows(
        folder, ("n,64000,1024,3,T4", "m,64000,1024,2,T4"), "creation_time,duration_s", *rows
    )
    of_n, host, of_m = prices
    cost = cost_of(trace, {"n": NodePrice(of_n, host), "m": NodePrice(of_m, 0)})
    assert sum(one.amount_micro for one in cost.buckets) == cost.amount_micro
    for one in cost.buckets:
        assert sum(one.series_micro) == one.amount_micro
    begin = min(at for _, at, _ in tasks)
    measured, _ = set_up(trace)
    play = TimelineRun(measured, trace, 5)
    play.run()
    seconds = play.result().makespan_s
    assert abs(cost.amount_micro - (of_n + host + of_m) * seconds / 3600) <= 0.5 + 1e-6 * cost.amount_micro
    assert begin >= 0


def test_a_rate_that_jumps_is_added_up_between_edges() -> None:
    """2 from 0, 5 from 4, 0 from 6: by hand 2x3, 2x1 + 5x2, and nothing."""
    assert list(_integrals([(0, 2), (4, 5), (6, 0)], [0, 3, 6, 9])) == [6, 12, 0]
