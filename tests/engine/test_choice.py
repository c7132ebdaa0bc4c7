"""Which devices of a node a pod gets: link groups against trying every subset, and simple cases."""

import itertools
import random
from collections import Counter

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


def cards(chosen: tuple[object, ...]) -> list[str]:
    """The cards of which these are replicas."""
    return [str(one).partition("::")[0] for one in chosen]


def replicas(counts: dict[str, int], link_groups: dict[str, int] | None = None) -> tuple[Device, ...]:
    """So many replicas of each card."""
    groups = link_groups or {}
    return tuple(
        device(f"{card}::{number}", link_group=groups.get(card, 0))
        for card, count in counts.items()
        for number in range(count)
    )


@pytest.mark.parametrize("policy", [BY_LINKS, Policy("lowest")], ids=lambda policy: policy.name)
@pytest.mark.parametrize("seed", seeds(100))
def test_replicas_for_one_pod_come_from_as_many_cards_as_can_be(policy: Policy, seed: int) -> None:
    """No other choice would have fewer on the card that is used the most, or the next, and so on."""
    chance = random.Random(seed)
    counts = {f"G{number}": chance.randint(1, 4) for number in range(chance.randint(1, 4))}
    devices = replicas(counts, {card: chance.randrange(3) for card in counts})
    told = Story(policy)
    told.nodes(node("n", devices=devices))
    busy = [one for one in devices if chance.random() < 0.4]
    for one in busy:
        told.run_on(pod(f"at {one.id}", shape(1)), "n", str(one.id))
    free = [str(one.id) for one in devices if one not in busy]
    count = chance.randint(1, 6)
    told.arrive(pod("p", shape(count)))
    if count > len(free):
        assert "p" not in told.binds
        return
    chosen = told.binds["p"][1]
    assert len(set(chosen)) == count
    assert set(map(str, chosen)) <= set(free)
    crowds = (
        sorted(Counter(cards(each)).values(), reverse=True) for each in itertools.combinations(free, count)
    )
    assert sorted(Counter(cards(chosen)).values(), reverse=True) == min(crowds)


def test_another_card_is_better_than_a_fast_link_to_oneself() -> None:
    told = Story(BY_LINKS)
    told.nodes(node("n", devices=replicas({"A": 2, "B": 1, "C": 1}, {"A": 0, "B": 1, "C": 1})))
    told.arrive(pod("p", shape(2)))
    assert told.binds["p"][1] == ("B::0", "C::0")


def test_instances_of_one_card_are_pieces_of_their_own() -> None:
    told = Story(BY_LINKS)
    ids = ("A::1g.5gb@0", "A::1g.5gb@1", "B::1g.5gb@0::0", "B::1g.5gb@0::1")
    told.nodes(node("n", devices=tuple(map(device, ids))))
    told.arrive(pod("p", shape(3)))
    assert told.binds["p"][1] == ids[:3]
