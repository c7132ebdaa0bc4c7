"""The holders of devices that the nodes' agents report, against what was granted.

For each node with a changed report or changed pods: where its pods are booked (``held_devices`` has the
rules), which of them have to give way, and which use more memory than their share. What follows from that
decides the engine (``engine.lifecycle.violations``).
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TypeVar

import msgspec

from gpufleet.cluster.nodes.node_gpus import HeldOnNode, UncountedInstance, UnknownHeld
from gpufleet.cluster.pods.gang_tracker import scheduled_at
from gpufleet.cluster.pods.held_devices import Claim, Conflict, Devices, booked, conflicts
from gpufleet.cluster.pods.pod_entry import Entry
from gpufleet.cluster.pods.pod_reader import PodReader
from gpufleet.kube import keys
from gpufleet.kube.objects.node_devices import MIG, WHOLE, Holder
from gpufleet.model.device_id import device_name
from gpufleet.model.identifiers import DeviceId, NodeName, PodUid
from gpufleet.model.node import Node
from gpufleet.model.resource_names import mig_resource
from gpufleet.model.shape import GpuRequest
from gpufleet.model.violation import AnyViolation, DeviceConflict, MemoryExceeded

Found = TypeVar("Found")
_NOTHING = Counter[str]()


class ForeignHolder(msgspec.Struct, frozen=True):
    """Something that holds so many GPUs without a grant: a pod, or what no pod of the API is known for."""

    gpus: int
    is_pod: bool


class HolderTracker:
    """The facts of each node, as far as they ask for something to be done."""

    def __init__(self, scheduler_name: str, reader: PodReader) -> None:
        self.scheduler_name = scheduler_name
        self.reader = reader
        self.evict_memory_offenders = False
        self._conflicts: dict[NodeName, list[DeviceConflict]] = {}
        self._exceeding: dict[NodeName, list[MemoryExceeded]] = {}
        self._foreign: dict[NodeName, list[ForeignHolder]] = {}
        # Grants as they were read, because every report of a node asks for those of all its pods.
        self._granted: dict[PodUid, _Granted] = {}

    def violations(self) -> Iterator[AnyViolation]:
        """All pods that have to give way, and all that use more memory than their share."""
        for conflicts_there in self._conflicts.values():
            yield from conflicts_there
        for exceeding in self._exceeding.values():
            yield from exceeding

    def foreign(self) -> Iterator[ForeignHolder]:
        """Whatever holds GPUs without a grant."""
        for found in self._foreign.values():
            yield from found

    def concern(self, node: NodeName) -> bool:
        """Whether something is to be done on this node."""
        return node in self._conflicts or node in self._exceeding or node in self._foreign

    def settle(self, name: NodeName, entries: Iterable[Entry], node: Node | None) -> dict[PodUid, Devices]:
        """The devices of a node's pods, by the newest report."""
        by_uid = {entry.name.uid: entry for entry in entries}
        held = self._held(name)
        claims = [
            self._claim(entry, held.get(uid, ()))
            for uid, entry in by_uid.items()
            # A pod that asks for no GPU claims none, whatever its annotations say.
            if entry.meaning is not None and entry.meaning.shape.gpu.count
        ]
        _put(self._foreign, name, list(self._without_grant(claims, by_uid, held)))
        # Booked from all claims together: which device a pod has depends on what the others hold.
        found = booked(claims)
        devices = () if node is None else node.devices
        memory_mib = {device.id: device.memory_mib for device in devices}
        # Grants alone are kept apart by the scheduler; only what a report says can contradict them.
        found_conflicts = conflicts(claims, found, memory_mib) if any(claim.held for claim in claims) else []
        # Pods of another scheduler are not ours to end; they still count in ``found``.
        own_conflicts = [
            self._conflict(one, by_uid) for one in found_conflicts if self._ours(by_uid[one.uid])
        ]
        _put(self._conflicts, name, own_conflicts)
        # From the report and not from the pods: only a report measures memory.
        exceeding = (self._exceeded(by_uid.get(uid), held[uid]) for uid in held)
        _put(self._exceeding, name, [one for one in exceeding if one is not None])
        return found

    def _without_grant(
        self, claims: Iterable[Claim], by_uid: dict[PodUid, Entry], held: dict[PodUid, list[Holder]]
    ) -> Iterator[ForeignHolder]:
        for claim in claims:
            # Whether a grant makes sense is judged elsewhere; a pod that has one is not foreign.
            if keys.GRANT not in by_uid[claim.uid].object.metadata.annotations:
                yield ForeignHolder(claim.request.count, is_pod=True)
        gone = (one for uid, holders in held.items() if uid not in by_uid for one in holders)
        unknown = _devices_of(gone)
        if unknown:
            yield ForeignHolder(len(unknown), is_pod=False)

    def note(self, entry: Entry) -> None:
        """A pod was placed: its grant is read now, while its text is known from the reading of the pod."""
        self._grant(entry)

    def forget(self, uid: PodUid) -> None:
        """The pod is gone."""
        self._granted.pop(uid, None)

    def _held(self, name: NodeName) -> dict[PodUid, list[Holder]]:
        """What the node reports, by pod."""
        found: dict[PodUid, list[Holder]] = {}
        for one in self.reader.reported(name):
            found.setdefault(PodUid(one.pod_uid), []).append(one)
        return found

    def _claim(self, entry: Entry, holders: Sequence[Holder]) -> Claim:
        request = GpuRequest() if entry.meaning is None else entry.meaning.shape.gpu
        # A pod that asked for a whole GPU and was given a part of one does not own that GPU.
        shared = {DeviceId(one.device) for one in holders if _is_part(one)} if request.whole else set()
        granted = self._grant(entry)
        held = _devices_of(holders)
        return Claim(entry.name.uid, request, granted.ids, held, frozenset(shared), granted.placed_at_us)

    def held_on(self, name: NodeName, entries: Iterable[Entry]) -> HeldOnNode:
        """The devices that a node's pods hold: those that are reported of a pod, else those that it was
        granted.
        """
        held = self._held(name)
        ids: dict[DeviceId, None] = {}
        opaque = False
        for entry in entries:
            granted = self._grant(entry)
            opaque = opaque or not granted.readable
            # The report comes first: a kubelet may have exchanged devices between pods that were granted as
            # many.
            ids |= dict.fromkeys(_devices_of(held.get(entry.name.uid, ())) or granted.ids)
        return HeldOnNode(tuple(ids), opaque)

    def granted_on(self, entries: Iterable[Entry]) -> frozenset[DeviceId]:
        """The devices that these pods were granted."""
        return frozenset(one for entry in entries for one in self._grant(entry).ids)

    def unknown_on(
        self, name: NodeName, entries: Mapping[PodUid, Entry], known: Callable[[PodUid], bool]
    ) -> UnknownHeld:
        """What a node reports as held beside the requests of its pods; ``entries`` are those pods."""
        reported = self.reader.reported(name)
        # Without a uid the holder is no pod; such processes are told apart by their instances below.
        found = [one for one in reported if one.pod_uid and not known(PodUid(one.pod_uid))]
        instances = [one for one in reported if one.mig_profile and _is_part(one)]
        if not found and not instances:
            return UnknownHeld()
        uncounted = _uncounted_instances(instances, entries, known)
        return UnknownHeld(frozenset(_devices_of(found)), tuple(sorted(uncounted)))

    def named_on(self, name: NodeName) -> frozenset[PodUid]:
        """The pods that a node's report names."""
        return frozenset(PodUid(one.pod_uid) for one in self.reader.reported(name))

    def _grant(self, entry: Entry) -> "_Granted":
        """What a pod was granted, and when it was placed; read once, for nodes report often."""
        text = entry.object.metadata.annotations.get(keys.GRANT, "")
        known = self._granted.get(entry.name.uid)
        # The annotation is compared as text, which is cheaper than reading it and never misses a change.
        if known is None or known.text != text:
            noted = scheduled_at(entry.object)
            # 0 is the oldest: a pod of unknown age gives way to none that came after it.
            placed_at_us = 0 if noted is None else int(noted.timestamp() * 1e6)
            devices = self.reader.grant(entry.object)
            ids = tuple(one.device for one in devices or ())
            known = _Granted(text, ids, placed_at_us, readable=devices is not None)
            self._granted[entry.name.uid] = known
        return known

    def _ours(self, entry: Entry) -> bool:
        return entry.object.spec.scheduler_name == self.scheduler_name

    def _conflict(self, conflict: Conflict, by_uid: dict[PodUid, Entry]) -> DeviceConflict:
        holders = tuple(str(by_uid[uid].name) for uid in conflict.holders)
        may_be_ended = _may_be_ended(by_uid[conflict.uid])
        return DeviceConflict(conflict.uid, conflict.device, holders, may_be_ended)

    def _exceeded(self, entry: Entry | None, holders: Iterable[Holder]) -> MemoryExceeded | None:
        """The first device of which a pod of ours uses more than its share."""
        if entry is None or not self._ours(entry):
            return None
        for one in holders:
            # Either is absent where it is not measured or not limited, which is no offence.
            if one.used_memory_mib and one.memory_mib and one.used_memory_mib > one.memory_mib:
                return MemoryExceeded(
                    entry.name.uid,
                    DeviceId(one.device),
                    one.memory_mib,
                    one.used_memory_mib,
                    _may_be_ended(entry),
                    self.evict_memory_offenders,
                )
        return None


class _Granted(msgspec.Struct, frozen=True):
    """What the text of a grant says, and when its pod was placed."""

    text: str
    ids: tuple[DeviceId, ...]
    placed_at_us: int
    readable: bool


def _devices_of(holders: Iterable[Holder]) -> tuple[DeviceId, ...]:
    return tuple(dict.fromkeys(DeviceId(one.device) for one in holders))


def _uncounted_instances(
    instances: Iterable[Holder], entries: Mapping[PodUid, Entry], known: Callable[[PodUid], bool]
) -> Iterator[UncountedInstance]:
    """The MIG instances that no pod's request is charged for, each once.

    Such an instance is held by a process outside Kubernetes, by a pod that the API does not know there, or by
    a pod that was given more instances than it asks for by that name.
    """
    # Counted down below: a request pays for one instance, and a second one of the same pod is beside it.
    left = {uid: _requested(entry) for uid, entry in entries.items()}
    # One instance can have several holders, for example the pod and a process in it; it is judged once.
    by_place: dict[tuple[str, int | None], list[Holder]] = {}
    for one in instances:
        by_place.setdefault((one.device, one.mig_start), []).append(one)
    for holders in by_place.values():
        name = mig_resource(str(holders[0].mig_profile))
        charged = [left[uid] for one in holders if left.get(uid := PodUid(one.pod_uid), _NOTHING)[name] > 0]
        for requested in charged:
            requested[name] -= 1
        others = [
            one
            for one in holders
            if one.pod_uid in entries or not one.pod_uid or not known(PodUid(one.pod_uid))
        ]
        if others and not charged:
            yield UncountedInstance(name, holders[0].device, others[0].foreign)


def _requested(entry: Entry) -> Counter[str]:
    """What a pod requests of resources that are counted by name."""
    return Counter() if entry.meaning is None else Counter(dict(entry.meaning.shape.resources.other))


def _is_part(holder: Holder) -> bool:
    """Whether it is less than the device; an instance that is a device by itself is all of it."""
    instance = holder.kind == MIG and device_name(DeviceId(holder.device)).place is not None
    return holder.kind != WHOLE and not instance


def _may_be_ended(entry: Entry) -> bool:
    """Whether a controller makes the pod anew."""
    return entry.object.metadata.controller is not None


def _put(by_node: dict[NodeName, list[Found]], name: NodeName, found: list[Found]) -> None:
    if found:
        by_node[name] = found
    else:
        by_node.pop(name, None)
