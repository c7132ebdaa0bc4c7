"""ResourceSlices as values: the devices that drivers offer, by pool.

All slices of one driver and one pool name are a pool (``pools``). Names without a domain are in the
driver's domain.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from gpufleet.device_selectors.selector import Attribute
from gpufleet.dra_allocation.capacity import DeviceCapacity
from gpufleet.model.labels import NodeTerm
from gpufleet.model.quantity import Quantity

NO_SCHEDULE = "NoSchedule"
NO_EXECUTE = "NoExecute"
REPELLING = (NO_SCHEDULE, NO_EXECUTE)
"""Effects of a taint that keep claims from the device; others, those to come among them, do not."""

PCIE_ROOT = "resource.kubernetes.io/pcieRoot"
"""Kubernetes' attribute for the root complex above a device, written pci0000:00."""

NUMA_NODE = "resource.kubernetes.io/numaNode"
"""Kubernetes' attribute for the NUMA node of a device."""

EXISTS = "Exists"
EQUAL = "Equal"


class DeviceId(NamedTuple):
    """What names a device in a cluster."""

    driver: str
    pool: str
    device: str


@dataclass(frozen=True, slots=True)
class NodeFacts:
    """A node, as far as slices select nodes."""

    name: str
    labels: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class NodeReach:
    """From which nodes a device is reached: from one, from all, or from those of a term; else from none."""

    node_name: str = ""
    all_nodes: bool = False
    term: NodeTerm | None = None

    def accepts(self, node: NodeFacts) -> bool:
        """True if the node reaches the device."""
        if self.node_name:
            return node.name == self.node_name
        if self.all_nodes:
            return True
        return self.term is not None and self.term.accepts(node.labels, node.name)


@dataclass(frozen=True, slots=True)
class DeviceTaint:
    """A mark that keeps claims from a device which do not tolerate it."""

    key: str
    value: str = ""
    effect: str = NO_SCHEDULE


@dataclass(frozen=True, slots=True)
class CounterSet:
    """Counters that devices of a pool share, such as the memory slices of one GPU."""

    name: str
    counters: Mapping[str, Quantity]


@dataclass(frozen=True, slots=True)
class CounterUse:
    """How much of a counter set a device takes while it is held.

    Devices that hold one counter set together must have a compatibility group in common, or all none.
    """

    counter_set: str
    counters: Mapping[str, Quantity]
    compatibility_groups: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Device:
    """A device. ``reach`` is None where it is the slice's."""

    name: str
    attributes: Mapping[str, Attribute] = field(default_factory=dict)
    capacity: Mapping[str, DeviceCapacity] = field(default_factory=dict)
    counter_uses: tuple[CounterUse, ...] = ()
    reach: NodeReach | None = None
    taints: tuple[DeviceTaint, ...] = ()
    binds_to_node: bool = False
    binding_conditions: tuple[str, ...] = ()
    binding_failure_conditions: tuple[str, ...] = ()
    is_shareable: bool = False
    """Many claims may hold it at once, as far as its capacity goes (``allowMultipleAllocations``)."""


@dataclass(frozen=True, slots=True)
class PoolPart:
    """Which pool a slice is part of, and of how many slices the pool is made in this generation."""

    name: str
    generation: int
    slice_count: int


@dataclass(frozen=True, slots=True)
class ResourceSlice:
    """A slice. ``reach`` is None where each device has its own."""

    name: str
    driver: str
    pool: PoolPart
    reach: NodeReach | None
    devices: tuple[Device, ...] = ()
    counter_sets: tuple[CounterSet, ...] = ()
    skips_node_operations: bool = False
    """The kubelet is not to prepare its devices: not served here, as by kubelets that do not know it."""

    def accepts(self, node: NodeFacts) -> bool:
        """True if the node reaches one of its devices."""
        if self.reach is not None:
            return self.reach.accepts(node)
        return any(device.reach is not None and device.reach.accepts(node) for device in self.devices)
