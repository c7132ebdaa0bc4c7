"""The cards of a node and who holds them: what its agent reports, and what pods on it were granted.

A holder that a person may not see keeps its amount and loses its name.
"""

from collections.abc import Iterable, Iterator

from gpufleet.kube import keys
from gpufleet.kube.codec.grant import granted_devices, read_grant
from gpufleet.kube.kube_errors import ObjectError
from gpufleet.kube.objects.node_devices import Holder as Reported
from gpufleet.kube.objects.node_devices import NodeDevices, ReportedDevice
from gpufleet.model.device_id import device_name
from gpufleet.model.grant import GrantedDevice
from gpufleet.model.identifiers import DeviceId
from gpufleet.model.model_errors import InputError
from gpufleet.overview.rows.pod_facts import MILLI, PodFact
from gpufleet.web.documents import Card, Holder
from gpufleet.web.rights import Rights


def cards_of(
    report: NodeDevices, placed: Iterable[PodFact], rights: Rights, *, has_all_pods: bool
) -> tuple[Card, ...]:
    """A card for each device of the report. With ``has_all_pods`` no pod is missing among those known."""
    by_uid = {fact.pod.metadata.uid: fact for fact in placed}
    holders: dict[str, list[Holder]] = {one.id: [] for one in report.spec.devices}
    matched: set[tuple[str, str]] = set()
    for one in report.spec.holders:
        card = _card_of(one.device, holders)
        if card:
            matched.add((card, one.pod_uid))
            fact = by_uid.get(one.pod_uid)
            holders[card].append(_reported(one, fact, rights, has_all_pods=has_all_pods))
    for uid, fact in by_uid.items():
        for device in grants_of(fact):
            card = _card_of(str(device.device), holders)
            # What the agent sees to be held counts; a pod that was just bound holds nothing yet.
            if card and (card, uid) not in matched:
                holders[card].append(_granted(device, fact, rights))
    models = {one.model for one in report.spec.devices}
    return tuple(
        _card(one, tuple(holders[one.id]), tells_model=len(models) > 1) for one in report.spec.devices
    )


def grants_of(fact: PodFact) -> Iterator[GrantedDevice]:
    """The devices that a pod was granted; none where it has no grant that can be read."""
    text = fact.pod.metadata.annotations.get(keys.GRANT)
    if text is None:
        return
    try:
        yield from granted_devices(read_grant(text))
    except (InputError, ObjectError):
        return


def _card_of(device: str, known: dict[str, list[Holder]]) -> str:
    """The device of the report that this is, or is a part of; "" where the report has none."""
    if device in known:
        return device
    whole = str(device_name(DeviceId(device)).card)
    return whole if whole in known else ""


def _reported(one: Reported, fact: PodFact | None, rights: Rights, *, has_all_pods: bool) -> Holder:
    memory_mib, profile = one.memory_mib, one.mig_profile or ""
    if fact is not None and rights.sees(fact.pod.metadata.namespace):
        metadata = fact.pod.metadata
        return Holder(one.gpu_milli, metadata.namespace, metadata.name, fact.queue, memory_mib, profile)
    # Where all pods are known, a holder that is none of them has left, or never was a pod.
    is_process = not one.pod_uid or (fact is None and has_all_pods)
    return Holder(one.gpu_milli, memory_mib=memory_mib, profile=profile, is_process=is_process)


def _granted(device: GrantedDevice, fact: PodFact, rights: Rights) -> Holder:
    metadata, profile = fact.pod.metadata, device.mig_profile or ""
    if not rights.sees(metadata.namespace):
        return Holder(device.gpu_milli, memory_mib=device.memory_mib, profile=profile)
    return Holder(device.gpu_milli, metadata.namespace, metadata.name, fact.queue, device.memory_mib, profile)


def _card(one: ReportedDevice, holders: tuple[Holder, ...], *, tells_model: bool) -> Card:
    milli = [holder.gpu_milli for holder in holders]
    held = None if None in milli else min(MILLI, sum(amount or 0 for amount in milli))
    reason = one.health_reason or "; ".join(f"{taint.key} ({taint.effect})" for taint in one.taints)
    return Card(
        one.id,
        one.health,
        reason,
        held,
        holders,
        one.model if tells_model else "",
        one.memory_mib,
        one.sharing,
    )
