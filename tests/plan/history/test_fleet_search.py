"""The search beside two oracles: an integer program where nothing may wait, and all fleets where work may."""

import itertools
from pathlib import Path
from random import Random

import pytest

from gpufleet.model.device import WHOLE_GPU_MILLI
from gpufleet.model.resources import MEBIBYTE, Resources
from gpufleet.model.shape import GpuRequest, Shape
from gpufleet.plan.history.bought_fleet import can_hold, cost_micro
from gpufleet.plan.history.demand import Demand
from gpufleet.plan.history.fleet_search import FleetSearch, busiest_fleet, largest_below
from gpufleet.plan.history.fleet_trials import FleetTrials
from gpufleet.plan.history.service_level import read_level
from gpufleet.plan.instance_types import InstanceType
from gpufleet.plan.small_purchases import Bin
from gpufleet.plan.waiting_work import items_of_counts
from gpufleet.replay.trace_tasks import TaskRecord
from tests.plan.small_problems import optimum

HOUR_US = 3_600 * 10**6


def a_type(name: str, gpus: int, price: int, cpus: int = 16) -> InstanceType:
    size = cpus * gpus * 1000, 64 * gpus * 1024
    return InstanceType(name, gpus, "L4", 24_576, *size, price, "USD", node_names=f"new-{name}")


def a_shape(gpus: int, cpus: int = 1) -> Shape:
    return Shape(Resources(cpus * 1000, 1024 * MEBIBYTE), GpuRequest(gpus, WHOLE_GPU_MILLI))


def searched(demand: Demand, types: tuple[InstanceType, ...], level: str) -> tuple[FleetSearch, FleetTrials]:
    trials = FleetTrials(demand, (), types, (read_level(level),), "best-fit")
    search = FleetSearch(types, trials.holds, lambda _: None)
    search.run(busiest_fleet(demand, types))
    return search, trials


def random_types(random: Random) -> tuple[InstanceType, ...]:
    sizes = random.sample((1, 2, 4, 8), 3)
    return tuple(
        a_type(f"t{gpus}", gpus, round(100 * gpus * random.uniform(0.8, 1.3)), random.choice((8, 12, 24)))
        for gpus in sizes
    )


@pytest.mark.parametrize("seed", range(8))
def test_where_nothing_may_wait_the_cost_is_that_of_the_integer_program(seed: int) -> None:
    """All is asked for at one moment, so the level is a packing of nodes. At most 5 % more is allowed."""
    random = Random(seed)
    types = random_types(random)
    shapes = [a_shape(random.choice((1, 1, 2, 4)), random.choice((1, 4, 16))) for _ in range(3)]
    kept = [one for one in dict.fromkeys(shapes) if any(can_hold(kind, one) for kind in types)]
    counts = {shape: random.randint(1, 5) for shape in kept}
    tasks = [
        TaskRecord(f"t{index}-{number}", shape, 0, HOUR_US)
        for index, (shape, count) in enumerate(counts.items())
        for number in range(count)
    ]
    if not tasks:
        pytest.skip("nothing of this problem fits a node")
    search, _ = searched(Demand(tuple(tasks)), types, "p100=0s")
    items = items_of_counts(counts, types, lambda shape, index: can_hold(types[index], shape))
    # Only GPUs and CPU: memory never runs short here, and the program knows two sizes.
    items = [
        type(item)(item.count, tuple(None if one is None else one[:2] for one in item.sizes))
        for item in items
    ]
    least = optimum(items, [Bin(one.price_micro) for one in types])
    assert search.best is not None
    assert least is not None
    assert least <= search.cost(search.best) <= 1.05 * least


@pytest.mark.parametrize("seed", range(4))
def test_where_work_may_wait_no_fleet_that_costs_less_holds_the_level(seed: int) -> None:
    random = Random(seed)
    types = random_types(random)[:2]
    largest = max(one.gpus for one in types)
    tasks = tuple(
        TaskRecord(
            f"t{number}",
            a_shape(min(largest, random.choice((1, 2, 4)))),
            random.randrange(4 * HOUR_US),
            random.randrange(HOUR_US // 2, 2 * HOUR_US),
        )
        for number in range(12)
    )
    search, trials = searched(Demand(tasks), types, "p90=20m")
    assert search.best is not None
    best = search.cost(search.best)
    held = [
        cost_micro(types, counts)
        for counts in itertools.product(*(range(best // one.price_micro + 1) for one in types))
        if cost_micro(types, counts) < best and trials.holds(counts)
    ]
    assert held == []


def test_fleets_below_a_cost_are_those_that_no_node_can_be_added_to() -> None:
    """Below 10, of nodes at 3 and at 4: three threes; one four and one three; two fours. 9, 7 and 8."""
    types = (a_type("a", 1, 3), a_type("b", 1, 4))
    assert sorted(largest_below(types, 10) or []) == [(0, 2), (1, 1), (3, 0)]


def test_too_many_fleets_are_not_gone_through() -> None:
    assert largest_below(tuple(a_type(f"t{number}", 1, 1) for number in range(8)), 1000) is None


def test_a_fleet_within_one_that_failed_is_not_replayed() -> None:
    replayed: list[tuple[int, ...]] = []

    def holds(counts: tuple[int, ...]) -> bool:
        replayed.append(counts)
        return sum(counts) >= 5

    search = FleetSearch((a_type("a", 1, 3), a_type("b", 1, 4)), holds, lambda _: None)
    search.run((4, 4))
    assert search.best == (5, 0)
    assert search.is_cheapest
    failed = [counts for counts in replayed if sum(counts) < 5]
    for later, counts in enumerate(failed):
        assert not any(all(a <= b for a, b in zip(counts, other, strict=True)) for other in failed[:later])


def test_a_level_that_nothing_holds_ends_the_search(tmp_path: Path) -> None:
    del tmp_path
    search = FleetSearch((a_type("a", 1, 3),), lambda _: False, lambda _: None)
    search.run(None)
    assert (search.best, search.is_cheapest) == (None, False)
