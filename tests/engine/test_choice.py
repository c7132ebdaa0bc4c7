"""Which devices of a node a pod gets: link groups against trying every subset, and simple cases."""

import itertools
import random

import pytest

from gpufleet.engine.policy import Policy, WholeChoice
from gpufleet.model.device import Device
from tests.engine.effort import seeds
from tests.engine.fleet_builder import Story, device, node, pod, shape, share

BY_LINKS = Policy("by-links", whole_choice=WholeChoice.BY_LINK_GROUP)


def groups(devices: tuple[Device, ...]) -> set[int]:
    """Link groups that these devices belong to."""
    return {one.link_group for one in devices}


def best_sets(free: list[Device], count: int) -> list[tuple[Device, ...]]:
    """Every choice over as few link groups as can be; of one group alone, from the smallest."""
    choices = list(itertools.combinations(free, count))
    fewest = min(len(groups(chosen)) for chosen in choices)
    choices = [chosen for chosen in choices if len(groups(chosen)) == fewest]
    if fewest > 1:
        return choices
    size = {group: sum(one.link_group == group for one in free) for group in groups(tuple(free))}
    smallest = min(size[chosen[0].link_group] for chosen in choices)
    return [chosen for chosen in choices if size[chosen[0].link_group] == smallest]


@pytest.mark.parametrize("seed", seeds(200))
def test_whole_gpus_come_from_the_best_link_groups(seed: int) -> None:
    chance = random.Random(seed)
    devices = tuple(
        device(f"n/{index}", link_group=chance.randrange(4), healthy=chance.random() < 0.8)
        for index in range(chance.randint(1, 8))
    )
    free = [one for one in devices if one.healthy]
    count = chance.randint(1, 8)
    told = Story(BY_LINKS)
    told.nodes(node("n", devices=devices))
    told.arrive(pod("p", shape(count)))
    if count > len(free):
        assert "p" not in told.binds
        return
    chosen = {str(one) for one in told.binds["p"][1]}
    if count == 1:
        assert chosen == {str(free[0].id)}
    else:
        assert chosen in [{str(one.id) for one in best} for best in best_sets(free, count)]


def test_a_pair_comes_from_the_smaller_group_so_that_the_larger_stays_whole() -> None:
    told = Story(BY_LINKS)
    links = (0, 0, 0, 0, 1, 1)
    told.nodes(node("n", devices=tuple(device(f"n/{i}", link_group=group) for i, group in enumerate(links))))
    told.arrive(pod("pair", shape(2)), pod("four", shape(4)))
    assert told.binds["pair"][1] == ("n/4", "n/5")
    assert told.binds["four"][1] == ("n/0", "n/1", "n/2", "n/3")


def test_a_share_of_several_gpus_gets_distinct_ones() -> None:
    told = Story()
    told.nodes(node("n", 3))
    told.run_on(pod("x", share(600)), "n", "n/2")
    told.arrive(pod("p", shape(3, milli=400)), pod("q", shape(3, milli=400)))
    assert told.binds["p"][1] == ("n/2", "n/0", "n/1")
    assert "q" not in told.binds
