"""The files of fake-gpu-operator as types: every field of its Go structures, by its name in YAML.

``Overrides`` and what it holds are the known part of a profile, which may say much more. ``topology``
makes a machine of them.
"""

from typing import Literal

import msgspec


class _Text(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """A part of the file."""


class DeviceText(_Text, frozen=True):
    """Something that is no GPU."""

    name: str
    count: int


class NumaText(_Text, frozen=True):
    """How a pool's GPUs lie on NUMA nodes."""

    zones: int
    gpus_per_zone: tuple[int, ...] = ()
    topology_manager_policy: str = ""
    topology_manager_scope: str = ""
    cpu_per_zone: str | int = ""
    mem_per_zone: str | int = ""
    distances: dict[str, int] = {}


class GpuText(_Text, frozen=True):
    """A pool's GPUs in the newer form."""

    backend: Literal["fake", "mock"] = "fake"
    profile: str = ""
    overrides: dict[str, object] = {}


class PoolText(_Text, frozen=True):
    """A pool of nodes, in either form."""

    gpu: GpuText | None = None
    numa: NumaText | None = None
    resources: tuple[dict[str, int], ...] = ()
    gpu_product: str = ""
    gpu_count: int = 0
    gpu_memory: int = 0
    other_devices: tuple[DeviceText, ...] = ()


class ClusterText(_Text, frozen=True):
    """The whole file: all pools of nodes."""

    node_pools: dict[str, PoolText]
    node_pool_label_key: str = ""
    mig_strategy: str = ""
    gpu_operator: dict[str, object] | None = None
    components: dict[str, object] | None = None


class NodeGpuText(_Text, frozen=True):
    """One GPU of one node. ``status`` names the pod that was on it when the file was written."""

    id: str
    status: dict[str, object] = {}
    numa_node: int | None = None


class NodeText(_Text, frozen=True):
    """One node."""

    gpus: tuple[NodeGpuText, ...]
    gpu_product: str
    gpu_memory: int = 0
    driver_version: str = ""
    cuda_version: str = ""
    mig_strategy: str = ""
    other_devices: tuple[DeviceText, ...] = ()


class Memory(msgspec.Struct, frozen=True):
    """Memory in a profile's words."""

    total_bytes: int | None = None
    reserved_bytes: int | None = None


class Power(msgspec.Struct, frozen=True):
    """Power in a profile's words."""

    default_limit_mw: int | None = None


class Defaults(msgspec.Struct, frozen=True):
    """What all GPUs of a profile have."""

    name: str | None = None
    memory: Memory = Memory()
    power: Power = Power()


class System(msgspec.Struct, frozen=True):
    """The driver in a profile's words."""

    driver_version: str | None = None
    cuda_version: str | None = None


class Overrides(msgspec.Struct, frozen=True):
    """What a pool says otherwise than its profile."""

    device_count: int = 0
    devices: tuple[dict[str, object], ...] | None = None
    device_defaults: Defaults = Defaults()
    system: System = System()
