"""Which devices of a node a pod gets: link groups against trying every subset, and simple cases."""

import itertools
import random
from collections import Counter
from collections.abc import Callable, Sequence

import pytest

from gpufleet.engine.policy import Policy, WholeChoice
from gpufleet.model.device import Device
from gpufleet.model.shape import Within
from tests.engine.effort import seeds
from tests.engine.fleet_builder import Story, device, node, pod, shape, share

BY_LINKS = Policy("by-links", whole_choice=WholeChoice.BY_LINK_GROUP)


Together = Callable[[Device], int | None]


def link_of(one: Device) -> int | None:
    """The link group of a device."""
    return one.link_group


def numa_of(one: Device) -> int | None:
    """The NUMA node of a device."""
    return one.numa_node


def smallest_that_suffices(free: Sequence[Device], count: int, together: Together) -> list[list[Device]]:
    """The smallest groups that have enough; none if no group has."""
    by_group: dict[int | None, list[Device]] = {}
    for one in free:
        by_group.setdefault(together(one), []).append(one)
    enough = [group for group in by_group.values() if len(group) >= count]
    least = min(map(len, enough), default=0)
    return [group for group in enough if len(group) == least]


def best_sets(free: list[Device], count: int) -> list[tuple[Device, ...]]:
    """From the smallest link group that suffices; else over as few link groups as can be, within the
    smallest NUMA node that suffices, or anywhere.
    """
    linked = smallest_that_suffices(free, count, link_of)
    if linked:
        return [chosen for group in linked for chosen in itertools.combinations(group, count)]
    found: list[tuple[Device, ...]] = []
    for place in smallest_that_suffices(free, count, numa_of) or [free]:
        choices = list(itertools.combinations(place, count))
        fewest = min(len(set(map(link_of, chosen))) for chosen in choices)
        found += [chosen for chosen in choices if len(set(map(link_of, chosen))) == fewest]
    return found


def random_devices(chance: random.Random) -> tuple[Device, ...]:
    """Up to eight GPUs in up to four link groups on up to two NUMA nodes."""
    return tuple(
        device(
            f"n/{index}",
            link_group=chance.randrange(4),
            numa_node=chance.choice((None, 0, 1)),
            healthy=chance.random() < 0.8,
        )
        for index in range(chance.randint(1, 8))
    )


@pytest.mark.parametrize("seed", seeds(300))
def test_whole_gpus_are_as_near_each_other_as_can_be(seed: int) -> None:
    chance = random.Random(seed)
    devices = random_devices(chance)
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


@pytest.mark.parametrize("policy", [BY_LINKS, Policy("lowest")], ids=lambda policy: policy.name)
@pytest.mark.parametrize(("within", "together"), [(Within.LINK_GROUP, link_of), (Within.NUMA_NODE, numa_of)])
@pytest.mark.parametrize("seed", seeds(100))
def test_who_asks_for_gpus_near_each_other_gets_them_so_or_none(
    seed: int, within: Within, together: Together, policy: Policy
) -> None:
    chance = random.Random(seed)
    devices = random_devices(chance)
    free = [one for one in devices if one.healthy]
    count = chance.randint(2, 4)
    told = Story(policy)
    told.nodes(node("n", devices=devices))
    told.arrive(pod("p", shape(count, within=within)))
    allowed = [{str(one.id) for one in group} for group in smallest_that_suffices(free, count, together)]
    if allowed:
        assert any({str(one) for one in told.binds["p"][1]} <= group for group in allowed)
    else:
        assert "p" not in told.binds


def test_a_node_with_linked_gpus_goes_before_one_where_they_are_apart() -> None:
    """By the account of worth alone the fuller node ``apart`` would be better."""
    told = Story("gpufleet")
    apart = tuple(device(f"apart/{index}", link_group=index) for index in range(2))
    told.nodes(node("apart", devices=apart), node("linked", 8, link_group_size=2))
    told.arrive(pod("p", shape(2)))
    assert told.binds["p"][0] == "linked"


def test_gpus_of_one_numa_node_go_before_others_that_have_no_link_either() -> None:
    told = Story("gpufleet")
    spread = tuple(device(f"a/{index}", link_group=index, numa_node=index) for index in range(2))
    near = tuple(device(f"b/{index}", link_group=index, numa_node=index // 2) for index in range(4))
    told.nodes(node("a", devices=spread), node("b", devices=near))
    told.arrive(pod("p", shape(2)))
    assert told.binds["p"] == ("b", ("b/0", "b/1"))


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
