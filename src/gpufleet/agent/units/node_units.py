"""What the kubelet counts: which resources a node's GPUs are, and the units of each.

A whole GPU is a unit under its UUID, a replica of one ``UUID::n``, and a MIG instance or a partition
of an AMD GPU one under its own id, each with the NUMA node of its GPU. Names of resources are those
of the vendors' own plugins, so that other schedulers and people's files find what they know. Shares
of gpufleet have no units here: their slots are offered elsewhere, and a GPU is offered once.
"""

from collections.abc import Iterable, Iterator, Mapping

import msgspec

from gpufleet.agent.state.node_state import Gpu, NodeGpus
from gpufleet.devices.facts import GpuFacts, MigFacts
from gpufleet.devices.health import Verdict
from gpufleet.devices.sharing.plan import Fractions, Mig, replicas_of
from gpufleet.devices.sharing.plugin_plans import resource_name
from gpufleet.model.device_id import SEPARATOR
from gpufleet.model.gpu_catalogue import Vendor
from gpufleet.model.identifiers import DeviceId
from gpufleet.model.resource_names import AMD_GPU, INTEL_GPU_I915, INTEL_GPU_XE, NVIDIA_GPU

# What NVIDIA's plugin appends to a resource that is shared, if it is renamed.
SHARED = ".shared"
AMD_PREFIX = "amd.com/"
REPLICA = SEPARATOR


class Unit(msgspec.Struct, frozen=True):
    """One unit of a resource, as the kubelet counts it. ``id`` has at most 63 characters."""

    id: str
    healthy: bool = True
    numa_node: int | None = None


class GpuUnit(msgspec.Struct, frozen=True):
    """One unit, and what stands behind it: a GPU, or the ``instance`` of one.

    ``replica`` is None where it has one holder. ``one_at_most`` refuses a container that asks for more than
    one such unit.
    """

    id: str
    resource: str
    gpu: DeviceId
    instance: str = ""
    replica: int | None = None
    healthy: bool = True
    numa_node: int | None = None
    one_at_most: bool = False

    @property
    def device(self) -> str:
        """The id of the GPU or the instance, whichever it is."""
        return self.instance or self.gpu

    @property
    def offered(self) -> Unit:
        """As the kubelet is told of it."""
        return Unit(self.id, self.healthy, self.numa_node)


Units = Mapping[str, GpuUnit]
"""Units by their ids, in the order of the node's GPUs."""


def node_units(node: NodeGpus, *, amd_mixed: bool = False) -> Units:
    """All units that this node offers as whole devices.

    Partitions of AMD's GPUs are ``amd.com/gpu`` like whole GPUs, or, with ``amd_mixed`` and wherever a
    node's GPUs differ, are named after their kind (amd.com/cpx_nps4).
    """
    by_kind = amd_mixed or len(_amd_kinds(node)) > 1
    units = (unit for gpu in node.gpus for unit in _units(gpu, amd_by_kind=by_kind))
    return {unit.id: unit for unit in units}


def by_resource(units: Units) -> dict[str, list[GpuUnit]]:
    """Units under the resources that they are."""
    found: dict[str, list[GpuUnit]] = {}
    for unit in units.values():
        found.setdefault(unit.resource, []).append(unit)
    return found


def device_of(unit: str) -> str:
    """The id of the GPU or the instance behind a unit of this name, also of one that is offered no more."""
    return unit.partition(REPLICA)[0]


class UnitOf(msgspec.Struct, frozen=True):
    """A unit's GPU, its MIG instance if it is of one, and how many units share that."""

    gpu: Gpu
    instance: MigFacts | None = None
    sharers: int = 1


def find_unit(gpus: NodeGpus, unit: str) -> UnitOf | None:
    """What a unit is; None for the slot of a share, and for what is not on this node any more."""
    uuid = device_of(unit)
    replicated = unit != uuid
    for gpu in gpus.gpus:
        if gpu.uuid == uuid:
            return UnitOf(gpu, None, replicas_of(gpu.plan.mode) if replicated else 1)
        instance = gpu.instance(uuid)
        if instance is not None:
            sharers = replicas_of(gpu.plan.mode, instance.profile) if replicated else 1
            return UnitOf(gpu, instance, sharers)
    return None


def _amd_kinds(node: NodeGpus) -> set[str]:
    """The kinds of devices that AMD's GPUs on this node are; empty for a whole one."""
    facts = [gpu.facts for gpu in node.gpus if gpu.facts.vendor is Vendor.AMD]
    return {kind for one in facts for kind in ([part.profile for part in one.mig] or [""])}


def _units(gpu: Gpu, *, amd_by_kind: bool) -> Iterator[GpuUnit]:
    mode = gpu.plan.mode
    whole = _whole_name(gpu.facts)
    match mode:
        case Fractions():
            return
        case Mig():
            for part in gpu.facts.mig:
                yield from _replicated(
                    gpu,
                    whole if mode.as_gpus else _part_name(gpu.facts, part, amd_by_kind=amd_by_kind),
                    replicas_of(mode, part.profile),
                    part.uuid,
                )
        case _:
            yield from _replicated(gpu, whole, replicas_of(mode))


def _replicated(gpu: Gpu, resource: str, count: int, instance: str = "") -> Iterable[GpuUnit]:
    """So many units of one GPU or instance."""
    one = GpuUnit(
        id=instance or gpu.uuid,
        resource=resource,
        gpu=gpu.uuid,
        instance=instance,
        healthy=gpu.health is Verdict.HEALTHY and instance not in gpu.sick_instances,
        numa_node=gpu.facts.numa_node,
    )
    if count == 1:
        return (one,)
    name = resource + SHARED if gpu.plan.renamed else resource
    return (
        msgspec.structs.replace(
            one,
            id=f"{one.id}{REPLICA}{number}",
            resource=name,
            replica=number,
            one_at_most=gpu.plan.one_at_most,
        )
        for number in range(count)
    )


def _whole_name(gpu: GpuFacts) -> str:
    """The resource that a whole GPU is."""
    match gpu.vendor:
        case Vendor.AMD:
            return AMD_GPU
        case Vendor.INTEL:
            return INTEL_GPU_XE if gpu.kernel_driver == "xe" else INTEL_GPU_I915
        case _:
            return NVIDIA_GPU


def _part_name(gpu: GpuFacts, part: MigFacts, *, amd_by_kind: bool) -> str:
    """The resource that an instance or a partition is."""
    if gpu.vendor is Vendor.NVIDIA:
        return resource_name(part.profile)
    return f"{AMD_PREFIX}{part.profile}" if amd_by_kind and part.profile else AMD_GPU
