"""Free devices are chosen by how they reach each other, replicas by how many use their card."""

from itertools import combinations

from gpufleet.agent.device_plugin.choice import Choice
from gpufleet.agent.state.node_state import Gpu, NodeGpus
from gpufleet.agent.units.node_units import node_units
from gpufleet.devices.facts import Link
from gpufleet.devices.sharing.plan import TimeSlice
from tests.agent.plugin_world import a_gpu, a_node


def chosen(node: NodeGpus, free: list[str], size: int, *required: str, packed: bool = False) -> list[str]:
    return sorted(Choice(node, node_units(node), packed=packed)(free, required, size))


def eight(links: dict[tuple[int, int], Link]) -> NodeGpus:
    """Two NUMA nodes of four cards each; links that are not named go over the processors."""
    slow = dict.fromkeys(combinations(range(8), 2), Link.SYSTEM)
    return a_node(*(a_gpu(index, numa_node=index // 4) for index in range(8)), links=slow | links)


def ids(*indices: int) -> list[str]:
    return [f"GPU-{index}" for index in indices]


def test_the_pair_with_the_fastest_link_is_chosen() -> None:
    node = eight({(2, 6): Link.DIRECT, (0, 1): Link.SINGLE_SWITCH})
    assert chosen(node, ids(*range(8)), 2) == ids(2, 6)


def test_the_slowest_link_counts_first() -> None:
    ring = dict.fromkeys(combinations((0, 1, 2, 3), 2), Link.SINGLE_SWITCH)
    pairs = {(4, 5): Link.DIRECT, (6, 7): Link.DIRECT}
    assert chosen(eight(ring | pairs), ids(*range(8)), 4) == ids(0, 1, 2, 3)


def test_of_equal_links_one_numa_node_is_chosen() -> None:
    assert chosen(eight({}), ids(0, 1, 4, 5, 6), 3) == ids(4, 5, 6)


def test_a_single_card_is_taken_from_where_the_fewest_are_left() -> None:
    assert chosen(eight({}), ids(0, 4, 5, 6, 7), 1) == ids(0)


def test_a_single_card_does_not_break_a_fast_pair() -> None:
    node = eight({(0, 1): Link.DIRECT})
    assert chosen(node, ids(0, 1, 2), 1) == ids(2)


def test_required_ones_are_among_them_with_what_suits_them() -> None:
    node = eight({(0, 1): Link.DIRECT, (2, 3): Link.DIRECT})
    assert chosen(node, ids(0, 1, 2, 3), 2, "GPU-3") == ids(2, 3)


def test_many_cards_are_chosen_step_by_step() -> None:
    island = dict.fromkeys(combinations(range(4, 12), 2), Link.DIRECT)
    slow = dict.fromkeys(combinations(range(16), 2), Link.SYSTEM)
    node = a_node(*(a_gpu(index) for index in range(16)), links=slow | island)
    assert chosen(node, ids(*range(16)), 8) == sorted(ids(*range(4, 12)))


def shared() -> tuple[NodeGpus, list[str]]:
    """Three cards of three replicas; of the first one is free, of the second all, of the third two."""
    cards: list[Gpu] = [a_gpu(index, TimeSlice(3)) for index in range(3)]
    return a_node(*cards), ["GPU-0::2", "GPU-1::0", "GPU-1::1", "GPU-1::2", "GPU-2::1", "GPU-2::2"]


def test_replicas_are_taken_from_the_card_that_the_fewest_use() -> None:
    node, free = shared()
    assert chosen(node, free, 1) == ["GPU-1::0"]
    assert chosen(node, free, 2) == ["GPU-1::0", "GPU-2::1"]


def test_packed_replicas_are_taken_from_the_card_that_the_most_use() -> None:
    node, free = shared()
    assert chosen(node, free, 1, packed=True) == ["GPU-0::2"]
    assert chosen(node, free, 3, packed=True) == ["GPU-0::2", "GPU-2::1", "GPU-2::2"]


def test_several_replicas_of_one_container_are_on_different_cards() -> None:
    node = a_node(*(a_gpu(index, TimeSlice(3)) for index in range(3)))
    free = list(node_units(node))
    assert [name.partition("::")[0] for name in chosen(node, free, 3)] == ids(0, 1, 2)
