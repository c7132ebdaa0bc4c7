"""Taking back in a cluster: who is evicted, what people are told, and what happens where that is refused."""

from typing import Any

import msgspec

from gpufleet.cluster.settings import Settings
from gpufleet.explain.inquiry import ask
from gpufleet.kube.client import Client
from gpufleet.kube.transport import Request, Response, ResponseStream, Transport, TransportError
from tests.scheduler.world import Object, World, in_world

QUEUES = "/apis/gpufleet.io/v1alpha1/fleetqueues"
PODS = "/api/v1/namespaces/default/pods"
CONTROLLED = [{"apiVersion": "batch/v1", "kind": "Job", "name": "j", "uid": "u", "controller": True}]
SPENT = {"reason": "DisruptionBudget", "message": "the disruption budget needs 1 healthy pod and has 1"}


def add_queue(world: World, name: str, gpus: int | None = None, **spec: Any) -> None:
    quotas = [] if gpus is None else [{"resource": "gpu", "nominal": gpus}]
    kind = {"apiVersion": "gpufleet.io/v1alpha1", "kind": "FleetQueue"}
    world.add({**kind, "metadata": {"name": name}, "spec": {"quotas": quotas, **spec}})


def of(queue: str, *, gang: int = 0, **labels: str) -> Object:
    """The labels of work in a queue."""
    words = {"gpufleet.io/queue": queue, **labels}
    return {**words, "gpufleet.io/gang": "g", "gpufleet.io/gang-min-members": str(gang)} if gang else words


def set_state(world: World, name: str, state: str) -> None:
    assert world.request("PATCH", f"{QUEUES}/{name}", {"spec": {"state": state}}) == 200


def runs(world: World, name: str) -> None:
    """A kubelet's word that a pod runs and is ready."""
    conditions = [{"type": "Ready", "status": "True"}]
    status = {"status": {"phase": "Running", "conditions": conditions}}
    assert world.request("PATCH", f"{PODS}/{name}/status", status) == 200


def ended(world: World, name: str) -> None:
    """A kubelet's word that a pod which was told to end has done so."""
    assert "deletionTimestamp" in world.get(name)["metadata"]
    world.delete(name)


def is_leaving(world: World, name: str) -> bool:
    return "deletionTimestamp" in world.get(name)["metadata"]


def kept_node(world: World, name: str) -> str:
    found: str = world.get(name)["status"].get("nominatedNodeName", "")
    return found


def budget(world: World, name: str, allowed: int, **labels: str) -> None:
    """A disruption budget as its controller has left it."""
    path = "/apis/policy/v1/namespaces/default/poddisruptionbudgets"
    spec = {"selector": {"matchLabels": labels}, "minAvailable": 1}
    kind = {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget"}
    world.add({**kind, "metadata": {"name": name, "namespace": "default"}, "spec": spec})
    status = {
        "disruptionsAllowed": allowed,
        "observedGeneration": 1,
        "desiredHealthy": 1,
        "currentHealthy": 1,
    }
    assert world.request("PATCH", f"{path}/{name}/status", {"status": status}) == 200


async def two_teams(world: World) -> None:
    """Team b has both GPUs of a node, and borrowed one of them from team a."""
    world.node("n", gpus=2)
    add_queue(world, "root")
    add_queue(world, "a", 1, parent="root")
    add_queue(world, "b", 1, parent="root")
    for name in ("b1", "b2"):
        world.pod(name, labels=of("b"), ownerReferences=CONTROLLED)
    await world.settle(10)
    for name in ("b1", "b2"):
        runs(world, name)


def test_what_a_queue_is_owed_is_taken_back_and_everybody_is_told() -> None:
    async def story(world: World) -> None:
        await two_teams(world)
        world.pod("a1", labels=of("a"))
        await world.settle(5)
        (victim,) = [name for name in ("b1", "b2") if is_leaving(world, name)]
        assert (world.node_of("a1"), kept_node(world, "a1")) == ("", "n")
        assert world.why("a1") == f"node n is kept for it until default/{victim} has ended"
        (note,) = world.events("Reclaimed")
        assert note == "it makes room for pod default/a1: queue a takes back what queue b borrowed"
        assert len(world.events("Nominated")) == 1
        (target,) = [c for c in world.get(victim)["status"]["conditions"] if c["type"] == "DisruptionTarget"]
        assert target["reason"] == "EvictionByEvictionAPI"
        ended(world, victim)
        await world.settle(5)
        assert world.node_of("a1") == "n"
        await world.settle(200)
        assert world.evicted() == [victim]

    in_world(story)


def test_work_of_higher_priority_takes_the_place_of_its_own_queue() -> None:
    async def story(world: World) -> None:
        world.node("n", gpus=1)
        add_queue(world, "a", 1)
        world.pod("low", labels=of("a"), priority=0)
        await world.settle(5)
        runs(world, "low")
        world.pod("high", labels=of("a"), priority=100)
        await world.settle(5)
        (note,) = world.events("Preempted")
        assert note == "it makes room for pod default/high, which goes before it in queue a"
        ended(world, "low")
        await world.settle(5)
        assert world.node_of("high") == "n"

    in_world(story)


def test_without_queues_work_of_higher_priority_makes_room_and_says_so() -> None:
    async def story(world: World) -> None:
        world.node("n", gpus=1)
        world.pod("low", priority=0)
        await world.settle(5)
        runs(world, "low")
        world.pod("high", priority=100)
        await world.settle(5)
        assert (world.evicted(), kept_node(world, "high")) == (["low"], "n")
        (note,) = world.events("Preempted")
        assert note == "it makes room for pod default/high, whose priority is higher"
        ended(world, "low")
        await world.settle(5)
        assert world.node_of("high") == "n"

    in_world(story)


def test_a_pod_that_a_disruption_budget_keeps_stays_and_another_goes() -> None:
    async def story(world: World) -> None:
        budget(world, "keep", 0, role="server")
        world.node("n", gpus=2)
        add_queue(world, "a", 2)
        world.pod("kept", labels=of("a", role="server"))
        world.pod("other", labels=of("a"))
        await world.settle(5)
        runs(world, "kept")
        runs(world, "other")
        world.pod("high", labels=of("a"), priority=100)
        await world.settle(10)
        assert world.evicted() == ["other"]

    in_world(story)


def test_where_budgets_keep_everybody_nobody_goes_and_explain_says_so() -> None:
    async def story(world: World) -> None:
        budget(world, "keep", 0, role="server")
        world.node("n", gpus=1)
        add_queue(world, "a", 1)
        world.pod("kept", labels=of("a", role="server"))
        await world.settle(5)
        runs(world, "kept")
        world.pod("high", labels=of("a"), priority=100)
        await world.settle(10)
        assert world.evicted() == []
        client = Client(world.transport("system:masters"), world.clock, world.random)
        answer = await ask(client, Settings(identity="explain"), "high", "default", lambda _: None)
        assert "disruption budgets keep default/kept, or it would end for its sake" in answer.notes

    in_world(story)


def test_a_budget_that_cannot_be_read_harms_nobody() -> None:
    async def story(world: World) -> None:
        budget(world, "bad", -3, role="server")
        world.node("n", gpus=2)
        world.pod("p", labels=of("a", role="server"))
        await world.settle(10)
        assert world.node_of("p") == "n"

    in_world(story)


def test_a_refusal_of_the_server_leads_to_another_victim() -> None:
    """The budget's report is late: it still allows what the server refuses."""

    async def story(world: World) -> None:
        world.node("n", gpus=2)
        add_queue(world, "a", 2)
        # The one that started later loses less work, so it is the first to be asked for.
        world.pod("second", labels=of("a"))
        await world.settle(5)
        runs(world, "second")
        await world.settle(60)
        world.pod("first", labels=of("a"))
        await world.settle(5)
        runs(world, "first")
        refusing = Refusing(world, "first")
        await world.stop()
        world.start(refusing)
        await world.settle(40)
        world.pod("high", labels=of("a"), priority=100)
        await world.settle(5)
        assert refusing.refused >= 1, "nobody asked for the first: the story proves nothing"
        assert is_leaving(world, "second")
        assert not is_leaving(world, "first")
        (note,) = world.events("EvictionRefused")
        assert note.startswith(
            "pod default/first, which was to make room for it, stays: the disruption budget"
        )
        ended(world, "second")
        await world.settle(5)
        assert world.node_of("high") == "n"

    in_world(story)


class Refusing:
    """A server that refuses the eviction of one pod for ever, as a disruption budget would."""

    def __init__(self, world: World, name: str, *, loses: int = 0) -> None:
        self.inner: Transport = world.transport()
        self.path = f"/pods/{name}/eviction"
        self.loses = loses
        self.refused = 0
        self.lost = 0

    async def call(self, request: Request, *, timeout_s: float) -> Response:
        """Pass on what is no eviction of that pod."""
        if self.path not in request.target:
            return await self.inner.call(request, timeout_s=timeout_s)
        if self.lost < self.loses:
            self.lost += 1
            raise TransportError("connection reset by peer", reached=True)
        self.refused += 1
        details = {"causes": [SPENT]}
        body = {"kind": "Status", "code": 429, "reason": "TooManyRequests", "details": details}
        return Response(429, {}, msgspec.json.encode(body))

    async def open(self, request: Request, *, timeout_s: float) -> ResponseStream:
        """A watch, as it is."""
        return await self.inner.open(request, timeout_s=timeout_s)

    async def close(self) -> None:
        """Close the way beneath."""
        await self.inner.close()


def test_a_budget_that_never_lets_go_is_asked_ever_more_seldom_and_nothing_is_bound() -> None:
    async def story(world: World) -> None:
        world.node("n", gpus=1)
        add_queue(world, "a", 1)
        world.pod("low", labels=of("a"))
        await world.settle(5)
        runs(world, "low")
        await world.stop()
        refusing = Refusing(world, "low")
        world.start(refusing)
        await world.settle(40)
        world.pod("high", labels=of("a"), priority=100)
        await world.settle(600)
        assert 3 <= refusing.refused <= 9
        assert (world.node_of("high"), kept_node(world, "high")) == ("", "")
        assert "no place is kept" not in world.why("high"), "the reason itself has come back"

    in_world(story)


def test_an_eviction_whose_answer_is_lost_is_asked_for_again_and_evicts_nobody_else() -> None:
    async def story(world: World) -> None:
        await two_teams(world)
        world.loses("POST", "/eviction", times=3)
        world.pod("a1", labels=of("a"))
        await world.settle(30)
        assert len([name for name in ("b1", "b2") if is_leaving(world, name)]) == 1

    in_world(story)


def test_nobody_of_a_set_is_evicted_where_a_budget_refuses_one_of_them() -> None:
    async def story(world: World) -> None:
        world.node("n", gpus=2)
        add_queue(world, "a", 2)
        budget(world, "late", 5, role="server")
        world.pod("guarded", labels=of("a", role="server"))
        world.pod("free", labels=of("a"))
        await world.settle(5)
        runs(world, "guarded")
        runs(world, "free")
        await world.stop()
        refusing = Refusing(world, "guarded")
        world.start(refusing)
        await world.settle(40)
        world.pod("pair", gpus=2, labels=of("a"), priority=100)
        await world.settle(60)
        assert refusing.refused >= 1
        assert not is_leaving(world, "free"), "it would have ended in vain"
        assert world.node_of("pair") == ""

    in_world(story)


def test_a_victim_that_never_ends_keeps_its_devices_and_no_second_one_goes() -> None:
    async def story(world: World) -> None:
        world.node("n", gpus=2)
        add_queue(world, "a")
        world.pod("low1", labels=of("a"))
        world.pod("low2", labels=of("a"))
        await world.settle(5)
        runs(world, "low1")
        runs(world, "low2")
        world.pod("high", labels=of("a"), priority=100)
        await world.settle(2000)
        assert len(world.evicted()) == 1
        assert (world.node_of("high"), kept_node(world, "high")) == ("", "n")
        world.node("m", gpus=1)
        await world.settle(10)
        assert world.node_of("high") == "m"

    in_world(story)


def test_a_leader_that_takes_over_in_the_middle_of_a_reclaim_evicts_no_second_set() -> None:
    async def story(world: World) -> None:
        await two_teams(world)
        world.pod("a1", labels=of("a"))
        await world.settle(5)
        (victim,) = [name for name in ("b1", "b2") if is_leaving(world, name)]
        await world.stop()
        world.start()
        await world.settle(60)
        assert world.evicted() == [victim]
        assert kept_node(world, "a1") == "n"
        ended(world, victim)
        await world.settle(5)
        assert world.node_of("a1") == "n"

    in_world(story)


def test_a_place_that_an_earlier_leader_kept_is_taken_back_where_it_is_kept_no_more() -> None:
    async def story(world: World) -> None:
        world.node("n", gpus=1)
        add_queue(world, "a", 1)
        world.pod("waits", gpus=2, labels=of("a"))
        await world.settle(10)
        await world.stop()
        stale = {"status": {"nominatedNodeName": "n"}}
        assert world.request("PATCH", f"{PODS}/waits/status", stale) == 200
        world.start()
        await world.settle(60)
        assert kept_node(world, "waits") == ""

    in_world(story)


def test_an_older_leaders_eviction_that_comes_late_is_refused() -> None:
    async def story(world: World) -> None:
        world.node("n", gpus=1)
        world.pod("p")
        await world.settle(5)
        await world.stop()
        world.start()
        await world.settle(30)
        body = {
            "apiVersion": "policy/v1",
            "kind": "Eviction",
            "metadata": {"name": "p", "namespace": "default", "annotations": {"gpufleet.io/epoch": "0"}},
        }
        assert world.request("POST", f"{PODS}/p/eviction", body) == 403
        del body["metadata"]["annotations"]  # type: ignore[attr-defined]
        assert world.request("POST", f"{PODS}/p/eviction", body) == 201

    in_world(story)


def test_a_stopped_queue_ends_what_runs_and_a_held_one_does_not() -> None:
    async def story(world: World) -> None:
        world.node("n", gpus=2)
        add_queue(world, "a", 2)
        world.pod("one", labels=of("a"))
        world.pod("two", labels=of("a"))
        await world.settle(5)
        set_state(world, "a", "Held")
        await world.settle(20)
        assert world.evicted() == []
        set_state(world, "a", "Stopped")
        await world.settle(20)
        assert world.evicted() == ["one", "two"]
        assert set(world.events("QueueStopped")) == {"it ends because queue a, or one above it, is stopped"}

    in_world(story)


def test_a_draining_queue_takes_nothing_in_that_came_later_also_for_the_next_leader() -> None:
    async def story(world: World) -> None:
        world.node("n", gpus=1)
        add_queue(world, "a")
        world.pod("runs", labels=of("a"))
        await world.settle(5)
        world.pod("before", labels=of("a"))
        await world.settle(5)
        set_state(world, "a", "Draining")
        await world.settle(20)
        world.pod("late", labels=of("a"), priority=5)
        await world.settle(20)
        await world.stop()
        world.start()
        await world.settle(30)
        world.finish("runs")
        await world.settle(10)
        assert world.node_of("before") == "n"
        world.finish("before")
        await world.settle(10)
        assert world.node_of("late") == ""
        assert "draining" in world.why("late")

    in_world(story)


def test_a_gang_takes_its_quota_back_and_starts_whole() -> None:
    async def story(world: World) -> None:
        world.node("n", gpus=4)
        add_queue(world, "root")
        add_queue(world, "a", 2, parent="root")
        add_queue(world, "b", 2, parent="root")
        for number in range(4):
            world.pod(f"b{number}", labels=of("b"), ownerReferences=CONTROLLED)
        await world.settle(5)
        for number in range(4):
            runs(world, f"b{number}")
        for number in range(2):
            world.pod(f"a{number}", labels=of("a", gang=2))
        await world.settle(5)
        victims = [name for name in ("b0", "b1", "b2", "b3") if is_leaving(world, name)]
        assert len(victims) == 2
        ended(world, victims[0])
        await world.settle(30)
        assert [world.node_of("a0"), world.node_of("a1")] == ["", ""]
        ended(world, victims[1])
        await world.settle(5)
        assert [world.node_of("a0"), world.node_of("a1")] == ["n", "n"]
        assert world.evicted() == victims

    in_world(story)


def test_services_of_the_cluster_make_nobodys_room() -> None:
    async def story(world: World) -> None:
        world.node("n", gpus=1)
        add_queue(world, "team", gpus=1)
        world.pod("service", gpus=0, resources={"cpu": "40"}, schedulerName="other", nodeName="n")
        world.pod("needs-its-cores", labels=of("team"), resources={"cpu": "40"})
        await world.settle(20.0)
        assert world.evicted() == []
        assert not kept_node(world, "needs-its-cores")

    in_world(story)


def test_what_another_scheduler_gave_a_gpu_makes_room_for_who_owns_it() -> None:
    async def story(world: World) -> None:
        world.node("n", gpus=1)
        add_queue(world, "team", gpus=1)
        world.pod("theirs", schedulerName="other", nodeName="n")
        world.pod("owner", labels=of("team"))
        await world.settle(20.0)
        assert world.evicted() == ["theirs"]

    in_world(story)
