"""What a node offers to claims, as values: pools of devices, and the slices that they are written in.

Each vendor's driver has a pool of the node's cards. Pools carry the node's name and the driver's, because
Kubernetes up to 1.36 mixed up counters of two drivers whose pools have one name. ``slice_publisher`` makes
the API server say the same.
"""

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping

import msgspec

from gpufleet.agent.dra import amd_devices, intel_devices, mig_partitions, nvidia_devices
from gpufleet.agent.dra.offered_device import OfferedDevice
from gpufleet.agent.state.node_state import Gpu, NodeGpus
from gpufleet.devices.facts import Driver
from gpufleet.kube.objects.resource_slices import (
    ResourceSliceSpec,
    WrittenCounterSet,
    WrittenDevice,
    WrittenPool,
)
from gpufleet.model.gpu_catalogue import Vendor

DEVICES_MOST = 64
"""Devices of one slice: the API server takes 64 where one of them has a taint, which any may get."""

COUNTER_SETS_MOST = 8
"""What the API server takes in one slice; each card that is cut for claims has one."""

POOL_NAME_LONGEST = 253
"""What the API server takes as the name of a pool."""

DRIVERS = {
    Vendor.NVIDIA: nvidia_devices.DRIVER,
    Vendor.AMD: amd_devices.DRIVER,
    Vendor.INTEL: intel_devices.DRIVER,
}
"""The driver under whose name cards of a vendor are offered."""

Roots = Callable[[str | None], str]
"""The PCIe root complex above a PCI address; empty where it is not known."""


def no_root(_: str | None) -> str:
    """An unknown root complex."""
    return ""


class DevicePool(msgspec.Struct, frozen=True):
    """The devices of one driver on one node, with the counters that they draw from."""

    driver: str
    node: str
    devices: tuple[OfferedDevice, ...] = ()
    counters: tuple[WrittenCounterSet, ...] = ()

    @property
    def name(self) -> str:
        """The pool's name in slices and claims."""
        return pool_name(self.node, self.driver)

    def device(self, name: str) -> OfferedDevice | None:
        """The device of this name."""
        return next((one for one in self.devices if one.name == name), None)


def pool_name(node: str, driver: str) -> str:
    """A pool's name: another one for each node and driver."""
    name = f"{node}/{driver}"
    if len(name) <= POOL_NAME_LONGEST:
        return name
    digest = hashlib.sha256(node.encode()).hexdigest()[:16]
    return f"{digest}/{driver}"


def device_pools(
    node: NodeGpus, gives: Callable[[Gpu], bool], root: Roots = no_root, *, cuts: bool = False
) -> tuple[DevicePool, ...]:
    """The pools of the cards that ``gives`` leaves to claims; no pool for a vendor without cards here.

    ``cuts``: cards that can be cut are offered as all that can be made of them.
    """
    drivers = {one.vendor: one for one in node.drivers}
    found = []
    for vendor, driver in DRIVERS.items():
        cards = [gpu for gpu in node.gpus if gpu.facts.vendor is vendor]
        if cards:
            given = [gpu for gpu in cards if gives(gpu)]
            found.append(_pool(driver, node.node, given, drivers.get(vendor), root, cuts=cuts))
    return tuple(found)


def _pool(
    name: str, node: str, cards: Iterable[Gpu], driver: Driver | None, root: Roots, *, cuts: bool
) -> DevicePool:
    devices: list[OfferedDevice] = []
    counters: list[WrittenCounterSet] = []
    for gpu in cards:
        is_nvidia = gpu.facts.vendor is Vendor.NVIDIA
        geometry = mig_partitions.geometry_to_cut(gpu) if cuts and is_nvidia else None
        if geometry is None:
            devices += _devices(gpu, driver, root)
            continue
        above = root(gpu.facts.pci_bus_id)
        counter_set, parts = mig_partitions.partitions(gpu, geometry, driver, above)
        counters.append(counter_set)
        devices += parts
    return DevicePool(name, node, tuple(devices), tuple(counters))


def pool_slices(pool: DevicePool, generation: int) -> tuple[ResourceSliceSpec, ...]:
    """The slices of a pool; one without devices has an empty slice, so that it is seen to be whole."""
    groups = tuple(_grouped([one.written for one in pool.devices]))
    places = range(0, len(pool.counters), COUNTER_SETS_MOST)
    sets = [pool.counters[begin : begin + COUNTER_SETS_MOST] for begin in places]
    part = WrittenPool(pool.name, generation, len(sets) + len(groups))
    # Counters first: a server that keeps none says so before a device that needs them is written.
    return (
        *(ResourceSliceSpec(pool.driver, part, node_name=pool.node, shared_counters=one) for one in sets),
        *(ResourceSliceSpec(pool.driver, part, node_name=pool.node, devices=one) for one in groups),
    )


def slice_name(pool: DevicePool, number: int) -> str:
    """The name of a slice, equal after every restart, so that none is made twice."""
    digest = hashlib.sha256(f"{pool.node}/{pool.driver}".encode()).hexdigest()[:8]
    # Room for the driver, the number and the digest in a name of 253 characters.
    return f"{pool.node[:160]}-{pool.driver}-{digest}-{number}"


def without_tainted(pool: DevicePool) -> DevicePool:
    """The pool without devices that are out of service, for a server that knows no taints."""
    well = tuple(one for one in pool.devices if not one.written.taints)
    return DevicePool(pool.driver, pool.node, well, pool.counters)


def without_counters(pool: DevicePool) -> DevicePool:
    """The pool with whole cards in place of their parts, for a server that knows no counters."""
    cards = (
        msgspec.structs.replace(one, written=msgspec.structs.replace(one.written, consumes_counters=()))
        for one in pool.devices
        if one.made is None or one.made.place is None
    )
    return DevicePool(pool.driver, pool.node, tuple(cards))


def by_name(pools: Iterable[DevicePool]) -> Mapping[str, DevicePool]:
    """Pools by their names."""
    return {pool.name: pool for pool in pools}


def _devices(gpu: Gpu, driver: Driver | None, root: Roots) -> Iterator[OfferedDevice]:
    above = root(gpu.facts.pci_bus_id)
    match gpu.facts.vendor:
        case Vendor.NVIDIA:
            yield from nvidia_devices.nvidia_devices(gpu, driver, above)
        case Vendor.AMD:
            yield from amd_devices.amd_devices(gpu, driver, above)
        case _:
            yield from intel_devices.intel_devices(gpu, above)


def _grouped(devices: list[WrittenDevice]) -> Iterator[tuple[WrittenDevice, ...]]:
    for begin in range(0, max(1, len(devices)), DEVICES_MOST):
        yield tuple(devices[begin : begin + DEVICES_MOST])
