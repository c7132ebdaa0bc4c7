"""A cluster that a test changes object by object, and what an engine knows that is told of it.

cluster = ChangingCluster()
cluster.put(resources.NODES, Node, {"metadata": {"name": "n"}})
books = Books(cluster)
told = RecordedEvents()
told.hear(books.round(cluster.take()))
assert set(told.nodes) == {"n"}
"""

import datetime as dt
from collections.abc import Iterable
from typing import Any

import msgspec

from gpufleet.cluster.engine_events import EngineEvents, Unobserved
from gpufleet.cluster.nodes.node_tracker import NodeTracker
from gpufleet.cluster.pods.dependencies import Dependencies
from gpufleet.cluster.pods.effective_terms import terms_of
from gpufleet.cluster.pods.gang_tracker import GangTracker
from gpufleet.cluster.pods.pod_entry import Intent
from gpufleet.cluster.pods.pod_reader import PodReader
from gpufleet.cluster.pods.pod_tracker import PodTracker
from gpufleet.cluster.watching.change_queue import ChangeQueue, Seen
from gpufleet.cluster.watching.picture import Picture
from gpufleet.engine import event
from gpufleet.engine.instruction import Bind
from gpufleet.kube.clock import MachineClock
from gpufleet.kube.mirror_changes import Appeared, Changed, Vanished
from gpufleet.kube.resources import Kind
from gpufleet.model.disruption_budget import DisruptionBudget
from gpufleet.model.gang import Gang
from gpufleet.model.identifiers import DeviceId, GangName, NodeName, PodUid, QueueName
from gpufleet.model.node import Node
from gpufleet.model.pod import Pod
from gpufleet.model.queue import Queue
from gpufleet.scheduler.grant_annotations import PluginDelivery
from tests.kube.wire_objects import decoded

SCHEDULER = "gpufleet"
NOON = dt.datetime(2026, 3, 1, 12, 0, tzinfo=dt.UTC)


class StoppedClock(MachineClock):
    """No time passes."""

    def monotonic_s(self) -> float:
        """Always the beginning."""
        return 0.0

    def now(self) -> dt.datetime:
        """Always noon."""
        return NOON


class ChangingCluster:
    """Objects as an API server has them. Every change waits until it is taken."""

    def __init__(self) -> None:
        self.picture = Picture()
        self.written: dict[tuple[Kind, str, str], dict[str, Any]] = {}
        self._changes: list[Seen] = []

    def put(self, kind: Kind, meant: type[Any], written: dict[str, Any]) -> None:
        """An object is made or changed; one of the same name and another uid goes first."""
        found = decoded(written, meant)
        key = (found.metadata.namespace, found.metadata.name)
        before = self.picture.find(kind, key[1], key[0])
        if before is not None and before.metadata.uid != found.metadata.uid:
            self.remove(kind, *key)
            before = None
        self.picture.objects.setdefault(kind, {})[key] = found
        self.written[kind, *key] = written
        self._changes.append(Seen(kind, Appeared(found) if before is None else Changed(before, found)))

    def remove(self, kind: Kind, namespace: str, name: str) -> None:
        """An object is deleted, if it is there."""
        found = self.picture.objects.get(kind, {}).pop((namespace, name), None)
        if found is not None:
            del self.written[kind, namespace, name]
            self._changes.append(Seen(kind, Vanished(found)))

    @property
    def has_changes(self) -> bool:
        """True if something changed since it was last taken."""
        return bool(self._changes)

    def take(self) -> list[Seen]:
        """The changes since the last call."""
        taken, self._changes = self._changes, []
        return taken


class Books:
    """What a scheduler keeps of a cluster, with everything in it that turns objects into events."""

    def __init__(self, cluster: ChangingCluster) -> None:
        picture, dependencies = cluster.picture, Dependencies()
        self.gangs = GangTracker(deadline_s=600.0)
        self.pods = PodTracker(SCHEDULER, PodReader(picture, dependencies, self.gangs), self.gangs)
        self.nodes = NodeTracker(picture)
        self.engine_events = EngineEvents(
            picture,
            ChangeQueue(),
            dependencies,
            self.nodes,
            self.pods,
            self.gangs,
            StoppedClock(),
            Unobserved(),
        )

    def round(self, seen: list[Seen]) -> list[event.Event]:
        """The events of one round that takes in these changes."""
        first = self.engine_events.take(seen)
        return [*first, *(one for wave in self.engine_events.waves() for one in wave)]


Held = tuple[Pod, NodeName, tuple[DeviceId | None, ...]]


class RecordedEvents:
    """What an engine knows after some events: one dictionary for each kind of fact."""

    def __init__(self) -> None:
        self.nodes: dict[NodeName, Node] = {}
        self.waiting: dict[PodUid, Pod] = {}
        self.placed: dict[PodUid, Held] = {}
        self.gangs: dict[GangName, Gang] = {}
        self.queues: dict[QueueName, Queue] = {}
        self.namespaces: dict[str, dict[str, str]] = {}
        self.budgets: dict[tuple[str, str], DisruptionBudget] = {}

    def hear(self, events: Iterable[event.Event]) -> None:
        """Facts come, change and go."""
        for one in events:
            self._hear(one)

    def _hear(self, one: event.Event) -> None:
        match one:
            case event.NodeSet(node):
                self.nodes[node.name] = node
            case event.NodeRemoved(name):
                del self.nodes[name]
            case event.PodAdded(pod) if pod.uid in self.placed:
                self.placed[pod.uid] = (pod, *self.placed[pod.uid][1:])
            case event.PodAdded(pod):
                self.waiting[pod.uid] = pod
            case event.PodBound(pod, node_name, devices):
                self.waiting.pop(pod.uid, None)
                self.placed[pod.uid] = (pod, node_name, devices)
            case event.BindRefused(uid):
                if uid in self.placed:
                    self.waiting[uid] = self.placed.pop(uid)[0]
            case event.PodRemoved(uid):
                self.waiting.pop(uid, None)
                self.placed.pop(uid, None)
            case event.GangSet(gang):
                self.gangs[gang.name] = gang
            case event.GangRemoved(gang_name):
                del self.gangs[gang_name]
            case event.QueueSet(queue):
                self.queues[queue.name] = queue
            case event.QueueRemoved(queue_name):
                del self.queues[queue_name]
            case event.NamespaceSet(namespace, labels):
                self.namespaces[namespace] = labels
            case event.NamespaceRemoved(namespace):
                self.namespaces.pop(namespace, None)
            case event.DisruptionBudgetSet(budget):
                self.budgets[budget.namespace, budget.name] = budget
            case event.DisruptionBudgetRemoved(namespace, budget_name):
                del self.budgets[namespace, budget_name]
            case _:
                # What an engine remembers of the past is no fact about an object.
                pass


class Binding(msgspec.Struct):
    """A Binding under way. The server has it once it ``arrived``; the scheduler once it was ``answered``."""

    name: str
    node: NodeName
    devices: tuple[DeviceId, ...]
    annotations: dict[str, str]
    arrived: bool = False
    answered: bool = False


def begin_binding(
    books: Books, told: RecordedEvents, pod: Pod, node: Node, devices: tuple[DeviceId, ...]
) -> Binding:
    """The engine decides on a pod that waits, and the scheduler sends the Binding."""
    entry = books.pods.waiting(pod.uid)
    assert entry is not None, "the engine has a pod waiting that the books have not"
    granted = [one for one in node.devices if one.id in devices]
    gang = books.gangs.bound_with(pod.uid, entry)
    terms = terms_of(entry.object, pod, gang, Bind(pod.uid, node.name, devices), 0)
    annotations = PluginDelivery().annotations(entry.object, pod.shape.gpu, granted, 1, terms)
    entry.intent = Intent(node.name, devices, annotations, terms)
    del told.waiting[pod.uid]
    told.placed[pod.uid] = (pod, node.name, devices)
    return Binding(entry.name.name, node.name, devices, annotations)
