"""What a node offers to claims, as values: pools of devices, and the slices that they are written in.

Each vendor's driver has a pool of the node's cards. Pools carry the node's name and the driver's, because
Kubernetes up to 1.36 mixed up counters of two drivers whose pools have one name. ``slice_publisher`` makes
the API server say the same.
"""

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping

import msgspec

from gpufleet.agent.dra import amd_devices, intel_devices, nvidia_devices
from gpufleet.agent.dra.offered_device import OfferedDevice
from gpufleet.agent.state.node_state import Gpu, NodeGpus
from gpufleet.devices.facts import Driver
from gpufleet.kube.objects.resource_slices import (
    ResourceSliceSpec,
    WrittenDevice,
    WrittenPool,
)
from gpufleet.model.gpu_catalogue import Vendor

DEVICES_MOST = 64
"""Devices of one slice: the API server takes 64 where one of them has a taint, which any may get."""

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
    """The devices of one driver on one node."""

    driver: str
    node: str
    devices: tuple[OfferedDevice, ...] = ()

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
    node: NodeGpus, gives: Callable[[Gpu], bool], root: Roots = no_root
) -> tuple[DevicePool, ...]:
    """The pools of the cards that ``gives`` leaves to claims; no pool for a vendor without cards here."""
    drivers = {one.vendor: one for one in node.drivers}
    found = []
    for vendor, driver in DRIVERS.items():
        cards = [gpu for gpu in node.gpus if gpu.facts.vendor is vendor]
        if cards:
            given = (gpu for gpu in cards if gives(gpu))
            devices = (one for gpu in given for one in _devices(gpu, drivers.get(vendor), root))
            found.append(DevicePool(driver, node.node, tuple(devices)))
    return tuple(found)


def pool_slices(pool: DevicePool, generation: int) -> tuple[ResourceSliceSpec, ...]:
    """The slices of a pool; one without devices has an empty slice, so that it is seen to be whole."""
    groups = tuple(_grouped([one.written for one in pool.devices]))
    part = WrittenPool(pool.name, generation, len(groups))
    return tuple(
        ResourceSliceSpec(pool.driver, part, node_name=pool.node, devices=devices) for devices in groups
    )


def slice_name(pool: DevicePool, number: int) -> str:
    """The name of a slice, equal after every restart, so that none is made twice."""
    digest = hashlib.sha256(f"{pool.node}/{pool.driver}".encode()).hexdigest()[:8]
    # Room for the driver, the number and the digest in a name of 253 characters.
    return f"{pool.node[:160]}-{pool.driver}-{digest}-{number}"


def without_tainted(pool: DevicePool) -> DevicePool:
    """The pool without devices that are out of service, for a server that knows no taints."""
    well = tuple(one for one in pool.devices if not one.written.taints)
    return DevicePool(pool.driver, pool.node, well)


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
