"""Which nodes have alike devices for claims, so that one of them can answer for all of them."""

from collections import Counter
from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass

from gpufleet.dra_allocation.likeness import SliceContent, content_of, labelled
from gpufleet.dra_allocation.slices import NodeFacts, ResourceSlice
from gpufleet.engine.arrays.numbering import Numbering
from gpufleet.model.node import Node

PoolName = tuple[str, str]
"""A driver, and the name of a pool of its."""

SlicesByName = Mapping[str, ResourceSlice]


@dataclass(frozen=True, slots=True, eq=False)
class NodeLikeness:
    """What alike nodes have in common, and the pools that are the node's own, in the order of ``common``."""

    common: Hashable
    pools: tuple[PoolName, ...]


@dataclass(frozen=True, slots=True, eq=False)
class _Known:
    """A slice, the number of its content, and the values that name single devices of it."""

    number: int
    single: tuple[Hashable, ...]


class AlikeNodes:
    """The slices by what they offer, and the nodes by what their slices offer together."""

    def __init__(self, by_pool: Mapping[PoolName, SlicesByName]) -> None:
        self._by_pool = by_pool
        self._contents: Numbering[Hashable] = Numbering()
        self._users: Counter[int] = Counter()
        self._known: dict[str, _Known] = {}
        self._local: dict[str, dict[str, ResourceSlice]] = {}
        self._shared: dict[str, ResourceSlice] = {}
        self._nodes: dict[str, NodeLikeness | None] = {}
        self.kinds: dict[int, ResourceSlice] = {}
        """A slice of each content that there is."""
        self.kind_changes = 0

    def add(self, one: ResourceSlice) -> None:
        """A slice is there that was not known."""
        found: SliceContent = content_of(one)
        number = self._contents.hold(found.content)
        self._known[one.name] = _Known(number, found.single)
        self._users[number] += 1
        if self._users[number] == 1:
            self.kinds[number] = one
            self.kind_changes += 1
        self._of_same_reach(one)[one.name] = one

    def remove(self, one: ResourceSlice) -> None:
        """A slice is gone."""
        number = self._known.pop(one.name).number
        self._contents.drop(number)
        self._users[number] -= 1
        if not self._users[number]:
            del self._users[number]
            del self.kinds[number]
            self.kind_changes += 1
        del self._of_same_reach(one)[one.name]
        if one.reach is not None and not self._local.get(one.reach.node_name, True):
            del self._local[one.reach.node_name]

    def contents_by_node(self) -> set[tuple[int, ...]]:
        """The numbers of the contents that a node may reach, for each kind of node; shared slices for all."""
        shared = [self._known[name].number for name in self._shared]
        local = ([self._known[name].number for name in here] for here in (*self._local.values(), {}))
        return {tuple(sorted([*shared, *numbers])) for numbers in local}

    def _of_same_reach(self, one: ResourceSlice) -> dict[str, ResourceSlice]:
        if one.reach is None or not one.reach.node_name:
            return self._shared
        return self._local.setdefault(one.reach.node_name, {})

    def forget(self, nodes: Iterable[str]) -> None:
        """These nodes were described anew, or a slice of theirs changed."""
        for name in nodes:
            self._nodes.pop(name, None)

    def forget_all(self) -> None:
        """Something changed that may concern all nodes."""
        self._nodes.clear()

    def of(self, node: Node) -> NodeLikeness | None:
        """What alike nodes have in common; None where a pool of the node lies on other nodes, too."""
        if node.name not in self._nodes:
            self._nodes[node.name] = self._likeness(node)
        return self._nodes[node.name]

    def _likeness(self, node: Node) -> NodeLikeness | None:
        local = sorted(
            self._local.get(node.name, {}).values(), key=lambda one: (one.driver, one.pool.name, one.name)
        )
        slices: dict[PoolName, list[ResourceSlice]] = {}
        for one in local:
            slices.setdefault((one.driver, one.pool.name), []).append(one)
        if any(len(here) != len(self._by_pool[pool]) for pool, here in slices.items()):
            return None
        parts = []
        for place, here in enumerate(slices.values()):
            newest = max(one.pool.generation for one in here)
            parts += [
                # Only which generation is the newest counts, and drivers count for each node.
                (place, newest - one.pool.generation, one.pool.slice_count, self._known[one.name].number)
                for one in here
            ]
        shared = [(one.name, reached) for one, reached in self._reached(node)]
        single = [self._known[name].single for name, _ in shared]
        single += [self._known[one.name].single for one in local]
        return NodeLikeness((tuple(parts), tuple(shared), labelled(single)), tuple(slices))

    def _reached(self, node: Node) -> list[tuple[ResourceSlice, tuple[bool, ...]]]:
        """The slices of no single node that the node reaches, and which devices of each."""
        facts = NodeFacts(node.name, node.labels)
        return [
            (one, tuple(device.reach is None or device.reach.accepts(facts) for device in one.devices))
            for one in self._shared.values()
            if one.accepts(facts)
        ]
