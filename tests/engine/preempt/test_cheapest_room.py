"""Of pods that may go, those make room for a gang of equal pods that cost the least together."""

import itertools
import random

import pytest

from gpufleet.engine import event
from gpufleet.engine.preempt import cheapest_room
from gpufleet.engine.preempt.candidates import LOST_STEP, Unit, cost_of
from gpufleet.engine.preempt.cheapest_room import NOTHING, Held, chosen_from, options_on, weights_of
from gpufleet.model.identifiers import DeviceId, NodeName
from tests.engine.effort import seeds
from tests.engine.fleet_builder import Story, binds, evicted, gang, node, pod, shape

Node = tuple[int, list[Held]]
"""Free GPUs of a node, and the pods there that may go."""


def random_nodes(chance: random.Random) -> list[Node]:
    """Two or three nodes with three pods each."""
    rows = itertools.count()

    def one() -> Held:
        lost = chance.randint(0, 9) * chance.choice((1, LOST_STEP))
        unit = Unit(chance.randint(-2, 2), False, lost, (next(rows),))
        return Held(chance.randint(1, 4), unit)

    return [(chance.randint(0, 3), [one() for _ in range(3)]) for _ in range(chance.randint(2, 3))]


def members_of(nodes: list[Node], gone: set[Unit], gpus: int) -> int:
    """How many members have room once these are gone."""
    return sum((free + sum(one.gpus for one in held if one.unit in gone)) // gpus for free, held in nodes)


def found_in(nodes: list[Node], gpus: int, missing: int) -> list[Unit]:
    """What the search finds for so many more members."""
    weights = weights_of(one.unit for _, held in nodes for one in held)
    options = [options_on(held, free, gpus, missing, weights) for free, held in nodes]
    return list(chosen_from([[NOTHING, *one] for one in options], missing))


def added_up(units: list[Unit]) -> tuple[int, int, int]:
    """The costs of a set that are sums; fewer come first."""
    _, _, _, pods_and_lost, _, _, priorities, lost = cost_of(units, for_gang=True)
    return pods_and_lost, priorities, lost


@pytest.mark.parametrize("seed", seeds(60))
def test_no_set_of_all_costs_less(seed: int) -> None:
    chance = random.Random(seed)
    nodes, gpus, missing = random_nodes(chance), chance.randint(1, 4), chance.randint(1, 4)
    units = [one.unit for _, held in nodes for one in held]
    wanted = members_of(nodes, set(), gpus) + missing
    sets = itertools.chain.from_iterable(
        itertools.combinations(units, size) for size in range(1, len(units) + 1)
    )
    enough = [added_up(list(gone)) for gone in sets if members_of(nodes, set(gone), gpus) >= wanted]
    found = found_in(nodes, gpus, missing)
    if not enough:
        assert not found
        return
    assert members_of(nodes, set(found), gpus) >= wanted
    assert added_up(found) == min(enough)


def test_of_many_nodes_those_go_first_where_a_member_costs_the_least(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """On each node one pod of four GPUs, or four of one: six members of two GPUs need three of the former."""
    monkeypatch.setattr(cheapest_room, "STEPS_MAX", 0)
    rows = itertools.count()
    large = [(0, [Held(4, Unit(0, False, 1, (next(rows),)))]) for _ in range(3)]
    small = [(0, [Held(1, Unit(0, False, 1, (next(rows),))) for _ in range(4)]) for _ in range(3)]
    assert [unit.rows for unit in found_in([*small, *large], 2, 6)] == [(0,), (1,), (2,)]


def test_many_young_pods_go_rather_than_one_that_has_run_for_long() -> None:
    """Eight GPUs for two hours are 16 GPU hours, and one pod; eight pods that just began count as eight."""
    told = Story()
    told.queue("team")
    large = pod("large", shape(8), queue="team")
    told.nodes(node("n0", 8))
    name, devices = binds(told.arrive(large))["large"]
    told.happen(event.PodBound(large, NodeName(name), tuple(map(DeviceId, devices)), told.at_us))
    told.wait_s(2 * 3600)
    told.nodes(node("n1", 8))
    told.arrive(*(pod(f"small-{number}", shape(1), queue="team") for number in range(8)))
    told.wait_s(1)
    members = [pod(f"g{number}", shape(2), queue="team", gang="g", priority=1) for number in range(4)]
    said = told.happen(event.GangSet(gang("g", 4, queue="team", priority=1)), *map(event.PodAdded, members))
    assert set(evicted(said)) == {f"small-{number}" for number in range(8)}


def test_one_large_pod_goes_rather_than_many_small_ones() -> None:
    told = Story()
    told.queue("team")
    told.nodes(node("n0", 8))
    told.arrive(*(pod(f"small-{number}", shape(1), queue="team") for number in range(8)))
    told.nodes(node("n1", 8), node("n2", 8))
    told.arrive(*(pod(f"more-{number}", shape(1), queue="team") for number in range(8)))
    told.arrive(pod("large", shape(8), queue="team"))
    members = [pod(f"g{number}", shape(2), queue="team", gang="g", priority=1) for number in range(4)]
    said = told.happen(event.GangSet(gang("g", 4, queue="team", priority=1)), *map(event.PodAdded, members))
    assert set(evicted(said)) == {"large"}
