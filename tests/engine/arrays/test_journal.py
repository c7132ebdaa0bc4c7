"""What is tried and taken back leaves no trace; what is kept is what a recount finds."""

import random

import pytest

from gpufleet.engine.arrays.layout import PodState
from gpufleet.engine.arrays.tables import Tables
from tests.engine.crowded_fleet import CrowdedFleet
from tests.engine.effort import seeds
from tests.engine.fleet_builder import Story, node, placed, pod, shape
from tests.engine.state_check import check_node, check_rankings

POLICIES_TRIED = ("best-fit", "gpu-packing", "random", "fgd")
UNDONE = (
    "nodes",
    "resources_free",
    "kinds",
    "devices",
    "pods",
    "pod_devices",
    "shapes",
    "shape_resources",
    "shape_models",
)


def snapshot(tables: Tables) -> dict[str, bytes]:
    """Every array that a trial may touch, to the bit."""
    return {field: getattr(tables, field).tobytes() for field in UNDONE}


def try_something(fleet: CrowdedFleet) -> None:
    """Release and place at random inside a trial, perhaps starting over, and keep nothing."""
    state, chance = fleet.story.engine.state, fleet.chance
    with state.trial() as trial:
        for _ in range(chance.randint(1, 3)):
            running = fleet.in_state(PodState.ASSUMED, PodState.BOUND)
            for uid in chance.sample(running, min(len(running), chance.randint(0, 5))):
                trial.release(uid)
            waiting = fleet.in_state(PodState.WAITING)
            for uid in chance.sample(waiting, min(len(waiting), chance.randint(0, 8))):
                trial.place_pod(uid)
            if chance.random() < 0.3:
                trial.undo()


@pytest.mark.parametrize("policy", POLICIES_TRIED)
@pytest.mark.parametrize("seed", seeds(40))
def test_a_trial_that_is_not_kept_restores_every_bit(seed: int, policy: str) -> None:
    fleet = CrowdedFleet(seed, policy)
    state = fleet.story.engine.state
    before = snapshot(state.store.tables)
    try_something(fleet)
    assert snapshot(state.store.tables) == before
    check_rankings(state)


@pytest.mark.parametrize("policy", POLICIES_TRIED)
@pytest.mark.parametrize("seed", seeds(40))
def test_the_arrays_are_what_a_recount_finds(seed: int, policy: str) -> None:
    fleet = CrowdedFleet(seed, policy)
    state = fleet.story.engine.state
    for name, plain in fleet.plain_nodes().items():
        check_node(state, state.fleet.row_by_name[name], plain)
    check_rankings(state)


def test_an_error_inside_a_trial_undoes_it_too() -> None:
    fleet = CrowdedFleet(3)
    state = fleet.story.engine.state
    before = snapshot(state.store.tables)
    fleet.chance = random.Random(1)
    running = fleet.in_state(PodState.ASSUMED, PodState.BOUND)

    def fail() -> None:
        with state.trial() as trial:
            trial.release(running[0])
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert snapshot(state.store.tables) == before


def test_a_step_that_starts_many_pods_keeps_no_journal_of_them() -> None:
    """Eight hundred pods start in one step: no more writes are remembered than one of them takes."""
    told = Story()
    told.nodes(*(node(f"n{number}", 8) for number in range(100)))
    store = told.engine.state.store
    room = len(store.tables.journal)
    assert len(placed(told.arrive(*(pod(f"p{number}", shape(1)) for number in range(800))))) == 800
    assert len(store.tables.journal) == room
