"""From changes of the cluster to events of the engine.

Objects that others depend on come first, then nodes, then gangs, then pods: first those that ended,
then those that have a node, then those that wait. So a decision never rests on half of what was seen
together. Every object is read on its own: one that cannot be read harms only its owner.

A new leader's first round must not give away what half-bound gangs need: the engine first gets the
waiting members of those gangs (``take``), and all other waiting pods in a second wave (``waves``).
"""

import logging
from collections import deque
from typing import Any, Protocol

import msgspec

from gpufleet.cluster.claims.claim_tracker import KINDS as CLAIM_KINDS
from gpufleet.cluster.claims.claim_tracker import ClaimTracker, HeardOf
from gpufleet.cluster.engine_time import US_PER_S, EngineTime
from gpufleet.cluster.nodes.node_tracker import NodeTracker
from gpufleet.cluster.pods.dependencies import Dependencies, ObjectKey
from gpufleet.cluster.pods.gang_tracker import GangTracker
from gpufleet.cluster.pods.nominated_pods import recalled
from gpufleet.cluster.pods.pod_entry import Entry
from gpufleet.cluster.pods.pod_tracker import PodTracker
from gpufleet.cluster.queues.budget_tracker import BudgetTracker
from gpufleet.cluster.topology_levels import TopologyLevels
from gpufleet.cluster.watching.change_queue import ChangeQueue, Seen
from gpufleet.engine.event import (
    BindRefusalRecalled,
    DefragmentationSet,
    Event,
    EvictionRefusalRecalled,
    EvictionRefused,
    GangStartRecalled,
    KeptPlaces,
    KubeletRejected,
    NamespaceRemoved,
    NamespaceSet,
    NominationsRecalled,
    PodAdded,
    PodBound,
    PodRemoved,
    ViolationEnded,
    ViolationFound,
    VolumeRefused,
)
from gpufleet.kube import keys, resources
from gpufleet.kube.clock import Clock
from gpufleet.kube.codec.lasting_conditions import (
    read_bind_pause,
    read_refused_eviction,
    read_refused_volumes,
)
from gpufleet.kube.codec.lookup import Lookup
from gpufleet.kube.codec.moved import moves_before
from gpufleet.kube.codec.nomination_parts import NominationPart, read_nomination
from gpufleet.kube.codec.salvage import salvage_pod
from gpufleet.kube.mirror_changes import Appeared, Changed, Listed, Unreadable, UnreadableGone, Vanished
from gpufleet.kube.objects.pod import Pod
from gpufleet.kube.resources import Kind
from gpufleet.model.defragmentation import DefragmentationRules
from gpufleet.model.identifiers import DeviceId, GangName, NodeName, PodUid, QueueName
from gpufleet.model.violation import AnyViolation, subject_of

LOG = logging.getLogger(__name__)
NODE_KINDS = (resources.NODES, resources.NODE_DEVICES, resources.NODE_DATA, resources.CSI_NODES)
"""Objects that are named as their node: a change of one is a change of that node."""


class BindEnded(msgspec.Struct, frozen=True):
    """What came of a Binding. ``refused_claim``: the claim that has no volume on that node, "" for none."""

    uid: PodUid
    node: NodeName
    devices: tuple[DeviceId, ...]
    bound: bool
    refused_claim: str = ""


class Observer(Protocol):
    """Is told what is worth measuring."""

    def rejected(self, reason: str) -> None:
        """A kubelet turned a pod away."""
        ...

    def waited(self, queue: QueueName, wait_s: float) -> None:
        """A pod was bound so long after it was made."""
        ...


class Unobserved:
    """Measures nothing."""

    def rejected(self, _reason: str) -> None:
        """Nothing."""

    def waited(self, _queue: QueueName, _wait_s: float) -> None:
        """Nothing."""


class EngineEvents:
    """Keeps what was told to the engine, and turns what is seen into what is new."""

    def __init__(
        self,
        cluster: Lookup,
        change_queue: ChangeQueue,
        dependencies: Dependencies,
        nodes: NodeTracker,
        pods: PodTracker,
        gangs: GangTracker,
        clock: Clock,
        observer: Observer,
    ) -> None:
        self.cluster = cluster
        self.change_queue = change_queue
        self.dependencies = dependencies
        self.nodes = nodes
        # The trackers are made before they know of one another; a node is read with what its pods hold.
        self.nodes.pods = pods
        self.pods = pods
        self.queues = pods.reader.queues
        self.queues.now_us = EngineTime(clock).now_us
        self.budgets = BudgetTracker(cluster)
        self.claims = ClaimTracker(cluster)
        pods.reader.expect_claim = self.claims.expect
        self.gangs = gangs
        self.clock = clock
        self.observer = observer
        self.defragmentation: DefragmentationRules | None = None
        self._results: deque[BindEnded] = deque()
        self._refusals: list[EvictionRefused] = []
        self._violations: dict[tuple[str, str], AnyViolation] = {}
        self._filled = False
        self._later: list[Event] = []
        self._nominated: dict[PodUid, NominationPart] = {}
        self._topology = TopologyLevels(gangs, nodes)

    def result(self, result: BindEnded) -> None:
        """What came of a bind; taken in with the next round."""
        self._results.append(result)
        # A result is no change of an object, so nothing else would wake the round.
        self.change_queue.wake()

    def refused(self, refusal: EvictionRefused) -> None:
        """An eviction did not happen; taken in with the next round."""
        self._refusals.append(refusal)
        self.change_queue.wake()

    def take(self, seen: list[Seen]) -> list[Event]:
        """The events for the next step."""
        first: list[Event] = []
        nodes: dict[NodeName, None] = {}
        touched: dict[PodUid, None] = {}
        relabelled: dict[str, None] = {}
        classes: set[str] = set()
        pod_events: list[Event] = []
        for kind, change in seen:
            if kind == resources.PODS:  # Read below, when all that their reading depends on is taken in.
                continue
            key = self._key(kind, change)
            if key is None:
                continue
            self.pods.reader.extended.hear(kind, key.name)
            if kind in NODE_KINDS:
                # Only noted here: a node is read once a round, however many of its objects changed.
                nodes |= dict.fromkeys(self._nodes_concerned(kind, NodeName(key.name), change))
            elif kind in CLAIM_KINDS:
                self.claims.hear(HeardOf(*key), is_readable=not isinstance(change, Unreadable))
            elif kind == resources.VOLUME_ATTACHMENTS:
                attached_to = self.nodes.attach(change)
                if attached_to is not None:
                    nodes[attached_to] = None
            elif kind == resources.NAMESPACES:
                first.append(self._namespace(key.name))
                relabelled[key.name] = None
            elif kind == resources.PRIORITY_CLASSES:
                classes.add(key.name)
            elif kind == resources.FLEET_QUEUES:
                problem = change.problem if isinstance(change, Unreadable) else ""
                first += self.queues.update(QueueName(key.name), problem)
            elif kind == resources.POD_DISRUPTION_BUDGETS:
                problem = change.problem if isinstance(change, Unreadable) else ""
                first += self.budgets.update(key.namespace, key.name, problem)
            # A dict in place of a set keeps the order in which things were seen: the engine must hear the
            # same on each run.
            touched.update(dict.fromkeys(self.dependencies.dependants(key)))
        first += [*self.queues.take_released(), *self.claims.events()]
        if self.pods.reader.extended.renew():
            touched.update(dict.fromkeys(uid for uid, one in self.pods.entries.items() if not one.node))
        first += self._recalled()
        # A label of a namespace can move its pods to another queue without a change of any pod.
        moved = self.queues.take_moved(relabelled)
        for namespace in moved:
            key = ObjectKey(resources.NAMESPACES, "", namespace)
            touched.update(dict.fromkeys(self.dependencies.dependants(key)))
        # Taken whole: what is refused from now on belongs to the next round.
        refusals, self._refusals = self._refusals, []
        first += refusals
        for result in self._take_results():  # Before what is seen of pods, which is newer.
            pod_events += result
        for kind, change in seen:
            if kind == resources.PODS:
                self.nodes.kept.hear(change)
                pod_events += self._pod(change, first)
        touched.update(dict.fromkeys(self.pods.reader.data_waits.take_due()))
        # After the pods that changed themselves: those are read with all that is new already.
        pod_events += self.pods.read_again(touched)
        pod_events += self.pods.queue_again({*moved, *relabelled})
        pod_events += self.pods.protect_again(classes)
        first += [*self._read_nodes_again(nodes), *self.claims.take_expected()]
        pod_events += self._rebooked(nodes)
        gang_events = [*self.gangs.changes(), *self._topology.events(nodes_changed=bool(nodes))]
        lasting = [event for event in (*self._starts_before(), *pod_events) if self._lasts(event)]
        # Of what an earlier leader saw the API says since when; of what we see ourselves we know it.
        violations = self._violations_changed(told_since=not self._filled)
        return [*first, *gang_events, *self._in_waves(_in_order(lasting)), *violations]

    def _nodes_concerned(self, kind: Kind, name: NodeName, change: Any) -> list[NodeName]:
        """The node that an object is named as, and others that its change concerns."""
        if kind == resources.NODE_DATA:
            self.pods.reader.data_waits.sizes.hear(name)
        if kind != resources.NODE_DEVICES:
            return [name]
        # One device in two reports is one node's only, so a report may change what other nodes have. Sorted,
        # because a set has another order in each process, and a rerun needs the same one.
        return [name, *sorted(self.nodes.hear_report(name, change))]

    def _recalled(self) -> list[Event]:
        """What an earlier leader wrote: before any pod, so that the first decision already knows it."""
        if self._filled:
            return []
        if self.defragmentation is None:
            return self.queues.recalled()
        spent = moves_before(self.cluster.all(resources.PODS))
        return [*self.queues.recalled(), DefragmentationSet(self.defragmentation, spent)]

    def _read_nodes_again(self, nodes: dict[NodeName, None]) -> list[Event]:
        """What is new of these nodes and of those that changes of these concern, which are added to them."""
        changed = self.pods.take_changed()  # What a node has to give depends on what its pods hold.
        nodes |= dict.fromkeys(name for name in changed if self.nodes.depends_on(name, changed[name]))
        nodes |= dict.fromkeys(self.nodes.take_kept(self.queues.now_us()))
        nodes |= dict.fromkeys(
            # A copy, because the dict grows while it is walked.
            other
            for name in list(nodes)
            for other in sorted(self.nodes.claims.group(name))
        )
        return [event for name in nodes for event in self.nodes.update(name)]

    def _rebooked(self, nodes: dict[NodeName, None]) -> list[Event]:
        """Pods of these nodes of which another device is known now.

        After the nodes: which device a pod has is looked up among the devices that its node shows now.
        """
        events: list[Event] = []
        for name in dict.fromkeys((*nodes, *self.pods.take_unsettled())):
            renamed = self.nodes.take_renamed(name)
            events += self.pods.rebook(name, self.nodes.known.get(name), renamed=renamed)
        return events

    def waves(self) -> list[list[Event]]:
        """What the engine shall hear after it has decided on the events of ``take``."""
        later, self._later = self._later, []
        return [later] if later else []

    def waiting_members(self, gang: GangName) -> list[Entry]:
        """The members of a gang that wait."""
        return self.gangs.waiting(gang)

    def _violations_changed(self, *, told_since: bool) -> list[Event]:
        """What is wrong now and was not told yet, or not in this way, and what is wrong no more."""
        half_bound = self.gangs.half_bound()
        since = {half.gang: half.since for half in half_bound} if told_since else {}
        events: list[Event] = []
        now: dict[tuple[str, str], AnyViolation] = {}
        for violation in (*self.pods.holders.violations(), *(half.violation for half in half_bound)):
            subject = subject_of(violation)
            now[subject] = violation
            if self._violations.get(subject) != violation:
                noted = since.get(GangName(subject[1]))
                since_us = None if noted is None else round(noted.timestamp() * US_PER_S)
                events.append(ViolationFound(violation, since_us))
        gone = (engine_gang for subject, engine_gang in self._violations.items() if subject not in now)
        events += [ViolationEnded(engine_gang) for engine_gang in gone]
        # The old ones are compared with until here, so they are replaced last.
        self._violations = now
        return events

    def _key(self, kind: Kind, change: Any) -> ObjectKey | None:
        """The object that a change is about."""
        match change:
            case Appeared(found) | Changed(_, found) | Vanished(found):
                return ObjectKey(kind, found.metadata.namespace, found.metadata.name)
            case Unreadable(namespace, name, _, problem, _):
                LOG.error(
                    "an object cannot be read",
                    extra={"kind": kind.plural, "object": f"{namespace}/{name}", "problem": problem},
                )
                return ObjectKey(kind, namespace, name)
            case UnreadableGone(namespace, name, _):
                return ObjectKey(kind, namespace, name)
            case Listed():
                return None
        raise TypeError(change)

    def _namespace(self, name: str) -> Event:
        found = self.cluster.find(resources.NAMESPACES, name)
        return NamespaceRemoved(name) if found is None else NamespaceSet(name, found.metadata.labels)

    def _pod(self, change: Any, first: list[Event]) -> list[Event]:
        match change:
            case Appeared(pod) | Changed(_, pod):
                first += self._rejected(change)
                # What an earlier leader wrote into a pod is news only to a process that starts; later it is
                # our own writing.
                if self._filled:
                    return self.pods.update(pod)
                first += self._refused_before(pod)
                if pod.spec.node_name and not pod.terminal:
                    self.gangs.recall(pod)
                return [*self.pods.update(pod), *self._eviction_refused_before(pod)]
            case Vanished(pod):
                self.claims.forget_pod(PodUid(pod.metadata.uid))
                return self.pods.vanish(PodUid(pod.metadata.uid))
            # Asked for its line in the log; the key itself is not needed here.
            case Unreadable(_, _, _, problem, raw):
                self._key(resources.PODS, change)
                return self.pods.quarantine(salvage_pod(raw), problem)
            case UnreadableGone(_, _, uid):
                self.claims.forget_pod(PodUid(uid))
                return self.pods.vanish(PodUid(uid))
            case _:
                return []

    def _refused_before(self, pod: Pod) -> list[Event]:
        """On which nodes an earlier leader saw claims of a waiting pod refused, and until when it pauses."""
        if pod.spec.node_name or pod.spec.scheduler_name != self.pods.scheduler_name:
            return []
        uid, pause, kept = PodUid(pod.metadata.uid), read_bind_pause(pod), read_nomination(pod)
        if kept is not None:
            self._nominated[uid] = kept
        refused: list[Event] = [VolumeRefused(uid, *one) for one in read_refused_volumes(pod)]
        if pause is not None:
            refused.append(BindRefusalRecalled(uid, pause.until_us, pause.refusals))
        return refused

    def _eviction_refused_before(self, pod: Pod) -> list[Event]:
        """Until when an earlier leader left a running pod alone that it could not evict."""
        until_us = read_refused_eviction(pod) if pod.spec.node_name and not pod.terminal else 0
        return [EvictionRefusalRecalled(PodUid(pod.metadata.uid), until_us)] if until_us else []

    def _nominated_outside(self) -> list[KeptPlaces]:
        """What an earlier leader wrote into waiting pods of places kept for work that no queue describes."""
        parts = []
        for uid, part in self._nominated.items():
            entry = self.pods.waiting(uid)
            meaning = None if entry is None else entry.meaning
            if meaning is not None and meaning.queue not in self.queues.known:
                parts.append((meaning.gang or uid, meaning.queue, uid, part))
        return recalled(parts)

    def take_nominated(self) -> list[PodUid]:
        """The pods of which an earlier leader wrote that a place is kept, once."""
        nominated, self._nominated = self._nominated, {}
        return list(nominated)

    def _starts_before(self) -> list[Event]:
        """The gangs that had started under an earlier leader and are short of members."""
        recalled = {} if self._filled else self.gangs.recalled()
        return [GangStartRecalled(name) for name, (_, said) in recalled.items() if said.started]

    def _rejected(self, change: Any) -> list[Event]:
        """A pod that a kubelet has just turned away.

        A pod that we did not place says nothing of the node: otherwise any author of pods could have a node
        left alone.
        """
        match change:
            case Changed(before, pod) if not before.terminal and pod.spec.node_name:
                reason = pod.rejection
                # Without a reason the pod ended by itself, which says nothing of the node.
                if reason:
                    self.observer.rejected(reason)
                    if keys.GRANT in pod.metadata.annotations:
                        name, uid = NodeName(pod.spec.node_name), PodUid(pod.metadata.uid)
                        return [KubeletRejected(name, uid, reason)]
        return []

    def _take_results(self) -> list[list[Event]]:
        results, self._results = self._results, deque()
        return [self._result(result) for result in results]

    def _result(self, result: BindEnded) -> list[Event]:
        if result.bound:
            self._measure_wait(result.uid)
        entry = self.pods.waiting(result.uid)
        if entry is None or entry.meaning is None:
            # The pod has left, or the watch told of its node before the answer came.
            return []
        if result.bound:
            # The node may have named its GPUs since, or other GPUs: the pod then holds one of those.
            shown = self.nodes.shown(result.node)
            held = tuple(one if one in shown else None for one in result.devices)
            return [PodBound(entry.meaning, result.node, held)]
        return [*self.pods.bind_failed(result.uid), *self._claim_refused(result)]

    def _claim_refused(self, result: BindEnded) -> list[Event]:
        """All pods that wait with the claim leave the node out, which has no volume for it."""
        if not result.refused_claim:
            return []
        namespace, _, name = result.refused_claim.rpartition("/")
        key = ObjectKey(resources.PERSISTENT_VOLUME_CLAIMS, namespace, name)
        waiting = (self.pods.waiting(uid) for uid in self.dependencies.dependants(key))
        return [
            VolumeRefused(entry.name.uid, result.refused_claim, result.node)
            for entry in waiting
            if entry is not None and entry.meaning is not None and entry.intent is None
        ]

    def _measure_wait(self, uid: PodUid) -> None:
        entry = self.pods.entries.get(uid)
        pod = None if entry is None else entry.meaning
        if pod is None:
            return
        # By the wall clock, because the moment at which a pod was made is the API server's.
        wait_s = self.clock.now().timestamp() - pod.created_at_us / 1_000_000
        # A gang waits in the queue that its object names, which may be another than that of its pod's label.
        record = None if pod.gang is None else self.gangs.records.get(pod.gang)
        engine_gang = None if record is None else record.engine_gang
        self.observer.waited(pod.queue if engine_gang is None else engine_gang.queue, wait_s)

    def _lasts(self, event: Event) -> bool:
        """False for what was overtaken by something seen in the same round: sorting would revive it."""
        if isinstance(event, PodAdded):
            entry = self.pods.waiting(event.pod.uid)
            return entry is not None and entry.meaning is event.pod
        return not isinstance(event, PodBound) or event.pod.uid in self.pods.entries

    def _in_waves(self, events: list[Event]) -> list[Event]:
        """All events now, but at the first time others than half-bound gangs' members later."""
        if self._filled:
            return events
        # Set before anything is sorted out: the next round must not hold back anything.
        self._filled = True
        urgent = {half.gang for half in self.gangs.half_bound()}
        # Their pods, and the holder of a reservation or of a nomination as waiting, must be known by then.
        reserved = self.queues.reserved_before()
        nominated = NominationsRecalled((*self.queues.nominated_before(), *self._nominated_outside()))
        kept = [*self.nodes.moved_before(), *self.queues.immune_before()]
        kept += [nominated] if nominated.kept else []
        if not urgent:
            return [*events, *kept, *reserved]
        # Half-bound gangs have no right to places that others' victims leave.
        holders = {place.uid for one in nominated.kept for place in one.places}
        now: list[Event] = []
        for event in events:
            waits = isinstance(event, PodAdded) and event.pod.gang not in urgent
            if isinstance(event, PodAdded) and event.pod.uid in holders:
                waits = False
            (self._later if waits else now).append(event)
        now.extend(kept)
        # Where nothing is held back there is no second wave that they could come with.
        (self._later or now).extend(reserved)
        return now


def _in_order(events: list[Event]) -> list[Event]:
    """The events of a round: pods that ended, pods that have a node, pods that wait.

    Among pods that have a node those with known devices come first: a pod of another scheduler then takes one
    of the devices that are left, and not one that is granted to another pod. All that is told of one pod
    keeps its order: the answer to a Binding may name fewer devices than the pod itself, which is read later.
    """
    # Of two events about one pod the later one says which devices are known; both are ordered by that, so
    # that they stay together.
    newest = {event.pod.uid: event.devices for event in events if isinstance(event, PodBound)}

    def rank(event: Event) -> int:
        if isinstance(event, PodRemoved):
            return 0
        if isinstance(event, PodBound):
            return 2 if None in newest[event.pod.uid] else 1
        return 3

    # Python's sort is stable: within a rank everything keeps the order in which it was seen.
    return sorted(events, key=rank)
