"""What this node reports of its GPUs and their holders, as a value: the spec of NodeDevices.

Intent is the grant, and this is the fact: units are what the kubelet gave, also where the grant meant another
pod to have them. Only of a share does the grant say what it is, because its slots mean nothing.
``node_devices`` writes the report.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping

import msgspec

from gpufleet.agent.reports.reported_devices import (
    amount,
    is_placed,
    lists_parts,
    parts,
    replica_mib,
    reported_devices,
    unit_name,
)
from gpufleet.agent.sharing.memory_monitor import Offenders
from gpufleet.agent.state.node_state import Held, Holders, NodeGpus, NodePod, NodePods
from gpufleet.agent.units.instance_part import instance_part
from gpufleet.agent.units.node_units import UnitOf, device_of, find_unit
from gpufleet.devices.facts import Link, MigFacts
from gpufleet.devices.sharing.plan import Mps
from gpufleet.kube import keys
from gpufleet.kube.objects import node_devices as wire
from gpufleet.model.device import WHOLE_GPU_MILLI
from gpufleet.model.device_id import DeviceName
from gpufleet.model.grant import GrantKind
from gpufleet.model.identifiers import DeviceId
from gpufleet.model.mig_part import part_milli

# As much as the definition of NodeDevices takes.
FOREIGN_LENGTH = 256
# As much as the definition of NodeDevices takes.
DRIVER_LENGTH = 128
# As many as the definition of NodeDevices takes.
HOLDERS_MOST = 16_384
# As many as the definition of NodeDevices takes of one holder.
UNITS_MOST = 1024


def node_report(
    gpus: NodeGpus,
    holders: Holders,
    pods: NodePods,
    offenders: Offenders | None = None,
    offered_since: str = "",
) -> wire.NodeDevicesSpec:
    """The report in a fixed order, so that equal facts are equal reports."""
    groups, listed = link_groups(gpus), lists_parts(gpus)
    devices = tuple(
        device for gpu in gpus.gpus for device in reported_devices(gpu, groups[gpu.uuid], listed=listed)
    )
    held = report_holders(gpus, holders, pods)
    if offenders:
        held = tuple(_with_use(holder, offenders) for holder in held)
    return wire.NodeDevicesSpec(gpus.boot_id, _driver(gpus), devices, held, offered_since)


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
        # A walk along the fastest links: several steps lead into the group too.
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
    """The holders of all parts of GPUs: each part once for each pod, under its last container."""
    places = {gpu.uuid: place for place, gpu in enumerate(gpus.gpus)}
    listed = lists_parts(gpus)
    names = frozenset(name for gpu in gpus.gpus for name in parts(gpu)) if listed else frozenset()
    by_pod: dict[tuple[str, str, str], dict[tuple[str, str], wire.Holder]] = {}
    for held in holders:
        pod = pods.get(held.pod_uid)
        its = by_pod.setdefault((held.pod_uid, held.namespace, held.pod), {})
        for key, holder in _parts(held, pod, gpus, names):
            # Init containers lend: of several containers on one part the last one stands for the pod.
            its[key] = msgspec.structs.replace(holder, unknown_to_kubelet=held.lost)
    found = [holder for its in by_pod.values() for holder in _joined(its)]
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


def _parts(
    held: Held, pod: NodePod | None, gpus: NodeGpus, names: Collection[DeviceName]
) -> Iterator[tuple[tuple[str, str], wire.Holder]]:
    """The parts of GPUs that a container's units are; each with a key that is the same for the same part."""
    if held.resource == keys.GPU_SHARE:
        for holder in _shares(held, pod):
            yield (holder.device, ""), holder
        return
    for unit in held.units:
        found = find_unit(gpus, unit)
        if found is not None:
            name = unit_name(unit, found.gpu, found.instance)
            yield (found.gpu.uuid, unit), _holder(held, pod, unit, found, name if name in names else None)


def _shares(held: Held, pod: NodePod | None) -> Iterator[wire.Holder]:
    """Only the grant says what a slot is; without one its container was given nothing."""
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
                        units=held.units[:UNITS_MOST],
                    )


def _holder(held: Held, pod: NodePod | None, name: str, unit: UnitOf, part: DeviceName | None) -> wire.Holder:
    """What a unit is; ``part`` is its name where it is a device of the report by itself.

    The UID of a pod that went from the API says nothing to a scheduler; without one it places nothing there.
    """
    holder = wire.Holder(
        unit.gpu.uuid if part is None else part.id,
        "" if pod is None and not held.listed else held.pod_uid,
        held.container,
        foreign=""
        if pod is not None and pod.grant is not None
        else f"{held.namespace}/{held.pod}"[:FOREIGN_LENGTH],
    )
    if unit.instance is not None:
        return _of_instance(holder, name, unit, unit.instance, part)
    if part is not None:
        return msgspec.structs.replace(holder, memory_mib=replica_mib(unit.gpu))
    if unit.sharers == 1:
        return msgspec.structs.replace(holder, memory_mib=amount(unit.gpu.usable_mib))
    mode = unit.gpu.plan.mode
    memory_mib = mode.memory_mib if isinstance(mode, Mps) else None
    milli = WHOLE_GPU_MILLI // unit.sharers
    return _share(holder, name, milli, memory_mib)


def _share(holder: wire.Holder, unit: str, milli: int, memory_mib: int | None) -> wire.Holder:
    """A part that nothing but the kubelet's own id names."""
    kind = GrantKind.SHARE.value
    return msgspec.structs.replace(holder, kind=kind, gpu_milli=milli, memory_mib=memory_mib, units=(unit,))


def _of_instance(
    holder: wire.Holder, name: str, unit: UnitOf, instance: MigFacts, part: DeviceName | None
) -> wire.Holder:
    """An instance as a part of its GPU; where its place is unknown, as a share."""
    milli = part_milli(instance_part(unit.gpu, instance), unit.sharers)
    alone = unit.sharers == 1
    if instance.start is None or not is_placed(instance) or not (alone or part is not None):
        return _share(holder, name, milli, instance.memory_mib if alone else None)
    return msgspec.structs.replace(
        holder,
        kind=GrantKind.MIG.value,
        gpu_milli=milli,
        memory_mib=instance.memory_mib if alone else replica_mib(unit.gpu, instance),
        mig_profile=instance.profile,
        mig_start=instance.start,
    )


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
    memory_mib = amount((one.memory_mib or 0) + (other.memory_mib or 0)) if known else None
    milli = min(WHOLE_GPU_MILLI, one.gpu_milli + other.gpu_milli)
    return msgspec.structs.replace(
        other,
        gpu_milli=milli,
        memory_mib=memory_mib,
        units=tuple(sorted({*one.units, *other.units}))[:UNITS_MOST],
        unknown_to_kubelet=one.unknown_to_kubelet or other.unknown_to_kubelet,
    )
