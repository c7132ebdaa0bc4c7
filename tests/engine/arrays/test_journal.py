"""What is tried and taken back leaves no trace; what is kept is what a recount finds."""

import random

import pytest

from gpufleet.engine.arrays.layout import PodState
from gpufleet.engine.arrays.tables import Tables
from tests.engine.books_check import check_node, check_rankings
from tests.engine.crowded_fleet import CrowdedFleet
from tests.engine.effort import seeds

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
    books, chance = fleet.story.engine.books, fleet.chance
    with books.trial() as trial:
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
    books = fleet.story.engine.books
    before = snapshot(books.store.tables)
    try_something(fleet)
    assert snapshot(books.store.tables) == before
    check_rankings(books)


@pytest.mark.parametrize("policy", POLICIES_TRIED)
@pytest.mark.parametrize("seed", seeds(40))
def test_the_arrays_are_what_a_recount_finds(seed: int, policy: str) -> None:
    fleet = CrowdedFleet(seed, policy)
    books = fleet.story.engine.books
    for name, plain in fleet.plain_nodes().items():
        check_node(books, books.fleet.row_by_name[name], plain)
    check_rankings(books)


def test_an_error_inside_a_trial_undoes_it_too() -> None:
    fleet = CrowdedFleet(3)
    books = fleet.story.engine.books
    before = snapshot(books.store.tables)
    fleet.chance = random.Random(1)
    running = fleet.in_state(PodState.ASSUMED, PodState.BOUND)

    def fail() -> None:
        with books.trial() as trial:
            trial.release(running[0])
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert snapshot(books.store.tables) == before
