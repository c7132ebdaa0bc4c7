"""What of a node's GPUs can be granted, as devices of its report.

A GPU is one device. One that is asked for under the name of whole GPUs, but serves several pods, is
several: each replica, and each MIG instance of strategy single. ``model.device_id`` has their ids, and
``node_report`` says which pods hold them.
"""

import re
from collections.abc import Iterator

import msgspec

from gpufleet.agent.reports.service import with_service
from gpufleet.agent.state.node_state import Gpu, NodeGpus
from gpufleet.agent.units.node_units import REPLICA
from gpufleet.devices.facts import MigFacts
from gpufleet.devices.sharing.plan import Exclusive, Fractions, Mig, Mps, SharingPlan, TimeSlice, replicas_of
from gpufleet.kube.objects import node_devices as wire
from gpufleet.model import gpu_model
from gpufleet.model.device_id import DeviceName, MigPlace

DEVICES_MOST = 1024
"""As many as a report may list."""

# As long as the definition of NodeDevices takes.
ID_LENGTH = 63
_PROFILE = re.compile(r"[0-9]+g\.[0-9]+gb([+.-][a-z.]+)?")
_STARTS = range(8)


def lists_parts(gpus: NodeGpus) -> bool:
    """Whether each part of a GPU is a device of the report. Where a node has too many, each GPU is one
    device: a whole one, on which one pod of ours is placed, or a cut one, on which none is.
    """
    return sum(len(parts(gpu)) or 1 for gpu in gpus.gpus) <= DEVICES_MOST


def reported_devices(gpu: Gpu, link_group: int, *, listed: bool) -> Iterator[wire.ReportedDevice]:
    """What can be granted of a GPU: itself, or its parts."""
    whole = _card(gpu, link_group)
    found = parts(gpu) if listed else {}
    if not found:
        yield with_service(whole, gpu)
    for name, instance in found.items():
        part = whole
        if instance is not None:
            memory_mib = amount(instance.memory_mib)
            part = msgspec.structs.replace(
                whole,
                sharing=wire.WHOLE,
                memory_mib=memory_mib,
                usable_memory_mib=memory_mib,
                mig_instances=(),
            )
        if name.replica is not None:
            part = msgspec.structs.replace(part, usable_memory_mib=replica_mib(gpu, instance))
        yield with_service(msgspec.structs.replace(part, id=name.id), gpu, instance)


def parts(gpu: Gpu) -> dict[DeviceName, MigFacts | None]:
    """The parts of a GPU that are asked for as whole GPUs, with the instance that each is or is of."""
    mode = gpu.plan.mode
    found: dict[DeviceName, MigFacts | None] = {}
    if isinstance(mode, Mig):
        for place, instance in _placed(gpu) if mode.as_gpus else ():
            count = replicas_of(mode, instance.profile)
            if count == 1 or not gpu.plan.renamed:
                found |= dict.fromkeys(_replicas(DeviceName(gpu.uuid, place), count), instance)
    elif not gpu.plan.renamed and replicas_of(mode) > 1:
        found |= dict.fromkeys(_replicas(DeviceName(gpu.uuid), replicas_of(mode)))
    # One id that the definition does not take would have the whole report refused.
    return found if all(len(name.id) <= ID_LENGTH for name in found) else {}


def unit_name(unit: str, gpu: Gpu, instance: MigFacts | None) -> DeviceName:
    """What the kubelet's unit would be called as a device of the report."""
    number = unit.partition(REPLICA)[2]
    place = None if instance is None or instance.start is None else MigPlace(instance.profile, instance.start)
    return DeviceName(gpu.uuid, place, int(number) if number.isdecimal() else None)


def replica_mib(gpu: Gpu, instance: MigFacts | None = None) -> int | None:
    """The memory of one replica: MPS's limit as far as the GPU has so much, or its part of what all have."""
    mode = gpu.plan.mode
    of_all = amount(gpu.usable_mib if instance is None else instance.memory_mib)
    if isinstance(mode, Mps) and mode.memory_mib is not None:
        known = (mode.memory_mib, of_all, amount(gpu.facts.memory_mib))
        return min(one for one in known if one is not None)
    count = replicas_of(mode, "" if instance is None else instance.profile)
    return None if of_all is None else amount(of_all // count)


def amount(memory_mib: int | None) -> int | None:
    """Memory that there is; a driver that says 0 or less does not know."""
    return memory_mib if memory_mib is not None and 0 < memory_mib < 2**31 else None


def is_placed(instance: MigFacts) -> bool:
    """Whether it is one of those that a scheduler can name: by profile and first slice."""
    return instance.start in _STARTS and _PROFILE.fullmatch(instance.profile) is not None


def sharing(plan: SharingPlan) -> str:
    """What a GPU serves, seen from the scheduler.

    Replicas under the name of whole GPUs are asked for as whole GPUs, and each is one; those under a name of
    their own are an extended resource that the kubelet counts, and so are instances.
    """
    match plan.mode:
        case Fractions():
            return wire.SHARES
        case Mig():
            return wire.MIG
        case Exclusive():
            return wire.WHOLE
        case TimeSlice() | Mps():
            return wire.NOTHING if plan.renamed else wire.WHOLE


def _replicas(name: DeviceName, count: int) -> Iterator[DeviceName]:
    """The device itself, or so many of it."""
    if count == 1:
        yield name
        return
    for number in range(count):
        yield msgspec.structs.replace(name, replica=number)


def _card(gpu: Gpu, link_group: int) -> wire.ReportedDevice:
    facts = gpu.facts
    return wire.ReportedDevice(
        id=facts.uuid,
        vendor=facts.vendor.value,
        model=_model(facts.product),
        memory_mib=amount(facts.memory_mib),
        usable_memory_mib=amount(gpu.usable_mib),
        numa_node=facts.numa_node,
        link_group=link_group,
        sharing=sharing(gpu.plan),
        mig_instances=tuple(_instances(gpu)),
    )


def _model(product: str) -> str:
    """The catalogue's name, or the driver's as a label has it."""
    known = gpu_model.find(product)
    return product.replace(" ", "-")[:128] if known is None else str(known.name)


def _instances(gpu: Gpu) -> Iterator[wire.MigInstance]:
    if not isinstance(gpu.plan.mode, Mig):
        return
    for place, _ in _placed(gpu):
        yield wire.MigInstance(place.profile, place.start)


def _placed(gpu: Gpu) -> list[tuple[MigPlace, MigFacts]]:
    """The instances that a scheduler can name, by their places in order."""
    found = [
        (MigPlace(one.profile, one.start), one)
        for one in gpu.facts.mig
        if one.start is not None and is_placed(one)
    ]
    return sorted(found, key=lambda one: (one[0].start, one[0].profile))
