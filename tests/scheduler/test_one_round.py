"""What the engine was told is what the books hold, however many changes one round takes in."""

from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as some

from gpufleet.cluster.engine_events import EngineEvents
from gpufleet.cluster.nodes.node_tracker import NodeTracker
from gpufleet.cluster.pods.dependencies import Dependencies
from gpufleet.cluster.pods.gang_tracker import GangTracker
from gpufleet.cluster.pods.pod_entry import PodStage
from gpufleet.cluster.pods.pod_reader import PodReader
from gpufleet.cluster.pods.pod_tracker import PodTracker
from gpufleet.cluster.watching.change_queue import ChangeQueue, Seen
from gpufleet.cluster.watching.picture import Picture
from gpufleet.engine.event import Event, PodAdded, PodBound, PodRemoved
from gpufleet.kube import resources
from gpufleet.kube.clock import MachineClock
from gpufleet.kube.mirror_changes import Appeared, Change, Changed, Vanished
from gpufleet.kube.objects.pod import Pod
from gpufleet.kube.objects.pod_groups import PodGroup
from gpufleet.kube.resources import Kind
from gpufleet.model import pod as model
from gpufleet.model.identifiers import PodUid
from gpufleet.scheduler.metrics import Metrics

Object = dict[str, Any]
GROUPS = resources.POD_GROUPS_V1BETA1
NAMES = ("a", "b")


class StoppedClock(MachineClock):
    """No time passes."""

    def monotonic_s(self) -> float:
        """Always the beginning."""
        return 0.0


class Books:
    """The scheduler's books over a cluster of a few pods and a gang, and what the engine heard of them."""

    def __init__(self) -> None:
        self.picture = Picture()
        dependencies, gangs = Dependencies(), GangTracker(60.0)
        self.pods = PodTracker("gpufleet", PodReader(self.picture, dependencies, gangs), gangs)
        self.engine_events = EngineEvents(
            self.picture,
            ChangeQueue(),
            dependencies,
            NodeTracker(self.picture),
            self.pods,
            gangs,
            StoppedClock(),
            Metrics(),
        )
        self.heard: dict[PodUid, model.Pod] = {}
        self.pile: list[Seen] = []

    def put(self, kind: Kind, found: Any) -> None:
        """An object appears or becomes another."""
        of_kind = self.picture.objects.setdefault(kind, {})
        key = (found.metadata.namespace, found.metadata.name)
        before, of_kind[key] = of_kind.get(key), found
        change: Change[Any] = Appeared(found) if before is None else Changed(before, found)
        self.pile.append(Seen(kind, change))

    def drop(self, kind: Kind, name: str) -> None:
        """An object goes."""
        found = self.picture.objects.get(kind, {}).pop(("default", name), None)
        if found is not None:
            self.pile.append(Seen(kind, Vanished(found)))

    def round(self) -> None:
        """One round takes in what lies there."""
        seen, self.pile = self.pile, []
        for event in self.engine_events.take(seen):
            self._hear(event)
        for wave in self.engine_events.waves():
            for event in wave:
                self._hear(event)

    def _hear(self, event: Event) -> None:
        if isinstance(event, PodAdded):
            self.heard[event.pod.uid] = event.pod
        elif isinstance(event, PodRemoved):
            self.heard.pop(event.uid, None)
        elif isinstance(event, PodBound):
            self.heard.pop(event.pod.uid, None)

    def waiting(self) -> dict[PodUid, model.Pod | None]:
        """The pods that the engine has waiting, as the books say."""
        entries = self.pods.entries.items()
        return {uid: entry.meaning for uid, entry in entries if entry.place is PodStage.WAITING}


def pod(name: str, *, life: int = 1, **more: Any) -> Pod:
    """A pod that asks for a GPU; ``more`` are parts of its metadata, spec or status."""
    metadata: Object = {"name": name, "namespace": "default", "uid": f"{name}-{life}"}
    limits = {"nvidia.com/gpu": more.pop("gpus", "1")}
    spec: Object = {
        "schedulerName": "gpufleet",
        "containers": [{"name": "m", "resources": {"limits": limits}}],
    }
    metadata.update(more.pop("metadata", {}))
    status = more.pop("status", {})
    return msgspec.convert({"metadata": metadata, "spec": {**spec, **more}, "status": status}, Pod)


def group(minimum: int) -> PodGroup:
    """Kubernetes' own group of this minimum."""
    policy = {"schedulingPolicy": {"gang": {"minCount": minimum}}}
    metadata = {"name": "g", "namespace": "default"}
    return msgspec.convert({"metadata": metadata, "spec": policy}, PodGroup)


IN_GROUP: Object = {"schedulingGroup": {"podGroupName": "g"}}


@pytest.fixture
def books() -> Books:
    return Books()


def test_a_pod_that_somebody_notes_something_at_right_after_its_creation_waits(books: Books) -> None:
    books.put(resources.PODS, pod("a"))
    books.put(resources.PODS, pod("a", metadata={"annotations": {"example.com/seen": "yes"}}))
    books.round()
    assert list(books.heard) == ["a-1"]


def test_a_member_whose_group_appears_together_with_its_own_status_waits(books: Books) -> None:
    books.put(resources.PODS, pod("a", **IN_GROUP))
    books.round()
    books.put(GROUPS, group(2))
    told = {"conditions": [{"type": "PodScheduled", "status": "False"}]}
    books.put(resources.PODS, pod("a", status=told, **IN_GROUP))
    books.round()
    assert list(books.heard) == ["a-1"]


CHANGES = some.one_of(
    some.tuples(
        some.just("pod"),
        some.sampled_from(NAMES),
        some.integers(1, 2),
        some.fixed_dictionaries(
            {},
            optional={
                "gpus": some.sampled_from(["1", "2"]),
                "metadata": some.sampled_from(
                    [{"annotations": {"example.com/x": "y"}}, {"labels": {"a": "b"}}]
                ),
                "schedulingGates": some.just([{"name": "example.com/gate"}]),
                "schedulingGroup": some.just(IN_GROUP["schedulingGroup"]),
                "nodeName": some.just("n"),
                "status": some.sampled_from([{"phase": "Failed"}, {"phase": "Pending"}]),
            },
        ),
    ),
    some.tuples(some.just("gone"), some.sampled_from(NAMES)),
    some.tuples(some.just("group"), some.integers(1, 3)),
    some.tuples(some.just("no group")),
    some.tuples(some.just("round")),
)


@settings(max_examples=300, deadline=None)
@given(changes=some.lists(CHANGES, max_size=12))
def test_the_engine_heard_what_the_books_hold(changes: list[Any]) -> None:
    books = Books()
    for what, *rest in changes:
        match what, rest:
            case "pod", [name, life, more]:
                before = books.picture.find(resources.PODS, name, "default")
                if before is not None and before.metadata.uid != f"{name}-{life}":
                    books.drop(resources.PODS, name)
                books.put(resources.PODS, pod(name, life=life, **more))
            case "gone", [name]:
                books.drop(resources.PODS, name)
            case "group", [minimum]:
                books.put(GROUPS, group(minimum))
            case "no group", []:
                books.drop(GROUPS, "g")
            case "round", []:
                books.round()
                assert books.heard == books.waiting()
    books.round()
    assert books.heard == books.waiting()
