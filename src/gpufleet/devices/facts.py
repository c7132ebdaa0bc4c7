"""What does not change about a GPU while its driver is loaded.

Every backend fills these; a value that the machine does not tell is None, never a guess. ``sample``
has what changes.
"""

import enum

import msgspec

from gpufleet.model.gpu_catalogue import Vendor
from gpufleet.model.identifiers import DeviceId


class Link(enum.IntEnum):
    """The best way between two GPUs, the slowest first."""

    UNKNOWN = 0
    SYSTEM = 1
    """Over the links between processors."""
    NUMA_NODE = 2
    HOST_BRIDGE = 3
    MULTIPLE_SWITCHES = 4
    SINGLE_SWITCH = 5
    BOARD = 6
    DIRECT = 7
    """NVLink, XGMI or Xe Link."""


class Driver(msgspec.Struct, frozen=True):
    """The driver of one vendor on this node. ``runtime_version`` is CUDA's, or ROCm's."""

    vendor: Vendor
    version: str
    runtime_version: str | None = None
    vendor_library_version: str | None = None


class Engines(msgspec.Struct, frozen=True):
    """How many engines beside its processors an instance has; None where the driver does not tell."""

    copy: int | None = None
    decoders: int | None = None
    encoders: int | None = None
    jpeg: int | None = None
    optical_flow: int | None = None


class MigFacts(msgspec.Struct, frozen=True):
    """A MIG instance that exists, or a partition of an AMD GPU (profile "cpx_nps4", ``start`` its number).

    An instance's ``uuid`` changes whenever it is made anew. ``start`` is the memory slice where it begins;
    None where the driver does not tell. ``device_nodes`` are those that a program needs for it beside or,
    on an AMD GPU, in place of its GPU's.
    """

    uuid: str
    profile: str
    start: int | None
    gpu_instance: int
    compute_instance: int
    memory_mib: int | None = None
    multiprocessors: int | None = None
    device_nodes: tuple[str, ...] = ()
    engines: Engines = Engines()


class GpuFacts(msgspec.Struct, frozen=True):
    """One physical GPU.

    ``index`` and ``minor`` may be others after a reboot; ``uuid`` is not. ``product`` is the name in
    the driver's words. ``memory_mib`` is all of it, ``reserved_mib`` what the driver keeps.
    ``device_nodes`` are the paths below /dev that a program needs for this GPU alone. ``mig_enabled``
    is None where the GPU cannot be cut. ``partitioning`` is how an AMD GPU is partitioned, or not
    ("spx_nps1"); None where it cannot be.
    ``kernel_driver`` is told where a vendor has several (Intel: xe or i915).
    """

    uuid: DeviceId
    vendor: Vendor
    index: int
    product: str
    minor: int | None = None
    memory_mib: int | None = None
    reserved_mib: int | None = None
    pci_bus_id: str | None = None
    serial: str | None = None
    numa_node: int | None = None
    compute_capability: tuple[int, int] | None = None
    multiprocessors: int | None = None
    architecture: str | None = None
    brand: str | None = None
    clique: str | None = None
    mig_enabled: bool | None = None
    mig: tuple[MigFacts, ...] = ()
    device_nodes: tuple[str, ...] = ()
    kernel_driver: str | None = None
    pci_class: int | None = None
    """Class, subclass and programming interface: 0x030200 computes, 0x030000 drives displays too."""
    pci_device: int | None = None
    """The maker's number of this kind of device."""
    simd_units: int | None = None
    partitioning: str | None = None


class Fleet(msgspec.Struct, frozen=True):
    """All GPUs of one vendor on this node.

    ``links`` has the best way between each two of them, by UUID, the smaller one first; pairs with an unknown
    link are left out.
    """

    driver: Driver
    gpus: tuple[GpuFacts, ...] = ()
    links: dict[tuple[DeviceId, DeviceId], Link] = {}

    def link(self, one: DeviceId, other: DeviceId) -> Link:
        """The best way between two of them."""
        return self.links.get((min(one, other), max(one, other)), Link.UNKNOWN)

    def gpu(self, uuid: DeviceId) -> GpuFacts | None:
        """The GPU of this UUID."""
        return next((gpu for gpu in self.gpus if gpu.uuid == uuid), None)
