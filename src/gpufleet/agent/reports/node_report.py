"""What this node reports of its GPUs and their holders, as a value: the spec of NodeDevices.

Intent is the grant, and this is the fact: units are what the kubelet gave, whoever was meant to have
them. Only of a share does the grant say what it is, because its slots mean nothing. ``node_devices`` writes
the report.
"""

import re
from collections.abc import Iterable, Iterator, Mapping

import msgspec

from gpufleet.agent.known import Gpu, Held, Holders, NodeGpus, NodePod, NodePods
from gpufleet.agent.kubelet.held_units import UnitOf, find_unit
from gpufleet.agent.plugin.units import REPLICA, device_of
from gpufleet.agent.sharing.memory_watch import Offenders
from gpufleet.devices.facts import Link, MigFacts
from gpufleet.devices.health import Verdict
from gpufleet.devices.sharing.plan import Exclusive, Fractions, Mig, Mps, SharingPlan, TimeSlice, replicas_of
from gpufleet.kube import keys
from gpufleet.kube.objects import node_devices as wire
from gpufleet.model import gpu_model
from gpufleet.model.device import WHOLE_GPU_MILLI
from gpufleet.model.grant import GrantKind
from gpufleet.model.identifiers import DeviceId
from gpufleet.model.mig_boards import BOARDS

REASON_LENGTH = 1024
FOREIGN_LENGTH = 256
DRIVER_LENGTH = 128
HOLDERS_MOST = 16_384
DEVICES_MOST = 1024
"""As many as a report may list."""

_PROFILE = re.compile(r"[0-9]+g\.[0-9]+gb([+.-][a-z.]+)?")
_STARTS = range(8)


def node_report(
    gpus: NodeGpus, holders: Holders, pods: NodePods, offenders: Offenders | None = None
) -> wire.NodeDevicesSpec:
    """The report in a fixed order, so that equal facts are equal reports."""
    groups = link_groups(gpus)
    listed = lists_replicas(gpus)
    devices = tuple(device for gpu in gpus.gpus for device in _devices(gpu, groups[gpu.uuid], listed=listed))
    held = report_holders(gpus, holders, pods)
    if offenders:
        held = tuple(_with_use(holder, offenders) for holder in held)
    return wire.NodeDevicesSpec(gpus.boot_id, _driver(gpus), devices, held)


def _with_use(holder: wire.Holder, offenders: Offenders) -> wire.Holder:
    """A share whose pod uses more memory than it has, with what it uses."""
    used_mib = offenders.get((holder.pod_uid, DeviceId(holder.device)))
    if used_mib is None or holder.kind != wire.SHARE:
        return holder
    return msgspec.structs.replace(holder, used_memory_mib=used_mib)


def link_groups(gpus: NodeGpus) -> dict[DeviceId, int]:
    """GPUs that reach each other over the fastest kind of link of the node have one number.

    Where nothing is known of links, or none is faster than the way between processors, all have one.
    """
    fastest = max(gpus.links.values(), default=Link.UNKNOWN)
    if fastest <= Link.SYSTEM:
        return {gpu.uuid: 0 for gpu in gpus.gpus}
    groups: dict[DeviceId, int] = {}
    for number, first in enumerate(gpus.gpus):
        reached = [first.uuid] if first.uuid not in groups else []
        while reached:
            here = reached.pop()
            groups[here] = number
            reached += (
                other.uuid
                for other in gpus.gpus
                if other.uuid not in groups and gpus.link(here, other.uuid) is fastest
            )
    return {gpu.uuid: groups[gpu.uuid] for gpu in gpus.gpus}


def report_holders(gpus: NodeGpus, holders: Holders, pods: NodePods) -> tuple[wire.Holder, ...]:
    """Who holds which part of which GPU: each part once for each pod, under its last container."""
    places = {gpu.uuid: place for place, gpu in enumerate(gpus.gpus)}
    listed = lists_replicas(gpus)
    by_pod: dict[tuple[str, str, str], dict[tuple[str, str], wire.Holder]] = {}
    for held in holders:
        pod = pods.get(held.pod_uid)
        parts = by_pod.setdefault((held.pod_uid, held.namespace, held.pod), {})
        for key, holder in _parts(held, pod, gpus, listed=listed):
            parts[key] = holder
    found = [holder for parts in by_pod.values() for holder in _joined(parts)]
    found.sort(
        key=lambda one: (
            places.get(DeviceId(device_of(one.device)), len(places)),
            one.device,
            -1 if one.mig_start is None else one.mig_start,
            one.pod_uid,
            one.container,
            one.foreign,
        )
    )
    return tuple(found[:HOLDERS_MOST])


def _driver(gpus: NodeGpus) -> str:
    if len(gpus.drivers) == 1:
        return gpus.drivers[0].version[:DRIVER_LENGTH]
    return ", ".join(f"{driver.vendor.value} {driver.version}" for driver in gpus.drivers)[:DRIVER_LENGTH]


def lists_replicas(gpus: NodeGpus) -> bool:
    """Whether each replica is a device of the report. Where a node has too many, each GPU is one whole
    device, on which one pod of ours is placed.
    """
    return sum(_replicas(gpu) for gpu in gpus.gpus) <= DEVICES_MOST


def _replicas(gpu: Gpu) -> int:
    """How many replicas of a GPU may be granted one by one: those under the name of whole GPUs."""
    return 1 if gpu.plan.renamed else replicas_of(gpu.plan.mode)


def _devices(gpu: Gpu, link_group: int, *, listed: bool) -> Iterator[wire.ReportedDevice]:
    """What can be granted of a GPU: itself, or each replica of it under the id that the kubelet knows."""
    whole, count = _device(gpu, link_group), _replicas(gpu)
    if count == 1 or not listed:
        yield whole
        return
    memory_mib = _replica_mib(gpu, count)
    for number in range(count):
        yield msgspec.structs.replace(whole, id=f"{gpu.uuid}{REPLICA}{number}", usable_memory_mib=memory_mib)


def _replica_mib(gpu: Gpu, count: int) -> int | None:
    """The memory of one replica: MPS's limit as far as the card has so much, or its part of what all have."""
    mode, usable_mib = gpu.plan.mode, _amount(gpu.usable_mib)
    if isinstance(mode, Mps) and mode.memory_mib is not None:
        known = (mode.memory_mib, usable_mib, _amount(gpu.facts.memory_mib))
        return min(amount for amount in known if amount is not None)
    return None if usable_mib is None else _amount(usable_mib // count)


def _device(gpu: Gpu, link_group: int) -> wire.ReportedDevice:
    facts = gpu.facts
    healthy = gpu.health is Verdict.HEALTHY
    return wire.ReportedDevice(
        id=facts.uuid,
        vendor=facts.vendor.value,
        model=_model(facts.product),
        memory_mib=_amount(facts.memory_mib),
        usable_memory_mib=_amount(gpu.usable_mib),
        numa_node=facts.numa_node,
        link_group=link_group,
        sharing=sharing(gpu.plan),
        mig_instances=tuple(_instances(gpu)),
        health=gpu.health.value,
        health_reason="" if healthy else gpu.reason[:REASON_LENGTH],
    )


def _amount(memory_mib: int | None) -> int | None:
    """Memory that there is; a driver that says 0 or less does not know."""
    return memory_mib if memory_mib is not None and 0 < memory_mib < 2**31 else None


def _model(product: str) -> str:
    """The catalogue's name, or the driver's as a label has it."""
    known = gpu_model.find(product)
    return product.replace(" ", "-")[:128] if known is None else str(known.name)


def sharing(plan: SharingPlan) -> str:
    """What a GPU serves, seen from the scheduler.

    Replicas under the name of whole GPUs are asked for as whole GPUs, and each is one; those under a name of
    their own are an extended resource that the kubelet counts.
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


def _instances(gpu: Gpu) -> Iterator[wire.MigInstance]:
    if not isinstance(gpu.plan.mode, Mig):
        return
    for instance in sorted(gpu.facts.mig, key=lambda one: (one.start is None, one.start or 0, one.profile)):
        if instance.start is not None and _is_placed(instance):
            yield wire.MigInstance(instance.profile, instance.start)


def _is_placed(instance: MigFacts) -> bool:
    """Whether it is one of those that a scheduler can name: by profile and first slice."""
    return instance.start in _STARTS and _PROFILE.fullmatch(instance.profile) is not None


def _parts(
    held: Held, pod: NodePod | None, gpus: NodeGpus, *, listed: bool
) -> Iterator[tuple[tuple[str, str], wire.Holder]]:
    """The parts of GPUs that a container's units are; each with a key that is the same for the same part."""
    if held.resource == keys.GPU_SHARE:
        for holder in _shares(held, pod):
            yield (holder.device, ""), holder
        return
    for unit in held.units:
        found = find_unit(gpus, unit)
        if found is not None:
            one = unit if listed and _replicas(found.gpu) > 1 else ""
            yield (found.gpu.uuid, unit), _holder(held, pod, found, one)


def _shares(held: Held, pod: NodePod | None) -> Iterator[wire.Holder]:
    """Nobody but the grant knows what a slot is; without one its container was given nothing."""
    for part in () if pod is None or pod.grant is None else pod.grant.containers:
        if part.container == held.container:
            for device in part.devices:
                if device.kind is GrantKind.SHARE:
                    yield wire.Holder(
                        device.id,
                        held.pod_uid,
                        held.container,
                        GrantKind.SHARE.value,
                        device.gpu_milli,
                        device.memory_mib,
                    )


def _holder(held: Held, pod: NodePod | None, unit: UnitOf, replica: str) -> wire.Holder:
    """What a unit is; ``replica`` is its id where it is a device of the report by itself."""
    holder = wire.Holder(
        replica or unit.gpu.uuid,
        held.pod_uid,
        held.container,
        foreign=""
        if pod is not None and pod.grant is not None
        else f"{held.namespace}/{held.pod}"[:FOREIGN_LENGTH],
    )
    if unit.instance is not None:
        return _of_instance(holder, unit.gpu, unit.instance, unit.sharers)
    if replica:
        return msgspec.structs.replace(holder, memory_mib=_replica_mib(unit.gpu, unit.sharers))
    if unit.sharers == 1:
        return msgspec.structs.replace(holder, memory_mib=_amount(unit.gpu.usable_mib))
    mode = unit.gpu.plan.mode
    memory_mib = mode.memory_mib if isinstance(mode, Mps) else None
    return msgspec.structs.replace(
        holder, kind=GrantKind.SHARE.value, gpu_milli=WHOLE_GPU_MILLI // unit.sharers, memory_mib=memory_mib
    )


def _of_instance(holder: wire.Holder, gpu: Gpu, instance: MigFacts, sharers: int) -> wire.Holder:
    """An instance as its parent's part; where nobody can say where it lies, as a share."""
    milli = _instance_milli(gpu, instance) // sharers
    if sharers > 1 or instance.start is None or not _is_placed(instance):
        memory_mib = instance.memory_mib if sharers == 1 else None
        share = GrantKind.SHARE.value
        return msgspec.structs.replace(holder, kind=share, gpu_milli=milli, memory_mib=memory_mib)
    return msgspec.structs.replace(
        holder,
        kind=GrantKind.MIG.value,
        gpu_milli=milli,
        memory_mib=instance.memory_mib,
        mig_profile=instance.profile,
        mig_start=instance.start,
    )


def _instance_milli(gpu: Gpu, instance: MigFacts) -> int:
    """Its compute slices of those of the board; all of it where the board is in no table."""
    model = gpu_model.find(gpu.facts.product)
    board = None if model is None else BOARDS.get(model.name)
    slices = instance.profile.partition("g.")[0]
    if board is None or not slices.isdecimal():
        return WHOLE_GPU_MILLI
    return min(WHOLE_GPU_MILLI, WHOLE_GPU_MILLI * int(slices) // board.compute_slices)


def _joined(parts: Mapping[tuple[str, str], wire.Holder]) -> Iterable[wire.Holder]:
    """Several parts of one device that a pod holds are one larger part."""
    found: dict[tuple[str, int | None, str], wire.Holder] = {}
    for holder in parts.values():
        key = (holder.device, holder.mig_start, holder.kind)
        other = found.get(key)
        found[key] = holder if other is None else _sum(other, holder)
    return found.values()


def _sum(one: wire.Holder, other: wire.Holder) -> wire.Holder:
    known = one.memory_mib is not None and other.memory_mib is not None
    memory_mib = _amount((one.memory_mib or 0) + (other.memory_mib or 0)) if known else None
    milli = min(WHOLE_GPU_MILLI, one.gpu_milli + other.gpu_milli)
    return msgspec.structs.replace(other, gpu_milli=milli, memory_mib=memory_mib)
