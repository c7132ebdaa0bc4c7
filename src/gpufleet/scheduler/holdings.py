"""What the agents of nodes report of who holds what, against what was granted.

For each node whose report or pods changed: where its pods are booked (``held_devices`` has the rules), which
of them have to give way, and which use more memory than their share. What is done about it is the business
of ``device_conflicts`` and ``memory_offenders``.
"""

from collections.abc import Iterable, Iterator
from typing import TypeVar

from gpufleet.kube.objects.node_devices import SHARE
from gpufleet.model.identifiers import DeviceId, NodeName, PodUid
from gpufleet.model.node import Node
from gpufleet.scheduler.device_conflicts import Overlap
from gpufleet.scheduler.evictor import PlacedPod
from gpufleet.scheduler.gangs import scheduled_at
from gpufleet.scheduler.held_devices import Claim, Conflict, Devices, booked, conflicts
from gpufleet.scheduler.memory_offenders import Offence
from gpufleet.scheduler.places import Entry
from gpufleet.scheduler.pod_reader import PodReader

Found = TypeVar("Found")


class Holdings:
    """The facts of each node, as far as they ask for something to be done."""

    def __init__(self, scheduler_name: str, reader: PodReader) -> None:
        self.scheduler_name = scheduler_name
        self.reader = reader
        self._overlaps: dict[NodeName, list[Overlap]] = {}
        self._offences: dict[NodeName, list[Offence]] = {}

    def overlaps(self) -> Iterator[Overlap]:
        """All pods that have to give way."""
        for found in self._overlaps.values():
            yield from found

    def offences(self) -> Iterator[Offence]:
        """All pods that use more memory than their share."""
        for found in self._offences.values():
            yield from found

    def concern(self, node: NodeName) -> bool:
        """Whether something is to be done on this node."""
        return node in self._overlaps or node in self._offences

    def settle(self, name: NodeName, entries: Iterable[Entry], node: Node | None) -> dict[PodUid, Devices]:
        """The devices of a node's pods, by the newest report."""
        by_uid = {entry.name.uid: entry for entry in entries}
        claims = [claim for entry in by_uid.values() if (claim := self._claim(entry)) is not None]
        found = booked(claims)
        devices = () if node is None else node.devices
        memory_mib = {device.id: device.memory_mib for device in devices}
        told = conflicts(claims, found, memory_mib) if any(claim.held for claim in claims) else []
        _put(
            self._overlaps, name, [self._overlap(one, by_uid) for one in told if self._ours(by_uid[one.uid])]
        )
        _put(self._offences, name, [one for entry in by_uid.values() for one in self._offending(entry)])
        return found

    def _claim(self, entry: Entry) -> Claim | None:
        if entry.meaning is None or entry.meaning.shape.gpu.count == 0:
            return None
        request, holders = entry.meaning.shape.gpu, self.reader.holders(entry.object)
        shared = {DeviceId(one.device) for one in holders if one.kind == SHARE} if request.whole else set()
        noted = scheduled_at(entry.object)
        return Claim(
            entry.name.uid,
            request,
            self.reader.granted(entry.object),
            tuple(dict.fromkeys(DeviceId(one.device) for one in holders)),
            frozenset(shared),
            0 if noted is None else int(noted.timestamp() * 1e6),
        )

    def _ours(self, entry: Entry) -> bool:
        return entry.object.spec.scheduler_name == self.scheduler_name

    def _overlap(self, conflict: Conflict, by_uid: dict[PodUid, Entry]) -> Overlap:
        holders = tuple(str(by_uid[uid].name) for uid in conflict.holders)
        return Overlap(_placed(by_uid[conflict.uid]), conflict.device, holders)

    def _offending(self, entry: Entry) -> Iterator[Offence]:
        if not self._ours(entry):
            return
        for one in self.reader.holders(entry.object):
            if one.used_memory_mib and one.memory_mib and one.used_memory_mib > one.memory_mib:
                yield Offence(_placed(entry), DeviceId(one.device), one.memory_mib, one.used_memory_mib)
                return


def _placed(entry: Entry) -> PlacedPod:
    return PlacedPod(entry.name, controlled=entry.object.metadata.controller is not None)


def _put(by_node: dict[NodeName, list[Found]], name: NodeName, found: list[Found]) -> None:
    if found:
        by_node[name] = found
    else:
        by_node.pop(name, None)
