"""FleetQueues in a cluster: who waits where, what a bad one harms, and what their statuses say."""

import asyncio
from collections.abc import Iterable
from random import Random
from typing import Any

import msgspec
import pytest

from gpufleet.cluster.queues.queue_figures import QueueFigures as Figures
from gpufleet.cluster.queues.queue_figures import ResourceFigures as Use
from gpufleet.cluster.settings import LeaseTimes, Settings
from gpufleet.engine.event import Event, PodBound
from gpufleet.engine.instruction import AnyInstruction, QueueBar, WhyBarred
from gpufleet.kube.transport import Request
from gpufleet.model.identifiers import QueueName, QuotaResource
from gpufleet.scheduler import service
from gpufleet.scheduler.queue_status_writer import QueueStatusWriter
from gpufleet.scheduler.service import run as run_scheduler
from tests.scheduler.world import Object, World, in_world

QUEUES = "/apis/gpufleet.io/v1alpha1/fleetqueues"


def add_queue(world: World, name: str, **spec: Any) -> None:
    kind = {"apiVersion": "gpufleet.io/v1alpha1", "kind": "FleetQueue"}
    world.add({**kind, "metadata": {"name": name}, "spec": spec})


def add_namespace(world: World, name: str, **labels: str) -> None:
    world.add({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}})


def queue(world: World, name: str) -> Object:
    answer = world.server.answer(Request("GET", f"{QUEUES}/{name}"), "system:masters")
    found: Object = msgspec.json.decode(answer.body)
    return found


def condition(world: World, name: str, kind: str = "Active") -> Object:
    told = queue(world, name).get("status", {}).get("conditions", [])
    return next((one for one in told if one["type"] == kind), {})


def node_of(world: World, name: str, namespace: str) -> str:
    found: str = world.get(name, namespace)["spec"].get("nodeName", "")
    return found


def status_writes(world: World) -> list[str]:
    """The queues whose statuses were written, in order."""
    return [
        one.target.split("/")[-2]
        for one in world.server.answered
        if one.method == "PATCH" and QUEUES in one.target
    ]


async def one_gpu_for_two(world: World, later: Object) -> None:
    """A full GPU, then two pods for it; ``later`` is the second."""
    world.node("n", gpus=1)
    world.pod("holder")
    await world.settle(5)
    world.pod("first")
    await world.settle(2)
    world.pod("second", **later)
    await world.settle(2)
    world.finish("holder")
    await world.settle(10)


def test_a_namespace_listed_by_a_queue_waits_in_it() -> None:
    async def story(world: World) -> None:
        add_namespace(world, "team-a")
        add_queue(world, "default")
        add_queue(world, "urgent", priority=10, namespaces=["team-a"])
        await one_gpu_for_two(world, {"namespace": "team-a"})
        assert (node_of(world, "second", "team-a"), world.node_of("first")) == ("n", "")

    in_world(story)


def test_a_local_queue_of_kueue_is_a_name_of_the_queue_in_its_namespace() -> None:
    async def story(world: World) -> None:
        add_queue(world, "default")
        add_queue(world, "urgent", priority=10, localQueues=[{"namespace": "default", "name": "mine"}])
        await one_gpu_for_two(world, {"labels": {"kueue.x-k8s.io/queue-name": "mine"}})
        assert (world.node_of("second"), world.node_of("first")) == ("n", "")

    in_world(story)


def test_waiting_work_moves_when_a_queue_claims_its_namespace() -> None:
    async def story(world: World) -> None:
        add_namespace(world, "team-a", team="a")
        add_queue(world, "default")
        world.node("n", gpus=1)
        world.pod("holder")
        await world.settle(5)
        world.pod("first")
        await world.settle(2)
        world.pod("second", namespace="team-a")
        await world.settle(2)
        add_queue(world, "urgent", priority=10, namespaceSelector={"matchLabels": {"team": "a"}})
        await world.settle(2)
        world.finish("holder")
        await world.settle(10)
        assert (node_of(world, "second", "team-a"), world.node_of("first")) == ("n", "")

    in_world(story)


def test_a_bad_queue_is_told_and_harms_nobody() -> None:
    async def story(world: World) -> None:
        world.node("n", gpus=2)
        add_queue(world, "good")
        add_queue(world, "bad", quotas=[{"resource": "gpu-memroy", "nominal": 1}])
        add_queue(world, "worse", quotas=[7])
        world.pod("p", labels={"gpufleet.io/queue": "good"})
        await world.settle()
        assert world.node_of("p") == "n"
        told = condition(world, "bad")
        assert (told["status"], told["reason"]) == ("False", "Malformed")
        assert told["message"].startswith("FleetQueue bad, spec.quotas[0].resource: unknown")
        assert "gpu-memory?" in told["message"]
        assert condition(world, "worse")["reason"] == "Malformed"
        # Said once, however many turns go by.
        await world.settle(60)
        assert sorted(status_writes(world)).count("bad") == 1
        assert sorted(status_writes(world)).count("worse") == 1

    in_world(story)


def test_without_queues_nothing_is_written() -> None:
    async def story(world: World) -> None:
        world.node("n", gpus=1)
        world.pod("p")
        await world.settle(30)
        assert world.node_of("p") == "n"
        assert status_writes(world) == []

    in_world(story)


def test_running_work_stays_in_its_queue_when_another_claims_its_namespace_and_work_of_others_moves() -> None:
    """Of a pod that another scheduler placed nothing says in which queue it was bound."""
    told: list[Event] = []

    def note(_at_us: int, events: tuple[Event, ...], _said: list[AnyInstruction], *, goes_on: bool) -> None:
        assert not goes_on
        told.extend(events)

    async def story(world: World) -> None:
        await world.stop()
        world.node("n", gpus=3)
        world.pod("p")
        world.pod("theirs", schedulerName="default-scheduler", nodeName="n")
        world.pod("named", labels={"gpufleet.io/queue": "b"})
        settings = Settings(identity="recorded", lease=LeaseTimes(15, 10.0, 2.0))
        life = run_scheduler(
            world.transport(),
            world.clock,
            Random(9),
            settings,
            record=note,
        )
        world.life = asyncio.create_task(life)
        await world.settle()
        assert world.node_of("p") == "n"
        told.clear()
        add_queue(world, "a", namespaces=["default"])
        await world.settle()
        bound = [one.pod for one in told if isinstance(one, PodBound)]
        assert [(one.name, one.queue) for one in bound] == [("default/theirs", "a")]

    in_world(story)


class Reports:
    """The engine's reports, as a test wants them."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now: tuple[Figures, ...] = ()
        reports = self

        class RecordingWriter(QueueStatusWriter):
            def __init__(self, *arguments: Any, **options: Any) -> None:
                super().__init__(*arguments, **options)
                self.report = reports.report

        monkeypatch.setattr(service, "QueueStatusWriter", RecordingWriter)

    def report(self) -> Iterable[Figures]:
        """What the engine says."""
        return self.now


A = QueueName("team-a")
GPU = QuotaResource("gpu")


def test_a_status_says_what_the_engine_reports(monkeypatch: pytest.MonkeyPatch) -> None:
    reports = Reports(monkeypatch)

    async def story(world: World) -> None:
        add_queue(world, "team-a", quotas=[{"resource": "gpu", "nominal": 8}], namespaces=["x"])
        used = (Use(GPU, 9500, 1500), Use(QuotaResource("gpu-memory"), 81920, lent=1024))
        reports.now = (Figures(A, used, {"quota": 3, "nodes": 1}),)
        await world.settle()
        status = queue(world, "team-a")["status"]
        assert status["resources"] == [
            {"resource": "gpu", "used": "9500m", "borrowed": "1500m", "lent": "0"},
            {"resource": "gpu-memory", "used": "80Gi", "borrowed": "0", "lent": "1Gi"},
        ]
        assert status["pending"] == {
            "pods": 4,
            "reasons": [{"reason": "nodes", "pods": 1}, {"reason": "quota", "pods": 3}],
        }
        assert status["observedGeneration"] == 1
        assert condition(world, "team-a")["status"] == "True"
        assert condition(world, "team-a", "NamespacesClear")["status"] == "True"

    in_world(story)


def test_a_status_is_written_when_something_changed_and_at_most_once_in_a_while(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    reports = Reports(monkeypatch)

    async def story(world: World) -> None:
        for name in ("team-a", "team-b"):
            add_queue(world, name)
        reports.now = (Figures(A), Figures(QueueName("team-b")))
        await world.settle(60)
        assert sorted(status_writes(world)) == ["team-a", "team-b"]
        for used in range(1, 41):
            reports.now = (Figures(A, (Use(GPU, used),)), Figures(QueueName("team-b")))
            await world.settle(0.5)
        await world.settle(10)
        assert 2 <= status_writes(world).count("team-a") <= 7
        assert status_writes(world).count("team-b") == 1
        assert queue(world, "team-a")["status"]["resources"][0]["used"] == "40m"

    in_world(story)


def test_what_a_user_writes_into_a_status_does_not_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    reports = Reports(monkeypatch)

    async def story(world: World) -> None:
        add_queue(world, "team-a")
        reports.now = (Figures(A, (Use(GPU, 1000),)),)
        await world.settle()
        before = queue(world, "team-a")["status"]
        forged = {"status": {"share": "7", "resources": [{"resource": "gpu", "used": "0"}]}}
        assert world.request("PATCH", f"{QUEUES}/team-a/status", forged) == 200
        await world.settle()
        assert queue(world, "team-a")["status"] == before

    in_world(story)


@pytest.mark.parametrize(
    ("bar", "reason", "words"),
    [
        (QueueBar(A, WhyBarred.CYCLE), "ParentCycle", "the queue is its own ancestor"),
        (QueueBar(A, WhyBarred.NO_PARENT), "ParentMissing", "the parent of the queue is not there"),
        (QueueBar(QueueName("root"), WhyBarred.HELD), "Held", "root, above it, is held"),
        (QueueBar(A, WhyBarred.TOO_DEEP), "TooDeep", "too deep"),
    ],
)
def test_a_queue_that_is_not_in_force_says_why(
    bar: QueueBar, reason: str, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    reports = Reports(monkeypatch)

    async def story(world: World) -> None:
        add_queue(world, "team-a", parent="root")
        reports.now = (Figures(A, bar=bar),)
        await world.settle()
        told = condition(world, "team-a")
        assert (told["status"], told["reason"]) == ("False", reason)
        assert words in told["message"]
        since = told["lastTransitionTime"]
        reports.now = (Figures(A),)
        await world.settle()
        told = condition(world, "team-a")
        assert (told["status"], told["reason"]) == ("True", "InForce")
        assert told["lastTransitionTime"] > since

    in_world(story)


def test_an_inner_queue_is_in_force(monkeypatch: pytest.MonkeyPatch) -> None:
    reports = Reports(monkeypatch)

    async def story(world: World) -> None:
        add_queue(world, "team-a")
        reports.now = (Figures(A, bar=QueueBar(A, WhyBarred.INNER)),)
        await world.settle()
        assert condition(world, "team-a")["status"] == "True"

    in_world(story)


def test_a_namespace_that_two_queues_list_is_told_to_the_one_that_lacks_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    reports = Reports(monkeypatch)

    async def story(world: World) -> None:
        for name in ("team-a", "team-b"):
            add_queue(world, name, namespaces=["shared"])
        reports.now = (Figures(A), Figures(QueueName("team-b")))
        await world.settle()
        assert condition(world, "team-a", "NamespacesClear")["status"] == "True"
        told = condition(world, "team-b", "NamespacesClear")
        assert (told["status"], told["reason"]) == ("False", "ListedTwice")
        assert "shared is listed by team-a too" in told["message"]

    in_world(story)


def test_others_conditions_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    reports = Reports(monkeypatch)

    async def story(world: World) -> None:
        add_queue(world, "team-a")
        theirs = {"type": "Audited", "status": "True", "reason": "Yes", "message": "by hand"}
        assert world.request("PATCH", f"{QUEUES}/team-a/status", {"status": {"conditions": [theirs]}}) == 200
        reports.now = (Figures(A),)
        await world.settle()
        assert condition(world, "team-a", "Audited")["message"] == "by hand"
        assert condition(world, "team-a")["status"] == "True"

    in_world(story)


def test_a_circle_harms_its_members_and_those_below_alone() -> None:
    async def story(world: World) -> None:
        world.node("n", gpus=4)
        for name, parent in (("a", "b"), ("b", "c"), ("c", "a"), ("below", "a")):
            add_queue(world, name, parent=parent)
        add_queue(world, "good", quotas=[{"resource": "gpu", "nominal": 1}])
        for name in ("below", "good"):
            world.pod(name, labels={"gpufleet.io/queue": name})
        await world.settle()
        assert [condition(world, name)["reason"] for name in "abc"] == ["ParentCycle"] * 3
        assert "a, above it, is its own ancestor" in condition(world, "below")["message"]
        assert condition(world, "good")["status"] == "True"
        assert (world.node_of("below"), world.node_of("good")) == ("", "n")
        fixed = {"spec": {"parent": None}}
        assert world.request("PATCH", f"{QUEUES}/c", fixed) == 200
        await world.settle()
        assert condition(world, "below")["status"] == "True"
        assert world.node_of("below") == "n"

    in_world(story)


def test_a_tree_of_a_thousand_levels_is_a_tree() -> None:
    async def story(world: World) -> None:
        world.node("n", gpus=4)
        add_queue(world, "q-0000", quotas=[{"resource": "gpu", "nominal": 1}])
        for number in range(1, 1000):
            add_queue(world, f"q-{number:04}", parent=f"q-{number - 1:04}")
        for name in ("one", "two"):
            world.pod(name, labels={"gpufleet.io/queue": "q-0999"})
        await world.settle(60)
        assert sorted((world.node_of("one"), world.node_of("two"))) == ["", "n"]
        assert queue(world, "q-0000")["status"]["resources"][0]["used"] == "1"
        assert queue(world, "q-0999")["status"]["pending"]["pods"] == 1

    in_world(story)


def test_the_status_of_a_real_engine_and_what_a_new_leader_remembers() -> None:
    async def story(world: World) -> None:
        world.node("n", gpus=4)
        add_queue(world, "root", quotas=[{"resource": "gpu", "nominal": 1}])
        add_queue(
            world, "a", parent="root", halfLife="1h", quotas=[{"resource": "gpu", "nominal": 2}], weight=2
        )
        add_queue(world, "b", parent="gone")
        for name in ("one", "two", "three", "four"):
            world.pod(name, labels={"gpufleet.io/queue": "a"})
        await world.settle(60)
        status = queue(world, "a")["status"]
        (gpus,) = status["resources"]
        # Three of four fit into 2 of its own and the 1 that its parent has.
        assert (gpus["used"], gpus["borrowed"], gpus["lent"]) == ("3", "1", "0")
        assert status["pending"] == {"pods": 1, "reasons": [{"reason": "quota", "pods": 1}]}
        assert condition(world, "a")["status"] == "True"
        assert condition(world, "root")["status"] == "True"
        assert condition(world, "b")["reason"] == "ParentMissing"
        (past,) = status["pastUse"]
        assert past["used"] == 3000
        before = status_writes(world).count("a")
        await world.stop()
        await world.clock.sleep(60)
        world.start()
        await world.settle(60)
        # The new leader remembers the same, so there is nothing to write.
        assert queue(world, "a")["status"]["pastUse"] == [past]
        assert status_writes(world).count("a") == before

    in_world(story)
