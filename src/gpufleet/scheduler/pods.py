"""Every pod of the cluster that matters to us: where it stands, and what changes for the engine.

A pod is known by its uid. It is *gated* (somebody must open a gate), *held* (we cannot hand it to the
engine: it is malformed, or waits for a claim or the like), *waiting* (the engine has it), *placed* (it
has a node, whoever chose it), or not here at all (another scheduler's that waits, or ended). ``regard``
moves it and returns the engine's events; reading what a pod means is ``pod_reader``'s business.
"""

import enum
from collections.abc import Iterable
from typing import TypeVar

import msgspec

from gpufleet.engine.event import Event, PodAdded, PodBound, PodRemoved
from gpufleet.kube.objects.pod import Pod
from gpufleet.model import pod as model
from gpufleet.model.identifiers import DeviceId, GangName, NodeName, PodUid
from gpufleet.scheduler.pod_reader import Held, PodReader
from gpufleet.scheduler.wire_text import PodName

Name = TypeVar("Name", NodeName, GangName)


class Place(enum.Enum):
    """Where a pod stands."""

    GATED = "gated"
    HELD = "held"
    WAITING = "waiting"
    PLACED = "placed"


class Entry(msgspec.Struct):
    """A pod as last seen, and what the engine was told of it."""

    name: PodName
    object: Pod
    place: Place
    model: model.Pod | None = None
    held: Held | None = None
    devices: tuple[DeviceId | None, ...] = ()

    @property
    def node(self) -> NodeName:
        """The node it has, "" while it has none."""
        return NodeName(self.object.spec.node_name)


class PodBook:
    """The pods, by uid, node and gang."""

    def __init__(self, scheduler_name: str, reader: PodReader) -> None:
        self.scheduler_name = scheduler_name
        self.reader = reader
        self.entries: dict[PodUid, Entry] = {}
        self.by_node: dict[NodeName, dict[PodUid, None]] = {}
        self.by_gang: dict[GangName, dict[PodUid, None]] = {}

    def waiting(self, uid: PodUid) -> Entry | None:
        """The entry of a pod that the engine has waiting, as far as we know."""
        entry = self.entries.get(uid)
        return entry if entry is not None and entry.place is Place.WAITING else None

    def members(self, gang: GangName) -> list[Entry]:
        """All pods of a gang."""
        return [self.entries[uid] for uid in self.by_gang.get(gang, ())]

    def on_node(self, node: NodeName) -> list[Entry]:
        """All pods that have this node."""
        return [self.entries[uid] for uid in self.by_node.get(node, ())]

    def counts(self) -> dict[Place, int]:
        """How many pods stand where, of all places where one stands."""
        found: dict[Place, int] = {}
        for entry in self.entries.values():
            found[entry.place] = found.get(entry.place, 0) + 1
        return found

    def regard(self, pod: Pod) -> list[Event]:
        """A pod as it is now: what that means for the engine."""
        uid = PodUid(pod.metadata.uid)
        if pod.terminal:
            return self.leave(uid)
        if pod.spec.node_name:
            return self._placed(uid, pod)
        if pod.spec.scheduler_name != self.scheduler_name:
            return []
        if pod.metadata.deletion_timestamp is not None:
            # It is on its way out, and a pod without a node holds no room.
            return self.leave(uid)
        if pod.gated:
            return self._aside(uid, pod, Place.GATED, None)
        reading = self.reader.read(pod)
        if isinstance(reading, Held):
            return self._aside(uid, pod, Place.HELD, reading)
        return self._wait(uid, pod, reading)

    def read_again(self, uids: Iterable[PodUid]) -> list[Event]:
        """Pods whose meaning may have changed with another object."""
        events: list[Event] = []
        for uid in uids:
            entry = self.entries.get(uid)
            if entry is not None and entry.place is not Place.PLACED:
                events += self.regard(entry.object)
        return events

    def leave(self, uid: PodUid) -> list[Event]:
        """A pod ended or is gone."""
        entry = self.entries.pop(uid, None)
        if entry is None:
            return []
        self._unlink(uid, entry)
        self.reader.forget(uid)
        return [PodRemoved(uid)] if entry.model is not None else []

    def _aside(self, uid: PodUid, pod: Pod, place: Place, held: Held | None) -> list[Event]:
        before = self.entries.get(uid)
        entry = Entry(pod_name(pod), pod, place, held=held)
        self._enter(uid, entry)
        return [PodRemoved(uid)] if before is not None and before.model is not None else []

    def _wait(self, uid: PodUid, pod: Pod, meaning: model.Pod) -> list[Event]:
        before = self.entries.get(uid)
        known = None if before is None else before.model
        if before is not None and before.place is Place.PLACED:
            # A node is never taken back: this is an old view of the pod.
            return []
        self._enter(uid, Entry(pod_name(pod), pod, Place.WAITING, meaning))
        return [] if known == meaning else [PodAdded(meaning)]

    def _placed(self, uid: PodUid, pod: Pod) -> list[Event]:
        before = self.entries.get(uid)
        if before is not None and before.place is Place.PLACED and same_for_others(before.object, pod):
            before.object = pod
            return []
        meaning = self.reader.read_placed(pod)
        devices = self.reader.devices(pod, meaning.shape.gpu.count)
        self._enter(uid, Entry(pod_name(pod), pod, Place.PLACED, meaning, devices=devices))
        return [PodBound(meaning, NodeName(pod.spec.node_name), devices)]

    def rebook(self, node: NodeName) -> list[Event]:
        """A node's report changed: pods that hold other devices than we thought are moved."""
        events: list[Event] = []
        for entry in self.on_node(node):
            if entry.model is None or entry.model.shape.gpu.count == 0:
                continue
            devices = self.reader.devices(entry.object, entry.model.shape.gpu.count)
            if devices != entry.devices:
                entry.devices = devices
                events.append(PodBound(entry.model, node, devices))
        return events

    def _enter(self, uid: PodUid, entry: Entry) -> None:
        before = self.entries.get(uid)
        if before is not None:
            self._unlink(uid, before)
        self.entries[uid] = entry
        if entry.node:
            self.by_node.setdefault(entry.node, {})[uid] = None
        gang = None if entry.model is None else entry.model.gang
        if gang is not None:
            self.by_gang.setdefault(gang, {})[uid] = None

    def _unlink(self, uid: PodUid, entry: Entry) -> None:
        gang = None if entry.model is None else entry.model.gang
        _drop(self.by_node, entry.node, uid)
        if gang is not None:
            _drop(self.by_gang, gang, uid)


def pod_name(pod: Pod) -> PodName:
    """The pod as the API names it."""
    return PodName(pod.metadata.namespace, pod.metadata.name, PodUid(pod.metadata.uid))


def same_for_others(before: Pod, after: Pod) -> bool:
    """True if nothing changed that another pod's place could depend on."""
    old, new = before.metadata, after.metadata
    return old.labels == new.labels and old.annotations == new.annotations


def _drop(index: dict[Name, dict[PodUid, None]], key: Name, uid: PodUid) -> None:
    found = index.get(key)
    if found is not None:
        found.pop(uid, None)
        if not found:
            del index[key]
