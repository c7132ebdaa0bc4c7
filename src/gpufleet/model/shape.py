"""A shape: everything about a pod that decides where it may run.

Pods with equal shapes are interchangeable for placement, so the engine works out eligibility
and scores once a shape, not once a pod.
"""

import enum

import msgspec

from gpufleet.model.device import WHOLE_GPU_MILLI
from gpufleet.model.identifiers import GpuModelName
from gpufleet.model.labels import NodeAffinity
from gpufleet.model.relations import NO_RELATIONS, Relations
from gpufleet.model.resources import Resources
from gpufleet.model.taint import Toleration

ANYWHERE = NodeAffinity()


class Within(enum.IntEnum):
    """How near to each other the GPUs of one pod must be: anywhere on the node, on one NUMA node, or on one
    fast link (``Device.link_group``). What a machine does not tell does not divide it.
    """

    NODE = 0
    NUMA_NODE = 1
    LINK_GROUP = 2


class GpuRequest(msgspec.Struct, frozen=True, cache_hash=True, gc=False):
    """GPUs asked for: ``count`` devices with ``gpu_milli`` of each.

    1000 milli is a whole device, and then nothing else runs on it. Below that the request is a
    share of ``count`` devices; ``memory_mib`` is the share's memory per device, None meaning
    in proportion to the milli. A share by memory alone has ``gpu_milli`` 0 and a memory.
    ``models`` lists the GPU models accepted, empty meaning any. With ``model_order`` they are tried group
    by group: a later group only where no earlier one has room, and quota, now. ``within`` is for several
    whole devices.
    """

    count: int = 0
    gpu_milli: int = 0
    memory_mib: int | None = None
    models: tuple[GpuModelName, ...] = ()
    model_order: tuple[tuple[GpuModelName, ...], ...] = ()
    within: Within = Within.NODE

    @property
    def whole(self) -> bool:
        """True if entire devices are asked for."""
        return self.count > 0 and self.gpu_milli == WHOLE_GPU_MILLI

    @property
    def total_milli(self) -> int:
        """Thousandths of a GPU over all devices asked for."""
        return self.count * self.gpu_milli


class Shape(msgspec.Struct, frozen=True, cache_hash=True, gc=False):
    """What a pod needs and which nodes it accepts.

    ``resources.pods`` is ignored: a pod takes one place. ``node_selector`` holds (label, value)
    pairs sorted by label, all of which must hold together with ``affinity`` and with each of
    ``volume_affinities`` (where the pod's volumes can be used). ``features`` are the node features
    that must be declared, sorted. ``gpu_resource`` is the name under which whole GPUs are asked for,
    which tells the vendor; "" for any. ``relations`` is what other pods decide.
    """

    resources: Resources = Resources()
    gpu: GpuRequest = GpuRequest()
    node_selector: tuple[tuple[str, str], ...] = ()
    affinity: NodeAffinity = ANYWHERE
    tolerations: tuple[Toleration, ...] = ()
    volume_affinities: tuple[NodeAffinity, ...] = ()
    features: tuple[str, ...] = ()
    relations: Relations = NO_RELATIONS
    gpu_resource: str = ""
