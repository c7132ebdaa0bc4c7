"""The devices of the cluster by node, as claims are served from them.

What a node can reach is worked out when it is asked for, and again when a slice, a class or the node changed.
Slices of one pool may lie on several nodes; of such a pool every change concerns all nodes.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from gpufleet.dra_allocation.allocator import Allocator
from gpufleet.dra_allocation.claims import DeviceClass
from gpufleet.dra_allocation.pools import SliceIndex
from gpufleet.dra_allocation.preference import LeastLoss
from gpufleet.dra_allocation.slices import NodeFacts, ResourceSlice
from gpufleet.engine.place.relations.alike_nodes import AlikeNodes, PoolName
from gpufleet.engine.place.relations.node_answers import NodeAnswers
from gpufleet.engine.place.relations.valued_nodes import ValuedNodes
from gpufleet.model.node import Node


@dataclass(frozen=True, slots=True, eq=False)
class NodeDevices:
    """What a node can reach: its pools, and what allocates from them."""

    allocator: Allocator
    pools: tuple[PoolName, ...]


class DeviceCatalogue:
    """Slices and classes by name, and the devices of each node; ``answers`` are made of them."""

    def __init__(self, answers: NodeAnswers) -> None:
        self._answers = answers
        self.slices: dict[str, ResourceSlice] = {}
        self.classes: dict[str, DeviceClass] = {}
        self.class_changes = 0
        self._by_pool: dict[PoolName, dict[str, ResourceSlice]] = {}
        self.alike_nodes = AlikeNodes(self._by_pool)
        self.valued_nodes = ValuedNodes(self.slices)
        self._index: SliceIndex | None = None
        self._nodes: dict[str, NodeDevices] = {}

    def set_slice(self, one: ResourceSlice) -> bool:
        """A slice is there or changed; False where it was known so."""
        if self.slices.get(one.name) == one:
            return False
        self.remove_slice(one.name)
        self.slices[one.name] = one
        pool = (one.driver, one.pool.name)
        self._by_pool.setdefault(pool, {})[one.name] = one
        self.alike_nodes.add(one)
        self._forget_nodes_of(pool)
        return True

    def remove_slice(self, name: str) -> bool:
        """A slice is gone; False where it was not known."""
        one = self.slices.pop(name, None)
        if one is None:
            return False
        pool = (one.driver, one.pool.name)
        self._forget_nodes_of(pool)
        self.alike_nodes.remove(one)
        del self._by_pool[pool][name]
        if not self._by_pool[pool]:
            del self._by_pool[pool]
        return True

    def set_class(self, one: DeviceClass) -> bool:
        """A class is there or changed; False where it was known so."""
        if self.classes.get(one.name) == one:
            return False
        self.classes[one.name] = one
        self.class_changes += 1
        self._forget_all()
        return True

    def remove_class(self, name: str) -> bool:
        """A class is gone; False where it was not known."""
        if self.classes.pop(name, None) is None:
            return False
        self.class_changes += 1
        self._forget_all()
        return True

    def slices_of(self, pool: PoolName) -> Iterable[ResourceSlice]:
        """The slices of a pool."""
        return self._by_pool.get(pool, {}).values()

    def of(self, node: Node) -> NodeDevices:
        """What a node can reach."""
        found = self._nodes.get(node.name)
        if found is None:
            found = self._nodes[node.name] = self._devices_of(node)
        return found

    def forget(self, nodes: Iterable[str]) -> None:
        """These nodes were described anew: they may reach other slices."""
        nodes = list(nodes)
        self.alike_nodes.forget(nodes)
        for name in nodes:
            self._nodes.pop(name, None)

    def held_anew(self, pools: Iterable[PoolName]) -> None:
        """Other devices of these pools are held than before."""
        for pool in pools:
            nodes = self._nodes_of(pool)
            if nodes is None:
                self._answers.forget_all()
            else:
                self._answers.forget(nodes)

    def _devices_of(self, node: Node) -> NodeDevices:
        if self._index is None:
            self._index = SliceIndex(self.slices.values())
        pools = self._index.pools(NodeFacts(node.name, node.labels))
        allocator = Allocator(node.name, pools, self.classes, order=LeastLoss())
        return NodeDevices(allocator, tuple((pool.driver, pool.name) for pool in pools))

    def _forget_nodes_of(self, pool: PoolName) -> None:
        self._index = None
        self.valued_nodes.forget()
        nodes = self._nodes_of(pool)
        if nodes is not None and len(nodes) == 1:
            self.forget(nodes)
            self._answers.forget(nodes)
        else:
            self._forget_all()

    def _nodes_of(self, pool: PoolName) -> set[str] | None:
        """The nodes on which a pool lies; None where it is not on single nodes."""
        reaches = [one.reach for one in self._by_pool.get(pool, {}).values()]
        nodes = {"" if reach is None else reach.node_name for reach in reaches}
        return None if "" in nodes else nodes

    def _forget_all(self) -> None:
        self._nodes.clear()
        self.alike_nodes.forget_all()
        self._answers.forget_all()
