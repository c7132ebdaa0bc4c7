"""The devices of the cluster by node, as claims are served from them.

What a node can reach is worked out when it is asked for, and again when a slice, a class or the node's labels
changed. Slices of one pool may lie on several nodes; of such a pool every change concerns all nodes.
"""

from dataclasses import dataclass

from gpufleet.dra_allocation.allocator import Allocator
from gpufleet.dra_allocation.claims import DeviceClass
from gpufleet.dra_allocation.pools import SliceIndex
from gpufleet.dra_allocation.preference import LeastLoss
from gpufleet.dra_allocation.slices import NodeFacts, ResourceSlice
from gpufleet.model.node import Node

PoolName = tuple[str, str]
"""A driver, and the name of a pool of its."""


@dataclass(frozen=True, slots=True, eq=False)
class NodeDevices:
    """What a node can reach: its pools, and what allocates from them."""

    allocator: Allocator
    pools: tuple[PoolName, ...]
    labels: dict[str, str]


class DeviceCatalogue:
    """Slices and classes by name, and the devices of each node."""

    def __init__(self) -> None:
        self.slices: dict[str, ResourceSlice] = {}
        self.classes: dict[str, DeviceClass] = {}
        self._by_pool: dict[PoolName, dict[str, ResourceSlice]] = {}
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
        self._forget_nodes_of(pool)
        return True

    def remove_slice(self, name: str) -> bool:
        """A slice is gone; False where it was not known."""
        one = self.slices.pop(name, None)
        if one is None:
            return False
        pool = (one.driver, one.pool.name)
        self._forget_nodes_of(pool)
        del self._by_pool[pool][name]
        if not self._by_pool[pool]:
            del self._by_pool[pool]
        return True

    def set_class(self, one: DeviceClass) -> bool:
        """A class is there or changed; False where it was known so."""
        if self.classes.get(one.name) == one:
            return False
        self.classes[one.name] = one
        self._nodes.clear()
        return True

    def remove_class(self, name: str) -> bool:
        """A class is gone; False where it was not known."""
        if self.classes.pop(name, None) is None:
            return False
        self._nodes.clear()
        return True

    def of(self, node: Node) -> NodeDevices:
        """What a node can reach."""
        found = self._nodes.get(node.name)
        if found is None or found.labels != node.labels:
            found = self._nodes[node.name] = self._devices_of(node)
        return found

    def _devices_of(self, node: Node) -> NodeDevices:
        if self._index is None:
            self._index = SliceIndex(self.slices.values())
        pools = self._index.pools(NodeFacts(node.name, node.labels))
        allocator = Allocator(node.name, pools, self.classes, order=LeastLoss())
        return NodeDevices(allocator, tuple((pool.driver, pool.name) for pool in pools), node.labels)

    def _forget_nodes_of(self, pool: PoolName) -> None:
        self._index = None
        reaches = [one.reach for one in self._by_pool[pool].values()]
        nodes = {"" if reach is None else reach.node_name for reach in reaches}
        if len(nodes) == 1 and nodes != {""}:
            self._nodes.pop(nodes.pop(), None)
        else:
            self._nodes.clear()
