"""Victims that never end: whoever they were evicted for is not bound, and nobody else is evicted for it."""

import random

import pytest

from gpufleet.engine import event
from gpufleet.engine.instruction import Bind
from tests.engine.effort import seeds
from tests.engine.preempt.arena import Arena, random_queue, random_tree
from tests.engine.preempt.test_victims_are_worth_it import arrivals


@pytest.mark.parametrize("seed", seeds(16))
def test_fault_20_no_second_round_of_victims_while_the_first_never_ends(seed: int) -> None:
    """A finalizer, a long grace period, a budget: the engine sees a pod that was told to end and is there."""
    chance = random.Random(seed)
    queues = random_tree(chance, 12) if seed % 2 else (random_queue(chance, "team"),)
    arena = Arena(seed, queues=queues, nodes=3)
    for _ in range(10):
        arena.happen(*map(event.PodAdded, arrivals(arena, chance.randint(1, 3))))
    for _ in range(5):
        arena.happen()
    evicted, promised = len(arena.evictions), set(arena.promised)
    arena.story.told_to_end(*arena.ending)
    for _ in range(20):
        arena.story.at_us += 600 * 1_000_000
        said = arena.happen()
        assert [one for one in said if isinstance(one, Bind) and one.uid in promised] == []
    assert len(arena.evictions) == evicted, "a second round"
    assert set(arena.promised) == promised, "their places are still kept"
