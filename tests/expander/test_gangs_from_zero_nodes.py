"""Gangs from zero nodes beside a stand-in for Cluster Autoscaler: the nodes of a whole gang, and no more.

Nodes come up to fourteen minutes late, have no GPUs at first, or fail and are bought anew. `make bench-scale`
tells the same stories over 1,000 seeds.
"""

from random import Random

import pytest

from tests.expander.autoscaler_stand_in import NEVER, Choose, StandIn, alone, story, with_the_expander

DURATION_S = 4 * 3600
SEEDS = range(15)
TOGETHER = 3
SEEDS_TOGETHER = range(5, 15)
SEEDS_WITH_FAULTS = range(9, 14)


def fits(run: StandIn) -> bool:
    """Whether the groups may have as many nodes as the gang has members for them."""
    groups = [one.group for one in run.waiting.values() if one.gang not in NEVER]
    return all(groups.count(group.name) <= group.size_max for group in run.groups)


def test_a_gang_gets_its_nodes_exactly_and_one_that_can_never_be_whole_gets_none() -> None:
    for seed in SEEDS:
        run = story(seed, with_the_expander())
        expected = len(run.waiting) if fits(run) else 0
        run.run(DURATION_S)
        found = (run.bought - run.failed, len(run.running), run.empty_nodes)
        assert found == (expected, expected, 0), f"seed {seed}"


@pytest.mark.parametrize("restarts", [False, True], ids=["without restarts", "with restarts"])
def test_several_gangs_together_get_as_many_nodes_as_they_use(*, restarts: bool) -> None:
    """Some fit beside others and some do not, nodes join minutes apart, and groups fail for a while."""
    runs = [
        told(seed, with_the_expander(Random(seed) if restarts else None), TOGETHER) for seed in SEEDS_TOGETHER
    ]
    for seed, run in zip(SEEDS_TOGETHER, runs, strict=True):
        assert (run.bought - run.failed, run.empty_nodes) == (len(run.running), 0), f"seed {seed}"
    # What is asked for here could be had by buying nothing.
    assert all(run.running for run in runs if run.can_start_one)


def test_a_gang_stays_whole_through_exhausted_zones_nodes_that_are_taken_back_and_restarts() -> None:
    """One node more for each that was taken back. None for a gang beyond its quota, and for one whose members
    do not come, which wait beside it.
    """
    runs = [story(seed, with_the_expander(Random(seed)), faults=True) for seed in SEEDS_WITH_FAULTS]
    whole = [fits(run) for run in runs]
    for seed, run, is_whole in zip(SEEDS_WITH_FAULTS, runs, whole, strict=True):
        members = sum(one.gang not in NEVER for one in run.waiting.values())
        run.run(DURATION_S)
        left = run.bought - run.failed - run.taken_back
        assert (run.broken_gangs, run.given_back) == (0, 0), f"seed {seed}"
        # A gang that waits for its last node, as a zone is exhausted, has those that are there.
        assert left == len(run.running) or (not run.running and left < members), f"seed {seed}"
        assert is_whole or not run.bought, f"seed {seed}"
        assert len(run.running) in {0, members}, f"seed {seed}"
    assert sum(run.taken_back for run in runs) > 0
    assert sum(len(run.running) > 0 for run in runs) > sum(whole) * 3 // 4


def told(seed: int, choose: Choose, gangs: int) -> StandIn:
    run = story(seed, choose, gangs)
    run.run(DURATION_S)
    return run


def test_the_stand_in_alone_buys_for_gangs_that_can_never_be_whole() -> None:
    """What the test above asks for could be missed: some gangs do not fit, and some nodes fail."""
    runs = [story(seed, alone(Random(seed))) for seed in SEEDS]
    assert 0 < sum(fits(run) for run in runs) < len(runs)
    for run in runs:
        run.run(DURATION_S)
    assert sum(run.empty_nodes for run in runs) > 0
    assert sum(run.failed for run in runs) > 0
