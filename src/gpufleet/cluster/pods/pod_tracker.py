"""Every pod of the cluster that matters to us: where it stands, and what changes for the engine.

A pod is known by its uid. It is *gated* (a controller must lift a scheduling gate), *held* (we cannot hand it
to the engine: it is malformed, or waits for a claim or the like), *waiting* (the engine has it), *placed* (it
has a node, chosen by any scheduler), or not here at all (another scheduler's that waits, or ended).
``update`` moves it and returns the engine's events; reading what a pod means is ``pod_reader``'s business.
"""

from collections.abc import Callable, Iterable
from typing import Any

import msgspec

from gpufleet.cluster.nodes.node_gpus import HeldOnNode, UnknownHeld
from gpufleet.cluster.pods.effective_terms import as_bound, saved_at_us, started_by_us
from gpufleet.cluster.pods.ended_pods import EndedPods
from gpufleet.cluster.pods.gang_tracker import GangTracker
from gpufleet.cluster.pods.holder_tracker import HolderTracker
from gpufleet.cluster.pods.pod_entry import Entry, PodStage
from gpufleet.cluster.pods.pod_reader import MALFORMED, Held, PodReader
from gpufleet.engine.event import (
    BindRefused,
    Event,
    MoveAsked,
    PodAdded,
    PodBound,
    PodCheckpointed,
    PodRemoved,
)
from gpufleet.kube import keys
from gpufleet.kube.codec.eviction_terms import checkpointed_at_us
from gpufleet.kube.codec.node import is_anonymous
from gpufleet.kube.codec.times import microseconds
from gpufleet.kube.objects.pod import POD_SCHEDULED, RESIZE_PENDING, Pod
from gpufleet.model import pod as model
from gpufleet.model.bound_terms import BoundTerms
from gpufleet.model.identifiers import DeviceId, NodeName, PodUid
from gpufleet.model.model_errors import InputError, InternalError
from gpufleet.model.node import Node
from gpufleet.model.pod_name import PodName


class PodTracker:
    """The pods, by uid, node and gang."""

    def __init__(self, scheduler_name: str, reader: PodReader, gangs: GangTracker) -> None:
        self.scheduler_name = scheduler_name
        self.reader = reader
        self.gangs = gangs
        self.entries: dict[PodUid, Entry] = {}
        # A dict in place of a set: pods of a node are walked in the order in which they came, on each run
        # alike.
        self.by_node: dict[NodeName, dict[PodUid, None]] = {}
        self.holders = HolderTracker(scheduler_name, reader)
        self.ended = EndedPods()
        self._newly_held: dict[PodUid, None] = {}
        self._newly_ignored: dict[PodUid, None] = {}
        self._unsettled: dict[NodeName, None] = {}
        self._changed: dict[NodeName, set[DeviceId]] = {}

    def waiting(self, uid: PodUid) -> Entry | None:
        """The entry of a pod that the engine has waiting, as far as we know."""
        entry = self.entries.get(uid)
        return entry if entry is not None and entry.place is PodStage.WAITING else None

    def waiting_pod(self, uid: PodUid) -> model.Pod | None:
        """A pod that the engine has waiting, as it is understood."""
        entry = self.waiting(uid)
        return None if entry is None else entry.meaning

    def on_node(self, node: NodeName) -> list[Entry]:
        """All pods that have this node."""
        return [self.entries[uid] for uid in self.by_node.get(node, ())]

    def held_on(self, node: NodeName) -> HeldOnNode:
        """What the pods of a node hold, by report or grant."""
        # Only placed pods: one that is on its way has no container yet that could hold anything.
        held = self.holders.held_on(node, self.on_node(node))
        return msgspec.structs.replace(held, unknown=self.unknown_on(node))

    def granted_on(self, node: NodeName) -> frozenset[DeviceId]:
        """What the pods of a node were granted."""
        return self.holders.granted_on(self.on_node(node))

    def unknown_on(self, node: NodeName) -> UnknownHeld:
        """What a node reports as held beside what its pods ask for."""
        entries = {uid: self.entries[uid] for uid in self.by_node.get(node, ())}
        return self.holders.unknown_on(node, entries, lambda uid: self._known_on(uid, node))

    def node_read(self, node: NodeName, *, taken_back: bool) -> None:
        """A gang with members on a node that goes away for good leaves whole."""
        self.gangs.node_read(node, taken_back=taken_back)

    def _known_on(self, uid: PodUid, node: NodeName) -> bool:
        """Whether a pod is on a node, is on its way there, or ended there."""
        entry = self.entries.get(uid)
        if entry is None:
            # A pod that ended is known, so that a report which still names it closes none of its devices.
            return self.ended.ended_on(uid, node)
        return node in {entry.node, None if entry.intent is None else entry.intent.node}

    def promised_on(self, node: NodeName) -> tuple[DeviceId, ...]:
        """The devices of pods that are on their way to a node. It looks at every pod."""
        intents = (entry.intent for entry in self.entries.values())
        return tuple(one for intent in intents if intent and intent.node == node for one in intent.devices)

    def take_changed(self) -> dict[NodeName, set[DeviceId]]:
        """Nodes to which pods came or from which pods went since the last call, with their devices."""
        changed, self._changed = self._changed, {}
        return changed

    def ends(self, uid: PodUid) -> bool:
        """True if a pod was told to end, ended, or is gone."""
        entry = self.entries.get(uid)
        return entry is None or entry.object.metadata.deletion_timestamp is not None

    def counts(self) -> dict[PodStage, int]:
        """How many pods stand where."""
        found = dict.fromkeys(PodStage, 0)
        for entry in self.entries.values():
            found[entry.place] += 1
        return found

    def update(self, pod: Pod) -> list[Event]:
        """A pod as it is now: what that means for the engine."""
        uid = PodUid(pod.metadata.uid)
        # A pod that ended is told to its gang first, while the gang still has it as a member.
        if pod.terminal:
            self.gangs.ended(pod, self.reader.cluster, self.reader.terms(pod))
            if pod.spec.node_name:
                self.ended.end(uid, NodeName(pod.spec.node_name))
            return self.leave(uid)
        # Before the scheduler's name is looked at: pods of every scheduler hold what they hold.
        if pod.spec.node_name:
            return self._placed(uid, pod)
        if pod.spec.scheduler_name != self.scheduler_name:
            return []
        if pod.metadata.deletion_timestamp is not None:
            # A pod that is being deleted is not placed any more, and without a node it holds no room.
            return self.leave(uid)
        # A gated pod asks for nothing until its gates are taken away.
        if pod.gated:
            return self._aside(uid, pod, PodStage.GATED, None)
        entry = self.entries.get(uid)
        if entry is not None and entry.intent is not None:
            # What was decided for it is on its way: what it says now is read when that came to nothing.
            entry.newer = pod
            return []
        # Read last, because this alone is costly and may note other objects on which the pod depends.
        reading = self.reader.read(pod)
        if isinstance(reading, Held):
            return self._aside(uid, pod, PodStage.HELD, reading)
        return self._wait(uid, pod, reading)

    def quarantine(self, pod: Pod, problem: str) -> list[Event]:
        """A pod of which only these fields can be read: its owner is told, and what it holds is counted."""
        uid = PodUid(pod.metadata.uid)
        before = self.entries.get(uid)
        placed = before is not None and before.place is PodStage.PLACED
        # Without a uid the object cannot be told from a later one of the same name.
        if not uid or (placed and not pod.terminal):
            # The last reading of what it holds was better than this one.
            return []
        waits = not pod.terminal and not pod.spec.node_name and pod.metadata.deletion_timestamp is None
        bound_now = before is not None and before.intent is not None
        # What can be read is enough for all that does not wait for a decision of ours.
        if not waits or bound_now or pod.spec.scheduler_name != self.scheduler_name:
            return self.update(pod)
        events = self._aside(uid, pod, PodStage.HELD, Held(MALFORMED, problem))
        # Only a new version of the pod can mend it, and no change of another object.
        self.reader.forget(uid)
        return events

    def take_newly_held(self) -> list[Entry]:
        """Pods that are held for a reason that their owners have not been told yet."""
        # Looked up anew when they are taken: in between a pod may have left, or be held no more.
        uids, self._newly_held = self._newly_held, {}
        entries = (self.entries.get(uid) for uid in uids)
        return [entry for entry in entries if entry is not None and entry.held is not None]

    def take_newly_ignored(self) -> list[Entry]:
        """Placed pods with changed words that do not count, if their owners were not told yet."""
        uids, self._newly_ignored = self._newly_ignored, {}
        entries = (self.entries.get(uid) for uid in uids)
        return [entry for entry in entries if entry is not None and entry.ignored]

    def take_unsettled(self) -> list[NodeName]:
        """Nodes with pods that are to be booked on devices anew, though the nodes' reports did not change."""
        nodes, self._unsettled = self._unsettled, {}
        return list(nodes)

    def bind_failed(self, uid: PodUid) -> list[Event]:
        """A bind came to nothing: the pod waits again, as what it says now."""
        entry = self.entries[uid]
        # Before the pod is read: with an intent its newer version would only be laid aside again.
        entry.intent = None
        return [BindRefused(uid), *self.update(entry.newer or entry.object)]

    def read_again(self, uids: Iterable[PodUid]) -> list[Event]:
        """Read pods again that may mean something else since another object changed."""
        events: list[Event] = []
        for uid in uids:
            entry = self.entries.get(uid)
            # What is on its way is read when its answer comes.
            if entry is None or entry.intent is not None:
                continue
            if entry.place is not PodStage.PLACED:
                events += self.update(entry.object)
            # A grant with terms says for good what the pod means; only its words on the way may change.
            elif entry.terms is not None:
                self.reader.read_words_again(entry.object, entry.terms)
        return events

    def queue_again(self, namespaces: set[str]) -> list[Event]:
        """Placed pods of these namespaces that are another queue's now."""

        def meant(entry: Entry, meaning: model.Pod) -> model.Pod:
            if meaning.namespace not in namespaces:
                return meaning
            return msgspec.structs.replace(meaning, queue=self.reader.queue_of(entry.object))

        return self._describe_changed(meant) if namespaces else []

    def protect_again(self, classes: set[str]) -> list[Event]:
        """Placed pods of these priority classes that may be evicted now, or may not any more."""

        def meant(entry: Entry, meaning: model.Pod) -> model.Pod:
            if entry.object.spec.priority_class_name not in classes:
                return meaning
            return msgspec.structs.replace(meaning, preemptible=self.reader.preemptible(entry.object))

        return self._describe_changed(meant) if classes else []

    def _describe_changed(self, meant: Callable[[Entry, model.Pod], model.Pod]) -> list[Event]:
        """Placed pods that mean something else now; a grant with terms says for good what its pod means."""
        events: list[Event] = []
        # A copy: an entry that is described anew takes the place of the old one.
        for uid, entry in list(self.entries.items()):
            meaning = entry.meaning
            if entry.place is not PodStage.PLACED or meaning is None or entry.terms is not None:
                continue
            now = meant(entry, meaning)
            if now is not meaning and now != meaning:
                events.append(self._describe_placed(uid, entry, now))
        return events

    def _describe_placed(self, uid: PodUid, entry: Entry, meaning: model.Pod) -> Event:
        described = Entry(entry.name, entry.object, PodStage.PLACED, meaning, devices=entry.devices)
        described.saved_us = entry.saved_us
        self._enter(uid, described)
        return PodBound(meaning, NodeName(entry.node), entry.devices)

    def leave(self, uid: PodUid) -> list[Event]:
        """A pod ended, or leaves without a node: it holds nothing any more."""
        entry = self.entries.pop(uid, None)
        if entry is None:
            return []
        self._unlink(uid, entry)
        self.reader.forget(uid)
        self.holders.forget(uid)
        # The devices that it leaves may be those that another pod there was granted and does not have.
        if self.holders.concern(entry.node) or (entry.node and self.reader.holders(entry.object)):
            self._unsettled[entry.node] = None
        # The engine was never told of a pod that is held or gated.
        return [PodRemoved(uid)] if entry.meaning is not None else []

    def vanish(self, uid: PodUid) -> list[Event]:
        """A pod is no longer in the API at all."""
        events = self.leave(uid)
        # Only now: a gang still counts a member that succeeded while the API has it.
        self.gangs.forget(uid)
        node = self.ended.delete(uid)
        if node is not None:
            self.ended.forget_unnamed(node, self.holders.named_on(node))
        return events

    def _aside(self, uid: PodUid, pod: Pod, place: PodStage, held: Held | None) -> list[Event]:
        before = self.entries.get(uid)
        self._enter(uid, Entry(pod_name(pod), pod, place, held=held))
        if held is not None and (before is None or before.held != held):
            self._newly_held[uid] = None
        return [PodRemoved(uid)] if before is not None and before.meaning is not None else []

    def _wait(self, uid: PodUid, pod: Pod, meaning: model.Pod) -> list[Event]:
        before = self.entries.get(uid)
        known = None if before is None else before.meaning
        if before is not None and before.place is PodStage.PLACED:
            # A node is never taken back: this is an old view of the pod.
            return []
        if known == meaning:
            # The very object that the engine is told of: an event of this round is known by it.
            self._enter(uid, Entry(pod_name(pod), pod, PodStage.WAITING, known))
            return []
        self._enter(uid, Entry(pod_name(pod), pod, PodStage.WAITING, meaning))
        return [PodAdded(meaning)]

    def _placed(self, uid: PodUid, pod: Pod) -> list[Event]:
        before = self.entries.get(uid)
        was_placed = before is not None and before.place is PodStage.PLACED
        # A running pod changes its status often. Nothing else depends on most of it.
        if before is not None and was_placed and same_for_others(before.object, pod):
            return self._started(before, pod)
        known = before if was_placed else None
        # The report came before the pod was seen there, so its devices were an unknown holder's until now.
        if self.reader.holders(pod):
            self._unsettled[NodeName(pod.spec.node_name)] = None
        if before is not None and before.meaning and before.intent and as_meant(before, pod):
            # Our own bind: what it means is known, and need not be read from the grant again.
            if any(map(is_anonymous, before.intent.devices)):
                # The node may have told by now which GPUs it has.
                self._unsettled[before.intent.node] = None
            terms = before.intent.terms
            # With the terms of the grant and not as the pod reads now: its owner may have edited it
            # meanwhile.
            meaning = as_bound(before.meaning, terms)
            self.gangs.hold(pod, terms, self.reader.cluster)
            entry = Entry(
                before.name, pod, PodStage.PLACED, meaning, devices=before.intent.devices, terms=terms
            )
            return self._enter_placed(uid, entry, known)
        placed = self.reader.read_placed(pod)
        meaning = placed.meaning
        # Another scheduler's pod takes room and is never evicted for work of ours.
        if pod.spec.scheduler_name != self.scheduler_name:
            meaning = msgspec.structs.replace(meaning, foreign=True)
        devices = self.reader.devices(pod, meaning.shape.gpu.count)
        entry = Entry(
            pod_name(pod),
            pod,
            PodStage.PLACED,
            meaning,
            devices=devices,
            terms=placed.terms,
            ignored=placed.ignored,
        )
        return self._enter_placed(uid, entry, known)

    def _enter_placed(self, uid: PodUid, entry: Entry, before: Entry | None) -> list[Event]:
        """A placed pod as it is read now, and before if it was placed then; what the engine hears of it."""
        entry.saved_us = self._saved_us(entry, before)
        if entry.ignored and (before is None or not before.ignored):
            self._newly_ignored[uid] = None
        self._enter(uid, entry)
        self.holders.note(entry)
        if entry.meaning is None:
            raise InternalError(f"pod {uid} is placed and nothing is known of it")
        if self._is_crowded(uid, entry):
            # Another pod holds a device that this one was granted: it gets the device that the other left.
            self._unsettled[entry.node] = None
        known_us = 0 if before is None else before.saved_us
        # Told only if it changed: the engine then weighs anew what an eviction would lose.
        more: list[Event] = [] if entry.saved_us == known_us else [PodCheckpointed(uid, entry.saved_us)]
        entry.move_to = NodeName(entry.object.metadata.annotations.get(keys.MOVE_TO, "")) or None
        if entry.move_to != (None if before is None else before.move_to):
            more.append(MoveAsked(uid, entry.move_to))
        started_us = started_at_us(entry.object, entry.terms)
        return [PodBound(entry.meaning, NodeName(entry.node), entry.devices, started_us), *more]

    def _is_crowded(self, uid: PodUid, entry: Entry) -> bool:
        """True if a device of a pod that has whole ones is booked for another pod, too."""
        if entry.meaning is None or not entry.meaning.shape.gpu.whole:
            return False
        # Devices without a name cannot be the same as another pod's.
        own = {device for device in entry.devices if device is not None}
        others = (self.entries[other] for other in self.by_node[entry.node] if other != uid) if own else ()
        return any(not own.isdisjoint(other.devices) for other in others)

    def _saved_us(self, entry: Entry, before: Entry | None) -> int:
        """When a placed pod saved its work last, 0 for never."""
        said_us = checkpointed_at_us(entry.object)
        if entry.terms is None:
            return said_us or 0
        known_us = max(entry.terms.checkpointed_at_us or 0, 0 if before is None else before.saved_us)
        return saved_at_us(said_us, known_us, self.reader.queues.now_us())

    def _started(self, entry: Entry, pod: Pod) -> list[Event]:
        """Take a placed pod that did not change, except that its node may say by now when it began to run."""
        known, started = started_at_us(entry.object, entry.terms), started_at_us(pod, entry.terms)
        entry.object = pod
        if entry.meaning is None or started is None or started == known:
            return []
        return [PodBound(entry.meaning, NodeName(entry.node), entry.devices, started)]

    def rebook(self, name: NodeName, node: Node | None, *, renamed: bool = False) -> list[Event]:
        """A node's report changed: pods that hold other devices than we thought are moved.

        Where it names its devices anew (``renamed``), those that hold unknown ones hold some of these.
        """
        events: list[Event] = []
        entries = self.on_node(name)
        self.ended.forget_unnamed(name, self.holders.named_on(name))
        for uid, devices in self.holders.settle(name, entries, node).items():
            entry = self.entries[uid]
            # After a change of names a None means another device than before, so it is told though it looks
            # equal.
            if entry.meaning is not None and (devices != entry.devices or (renamed and None in devices)):
                entry.devices = devices
                events.append(PodBound(entry.meaning, name, devices))
        return events

    def _enter(self, uid: PodUid, entry: Entry) -> None:
        before = self.entries.get(uid)
        # A pod can change its gang or get a node: the old links would stay behind.
        if before is not None:
            self._unlink(uid, before)
        self.entries[uid] = entry
        if entry.node:
            self.by_node.setdefault(entry.node, {})[uid] = None
            self._note(entry)
        self.gangs.enter(uid, entry)

    def _note(self, entry: Entry) -> None:
        """The node of a pod may have other GPUs to give now."""
        self._changed.setdefault(entry.node, set()).update(one for one in entry.devices if one is not None)

    def _unlink(self, uid: PodUid, entry: Entry) -> None:
        on_node = self.by_node.get(entry.node)
        if on_node is not None:
            self._note(entry)
            on_node.pop(uid, None)
            # Nodes come and go for years; empty ones would pile up.
            if not on_node:
                del self.by_node[entry.node]
        if entry.meaning is not None and entry.meaning.gang is not None:
            self.gangs.leave(uid, entry.meaning.gang)


def pod_name(pod: Pod) -> PodName:
    """The pod as the API names it."""
    return PodName(pod.metadata.namespace, pod.metadata.name, PodUid(pod.metadata.uid))


def as_meant(entry: Entry, pod: Pod) -> bool:
    """True if the pod was bound as we wanted it, and says nothing else than when that was decided."""
    if entry.intent is None or pod.spec.node_name != entry.intent.node:
        return False
    decided, found = entry.object.metadata, pod.metadata
    # Words that were written while the Binding was under way may shorten or weaken what the pod holds.
    same_words = found.annotations == {**decided.annotations, **entry.intent.annotations}
    # Labels can move a pod to another queue, and a resize changes its amounts.
    same = decided.labels == found.labels and entry.object.spec.containers == pod.spec.containers
    return same_words and same and found.deletion_timestamp is None


def started_at_us(pod: Pod, terms: BoundTerms | None = None) -> int | None:
    """When a pod's kubelet took it on, else when it was bound; None where neither is known yet."""
    return started_by_us(_reported_start_us(pod), terms)


def _reported_start_us(pod: Pod) -> int | None:
    scheduled = pod.condition(POD_SCHEDULED)
    since = scheduled.last_transition_time if scheduled is not None and scheduled.status == "True" else None
    try:
        return microseconds(pod.status.start_time) or microseconds(since) or None
    except InputError:
        return None


def same_for_others(before: Pod, after: Pod) -> bool:
    """True if nothing changed that another pod's place could depend on."""
    return _seen_by_others(before) == _seen_by_others(after)


def _seen_by_others(pod: Pod) -> tuple[Any, ...]:
    """What may change of a pod while it runs: labels, its grant, its end, and by a resize its amounts."""
    metadata, spec, status = pod.metadata, pod.spec, pod.status
    return (
        metadata.labels,
        metadata.annotations,
        metadata.deletion_timestamp is None,
        spec.containers,
        spec.init_containers,
        spec.resources,
        status.container_statuses,
        status.init_container_statuses,
        status.allocated_resources,
        status.resources,
        pod.condition(RESIZE_PENDING),
    )
