"""What a new leader takes over: places that wait for pods to leave them, and learned run times."""

from itertools import pairwise

import pytest

from gpufleet.cluster.pods.nominated_pods import parts_of
from gpufleet.engine.event import KeptPlaces
from gpufleet.engine.instruction import ReservedPlace
from gpufleet.kube.codec.nomination_parts import write_nomination
from gpufleet.kube.transport import Request, Response, ResponseStream, Transport, TransportError
from gpufleet.model.identifiers import DeviceId, NodeName, PodUid, QueueName
from gpufleet.scheduler.queue_status_writer import TURN_EVERY_S
from tests.explain.test_explain import answer_in
from tests.scheduler.test_eviction_planner import (
    CONTROLLED,
    PODS,
    add_queue,
    ended,
    is_leaving,
    kept_node,
    of,
)
from tests.scheduler.test_overtime import started
from tests.scheduler.test_reservations import QUEUES, change_leaders, work
from tests.scheduler.world import Object, World, in_world


def queue_status(world: World, queue: str) -> Object:
    """The status of a queue; empty where there is none."""
    found = [one.get("status", {}) for one in world.objects(QUEUES) if one["metadata"]["name"] == queue]
    return found[0] if found else {}


def nominations(world: World, queue: str) -> list[Object]:
    """What the status of a queue says of places that are kept."""
    found: list[Object] = queue_status(world, queue).get("nominations", [])
    return found


async def one_ends_for_another(world: World) -> None:
    """Of two pods on two GPUs one is told to end, and goes on running, for a pod that goes before it."""
    world.node("n", gpus=2)
    add_queue(world, "team", preemption={"withinQueue": "LowerPriority"})
    for name in ("low-0", "low-1"):
        world.pod(name, labels=of("team"), ownerReferences=CONTROLLED)
    await world.settle(10)
    world.pod("first", labels=of("team"), priority=5)
    await world.settle(5)


def the_victim(world: World) -> str:
    (found,) = [name for name in ("low-0", "low-1") if is_leaving(world, name)]
    return found


def test_a_place_that_is_being_left_is_written_into_the_status_of_the_queue_and_out_of_it() -> None:
    async def story(world: World) -> None:
        await one_ends_for_another(world)
        (told,) = nominations(world, "team")
        victim = world.get(the_victim(world))["metadata"]["uid"]
        assert told["holder"] == world.get("first")["metadata"]["uid"]
        assert [place["node"] for place in told["places"]] == ["n"]
        assert told["waitsFor"] == [victim]
        ended(world, the_victim(world))
        await world.settle(10)
        assert world.devices_of("first") == told["places"][0]["devices"]
        assert nominations(world, "team") == []

    in_world(story)


def test_a_record_of_work_that_has_started_leaves_the_status_in_an_ordinary_turn() -> None:
    """Pods start one a second, and a record that is left over does no harm: no write of its own for each."""

    async def story(world: World) -> None:
        world.node("n", gpus=24)
        add_queue(world, "team", preemption={"withinQueue": "LowerPriority"})
        for number in range(24):
            world.pod(f"low-{number}", labels=of("team"), ownerReferences=CONTROLLED)
        await world.settle(10)
        for number in range(24):
            world.pod(f"first-{number}", labels=of("team"), priority=5)
        await world.settle(10)
        assert len(nominations(world, "team")) == 24
        began_s = world.clock.monotonic_s()
        for number in range(24):
            ended(world, f"low-{number}")
            await world.settle(1)
        await world.settle(10)
        assert nominations(world, "team") == []
        written = [
            one.at_s
            for one in world.server.answered
            if one.target.startswith(f"{QUEUES}/team/status") and one.at_s >= began_s
        ]
        assert all(after_s - before_s >= TURN_EVERY_S - 1 for before_s, after_s in pairwise(written))

    in_world(story)


def test_work_that_comes_while_no_scheduler_leads_does_not_take_the_place() -> None:
    async def story(world: World) -> None:
        await one_ends_for_another(world)
        victim = the_victim(world)
        await world.stop()
        world.pod("gentle", labels=of("team"), priority=9, preemptionPolicy="Never")
        await world.clock.sleep(5)
        explained = await answer_in(world, "first")
        world.start()
        await world.settle(30)
        assert kept_node(world, "first") == "n"
        assert f"default/{victim}" in explained.why
        ended(world, victim)
        await world.settle(10)
        assert world.node_of("first") == "n"
        assert world.node_of("gentle") == ""
        assert world.evicted() == [victim]

    in_world(story)


class Mortal:
    """The way of a scheduler that dies at one of its writes about nominations, before it arrives or after.

    ``writes`` counts the statuses of queues and of the pod ``first`` that it writes, and the evictions for
    which it asks, from when ``counts`` is set on. ``unrecorded`` are pods that it asks to evict while no
    status names them.
    """

    def __init__(self, world: World, dies_at: int, *, after: bool) -> None:
        self.world = world
        self.inner: Transport = world.transport()
        self.dies_at = dies_at
        self.after = after
        self.counts = False
        self.writes = 0
        self.is_dead = False
        self.unrecorded: list[str] = []

    async def call(self, request: Request, *, timeout_s: float) -> Response:
        """Pass a request on, while it lives."""
        if self.is_dead:
            raise TransportError("dead", reached=False)
        self._note(request)
        parts = ("/eviction", "/pods/first/status")
        is_write = request.target.endswith(parts) or request.target.startswith(QUEUES + "/")
        if not (self.counts and is_write and request.method in {"PATCH", "POST"}):
            return await self.inner.call(request, timeout_s=timeout_s)
        self.writes += 1
        self.is_dead = self.writes == self.dies_at
        if self.is_dead and not self.after:
            raise TransportError("dead", reached=False)
        answer = await self.inner.call(request, timeout_s=timeout_s)
        if self.is_dead:
            raise TransportError("dead", reached=True)
        return answer

    def _note(self, request: Request) -> None:
        if request.target.endswith("/eviction"):
            name = request.target.split("/")[-2]
            uid = self.world.get(name)["metadata"]["uid"]
            statuses = [str(one["status"]) for one in self.world.objects(PODS)]
            recorded = [str(told["waitsFor"]) for told in nominations(self.world, "team")]
            if not any(uid in told for told in (*recorded, *statuses)):
                self.unrecorded.append(name)

    async def open(self, request: Request, *, timeout_s: float) -> ResponseStream:
        """A watch, as it is."""
        if self.is_dead:
            raise TransportError("dead", reached=False)
        return await self.inner.open(request, timeout_s=timeout_s)

    async def close(self) -> None:
        """Close the way beneath."""
        await self.inner.close()


@pytest.mark.parametrize("queue", ["team", ""], ids=["in-a-queue", "outside"])
@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("dies_at", range(1, 7))
def test_a_leader_that_dies_at_any_write_has_no_further_pod_evicted(
    dies_at: int, after: bool, queue: str
) -> None:
    """Of two nodes with two pods each one is to be left for ``first``. Meanwhile comes work that goes before
    it, but may evict none. Whenever the leader dies, two pods of one node end, and ``first`` runs there.
    """
    labels = of(queue) if queue else {}

    async def story(world: World) -> None:
        await world.stop()
        mortal = Mortal(world, dies_at, after=after)
        world.start(mortal)
        for name in ("a", "b"):
            world.node(name, gpus=2)
        if queue:
            add_queue(world, "team", preemption={"withinQueue": "LowerPriority"})
        for number in range(4):
            world.pod(f"low-{number}", labels=labels, ownerReferences=CONTROLLED)
        await world.settle(30)
        mortal.counts = True
        world.pod("first", gpus=2, labels=labels, priority=5)
        await world.clock.sleep(10)
        if world.life is not None and mortal.is_dead:
            world.life.cancel()
        world.pod("gentle", gpus=2, labels=labels, priority=9, preemptionPolicy="Never")
        await world.clock.sleep(20)
        other = Mortal(world, 0, after=False)
        await world.stop()
        world.start(other)
        await world.settle(60)
        gone = world.evicted()
        assert len(gone) == 2
        assert len({world.node_of(name) for name in gone}) == 1
        for name in gone:
            ended(world, name)
        await world.settle(20)
        assert world.node_of("first") in {"a", "b"}
        assert world.node_of("gentle") == ""
        assert mortal.unrecorded == other.unrecorded == []

    in_world(story)


def test_what_a_pod_says_of_its_own_place_gives_it_no_victim_that_it_may_not_evict() -> None:
    """A forged record that the policies of the API server let through: a low pod names a running pod that is
    more important. That one stays, and what is due by priority happens.
    """

    async def story(world: World) -> None:
        world.node("n", gpus=1)
        world.pod("runs", priority=5, ownerReferences=CONTROLLED)
        await world.settle(10)
        world.pod("bold", priority=4)
        await world.settle(5)
        await world.stop()
        uid, victim = (PodUid(world.get(name)["metadata"]["uid"]) for name in ("bold", "runs"))
        place = ReservedPlace(uid, NodeName("n"), (DeviceId("GPU-n-0"),))
        (part,) = parts_of(KeptPlaces(uid, QueueName("default"), 0, (place,), (victim,))).values()
        condition = {"type": "gpufleet.io/Nominated", **write_nomination(part)._asdict()}
        forged = {"status": {"nominatedNodeName": "n", "conditions": [condition]}}
        assert world.request("PATCH", f"{PODS}/bold/status", forged) == 200
        await change_leaders(world)
        assert world.evicted() == []
        assert world.node_of("bold") == ""
        told = [one for one in world.get("bold")["status"]["conditions"] if one["type"] == condition["type"]]
        assert [one["status"] for one in told] == ["False"]

    in_world(story)


def test_a_pod_that_names_a_node_for_itself_gets_no_place_and_has_none_evicted() -> None:
    """The owner of a pod may write its status; that is for people and autoscalers, and no order to us."""

    async def story(world: World) -> None:
        await one_ends_for_another(world)
        victim = the_victim(world)
        world.pod("bold", labels=of("team"), preemptionPolicy="Never", priority=9)
        await world.stop()
        path = "/api/v1/namespaces/default/pods/bold"
        wanted = {"status": {"nominatedNodeName": "n"}}
        assert world.request("PATCH", f"{path}/status", wanted) == 200
        noted = {"metadata": {"annotations": {"gpufleet.io/nomination": "n"}}}
        assert world.request("PATCH", path, noted) == 200
        evicted = world.evicted()
        await change_leaders(world)
        assert world.evicted() == evicted
        ended(world, victim)
        await world.settle(10)
        assert world.node_of("first") == "n"
        assert world.node_of("bold") == ""
        assert kept_node(world, "bold") == ""

    in_world(story)


def test_the_next_leader_knows_which_pods_are_not_evicted_for_a_queue() -> None:
    """It writes into each status what its engine knows, so what stays there was read."""

    async def story(world: World) -> None:
        world.node("n", gpus=1)
        add_queue(world, "all", gpus=0)
        add_queue(world, "poor", parent="all")
        add_queue(world, "owner", gpus=1, parent="all")
        world.pod("old", labels=of("poor"), ownerReferences=CONTROLLED)
        await world.settle(10)
        world.pod("new", labels=of("owner"))
        await world.settle(10)
        ended(world, "old")
        await world.settle(10)
        immune = [world.get("new")["metadata"]["uid"]]
        assert queue_status(world, "poor")["immunePods"] == immune
        await change_leaders(world)
        world.pod("waits", labels=of("poor"))
        await world.settle(10)
        assert queue_status(world, "poor")["pending"]["pods"] == 1
        assert queue_status(world, "poor")["immunePods"] == immune

    in_world(story)


@pytest.mark.parametrize("after_s", [0.0, 0.5, 1.5, 3.0, 4.5, 6.0, 8.0])
@pytest.mark.parametrize("is_bound", [False, True], ids=["victim-runs", "victim-gone"])
def test_a_leader_that_dies_right_after_an_eviction_leaves_word_at_whose_cost_it_was(
    after_s: float, is_bound: bool
) -> None:
    """However soon after the eviction, or after the pod got its place: the next leader will not evict the pod
    for the queue that lost, and says so in the status of that queue.
    """

    async def story(world: World) -> None:
        world.node("n", gpus=1)
        add_queue(world, "all", gpus=0)
        add_queue(world, "poor", parent="all")
        add_queue(world, "owner", gpus=1, parent="all")
        world.pod("old", labels=of("poor"), ownerReferences=CONTROLLED)
        await world.settle(10)
        world.pod("new", labels=of("owner"))
        while not is_leaving(world, "old"):
            await world.settle(0.05)
        if is_bound:
            ended(world, "old")
            while not world.node_of("new"):
                await world.settle(0.05)
        await world.settle(after_s)
        await world.stop()
        if not is_bound:
            ended(world, "old")
        await change_leaders(world)
        assert world.node_of("new") == "n"
        assert queue_status(world, "poor")["immunePods"] == [world.get("new")["metadata"]["uid"]]
        assert nominations(world, "owner") == []

    in_world(story)


def test_what_was_learned_of_run_times_is_known_to_the_next_leader() -> None:
    """Of one template five runs have ended after a minute; the sixth may come before a reservation."""

    async def story(world: World) -> None:
        add_queue(world, "team", reserveAfter="0s")
        add_queue(world, "small", learnRunTimes=True, reserveAfter="Never")
        for name in ("a", "b"):
            world.node(name, gpus=1)
        for number in range(5):
            name = f"nightly-{number}"
            world.pod(name, labels=of("small"), nodeSelector={"kubernetes.io/hostname": "b"})
            await world.settle(10)
            started(world, name)
            await world.settle(60)
            world.finish(name)
            await world.settle(10)
        (learned,) = queue_status(world, "small")["learnedRunTimes"]
        assert len(learned["runsMicroseconds"]) == 5
        work(world, "old", gpus=1, run_time="20m", node="a")
        await world.settle(5)
        started(world, "old")
        gang = {"gpufleet.io/gang": "train", "gpufleet.io/gang-min-members": "2"}
        for name in ("train-0", "train-1"):
            work(world, name, gpus=1, **gang)
        await world.settle(30)
        await change_leaders(world)
        world.pod("nightly-5", labels=of("small"), nodeSelector={"kubernetes.io/hostname": "b"})
        await world.settle(10)
        assert world.node_of("nightly-5") == "b"
        assert queue_status(world, "small")["learnedRunTimes"] == [learned]

    in_world(story)
