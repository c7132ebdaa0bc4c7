"""What is decided for a while holds for ``explain``, fresh from the API, and for the next leader too."""

from random import Random
from typing import Any

import pytest

from gpufleet.cluster.settings import Settings
from gpufleet.explain.answer import Answer
from gpufleet.explain.inquiry import ask
from gpufleet.kube.client import Client
from gpufleet.simulation.volume_actors import VolumeActors, claim, storage_class
from tests.scheduler.test_eviction_planner import Refusing, add_queue, of, runs
from tests.scheduler.test_facts import OWNER, a_share, reports, share
from tests.scheduler.world import World, in_world


async def explained(world: World, name: str, **settings: Any) -> Answer:
    """What ``explain`` says of a pod, fresh from the API."""
    client = Client(world.transport("system:masters"), world.clock, world.random)
    return await ask(client, Settings(identity="explain", **settings), name, "default", lambda _: None)


async def new_leader(world: World, after_s: float = 5.0) -> None:
    """Another process takes over at once."""
    await world.stop()
    world.start()
    await world.settle(after_s)


def condition(found: dict[str, Any], kind: str) -> dict[str, Any]:
    """A condition of an object."""
    told: dict[str, Any] = next(one for one in found["status"]["conditions"] if one["type"] == kind)
    return told


def told_of(found: dict[str, Any], kind: str) -> bool:
    """Whether an object has a condition."""
    return any(one["type"] == kind for one in found["status"].get("conditions", ()))


async def a_node_that_rejects_pods(world: World) -> None:
    """The kubelet of the only node turned three pods away, and one more waits."""
    world.node("a", gpus=4)
    for number in range(3):
        world.pod(f"early-{number}")
    await world.settle(5.0)
    for number in range(3):
        world.finish(f"early-{number}", "Failed", "UnexpectedAdmissionError")
    await world.settle(2.0)
    world.pod("late")
    await world.settle(5.0)
    assert world.node_of("late") == ""


def test_explain_says_that_a_node_is_left_alone_and_until_when() -> None:
    async def story(world: World) -> None:
        await a_node_that_rejects_pods(world)
        answer = await explained(world, "late")
        assert answer.cause == "rejects-pods"
        assert "the kubelet of a turned several pods away" in answer.why
        told = condition(world.objects("/api/v1/nodes")[0], "gpufleet.io/PodsRejected")
        until = told["message"].partition("until ")[2].partition(";")[0]
        assert until in answer.why
        assert "1 with a kubelet that turned pods away lately" in world.why("late")

    in_world(story)


def test_a_new_leader_leaves_the_node_alone_until_its_time_and_no_longer() -> None:
    async def story(world: World) -> None:
        await a_node_that_rejects_pods(world)
        await new_leader(world, 30.0)
        assert world.node_of("late") == ""
        await world.settle(30.0)
        assert world.node_of("late") == "a"
        told = condition(world.objects("/api/v1/nodes")[0], "gpufleet.io/PodsRejected")
        assert told["status"] == "False"

    in_world(story)


def test_the_next_pause_is_longer_under_the_next_leader_too() -> None:
    async def story(world: World) -> None:
        await a_node_that_rejects_pods(world)
        await world.settle(60.0)
        await new_leader(world)
        for number in range(2):
            world.pod(f"again-{number}")
        await world.settle(5.0)
        for name in ("late", "again-0", "again-1"):
            world.finish(name, "Failed", "UnexpectedAdmissionError")
        world.pod("waiting")
        await world.settle(100.0)
        assert world.node_of("waiting") == ""
        await world.settle(30.0)
        assert world.node_of("waiting") == "a"

    in_world(story)


async def a_claim_that_is_refused(world: World) -> VolumeActors:
    """The only node can make no volume for a pod's claim."""
    world.add(storage_class())
    actors = VolumeActors(world.server, Random(1))
    actors.refuses = lambda _claim, _node: True
    world.also(actors.run())
    world.node("a", gpus=1)
    world.add(claim("data", "default"))
    world.pod("p", volumes=[{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}])
    await world.settle(10.0)
    assert actors.refused == 1
    return actors


def test_explain_says_that_a_volume_was_refused() -> None:
    async def story(world: World) -> None:
        await a_claim_that_is_refused(world)
        answer = await explained(world, "p")
        assert answer.cause == "volume-affinity"
        told = condition(world.get("p"), "gpufleet.io/VolumeRefused")
        assert told["message"].startswith("claim default/data got no volume on node a, left out until ")

    in_world(story)


def test_a_new_leader_leaves_the_node_out_for_the_claim() -> None:
    async def story(world: World) -> None:
        actors = await a_claim_that_is_refused(world)
        actors.refuses = lambda _claim, _node: False
        await new_leader(world, 30.0)
        assert actors.refused == 1
        assert world.node_of("p") == ""
        await world.settle(40.0)
        assert world.node_of("p") == "a"
        assert condition(world.get("p"), "gpufleet.io/VolumeRefused")["status"] == "False"

    in_world(story)


def test_a_forged_condition_keeps_its_own_pod_off_for_a_minute_at_most() -> None:
    async def story(world: World) -> None:
        await world.stop()
        world.add(storage_class())
        world.also(VolumeActors(world.server, Random(1)).run())
        world.node("a", gpus=2)
        for name in ("p", "q"):
            world.add(claim(name, "default"))
            world.pod(name, volumes=[{"name": "data", "persistentVolumeClaim": {"claimName": name}}])
        words = "claim default/p got no volume on node a, left out until 2099-01-01T00:00:00Z"
        forged = {"type": "gpufleet.io/VolumeRefused", "status": "True", "message": words}
        path = "/api/v1/namespaces/default/pods/p/status"
        assert world.request("PATCH", path, {"status": {"conditions": [forged]}}) == 200
        world.start()
        await world.settle(30.0)
        assert (world.node_of("p"), world.node_of("q")) == ("", "a")
        await world.settle(60.0)
        assert world.node_of("p") == "a"

    in_world(story)


async def a_pod_that_pauses(world: World) -> VolumeActors:
    """One of two nodes made no volume for a pod's claim, so the Binding there came to nothing."""
    world.add(storage_class())
    actors = VolumeActors(world.server, Random(1))
    actors.refuses = lambda _claim, _node: not actors.refused
    world.also(actors.run())
    world.node("a", gpus=1)
    world.node("b", gpus=1)
    world.add(claim("data", "default"))
    world.pod("p", volumes=[{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}])
    while not actors.refused or not told_of(world.get("p"), "gpufleet.io/BindRefused"):
        await world.settle(0.1)
    return actors


def test_explain_says_that_a_binding_was_refused_and_is_tried_again_after_a_pause() -> None:
    async def story(world: World) -> None:
        await a_pod_that_pauses(world)
        assert (await explained(world, "p")).cause == "backoff"
        words = condition(world.get("p"), "gpufleet.io/BindRefused")["message"]
        assert words.startswith("its last Bindings were refused (1), and the next is made after ")
        await world.settle(10.0)
        assert world.node_of("p")

    in_world(story)


def test_a_forged_pause_keeps_its_own_pod_off_for_a_minute_at_most() -> None:
    async def story(world: World) -> None:
        await world.stop()
        world.node("a", gpus=2)
        world.pod("p")
        world.pod("q")
        words = "its last Bindings were refused (9), and the next is made after 2099-01-01T00:00:00.000000Z"
        forged = {"type": "gpufleet.io/BindRefused", "status": "True", "message": words}
        path = "/api/v1/namespaces/default/pods/p/status"
        assert world.request("PATCH", path, {"status": {"conditions": [forged]}}) == 200
        world.start()
        await world.settle(30.0)
        assert (world.node_of("p"), world.node_of("q")) == ("", "a")
        await world.settle(60.0)
        assert world.node_of("p") == "a"

    in_world(story)


GANG = {"gpufleet.io/gang": "train", "gpufleet.io/gang-min-members": "2"}


async def a_gang_in_part(world: World) -> None:
    """One of two members runs; there is no room for the other."""
    world.node("a", gpus=1)
    world.pod("w0", annotations=GANG, ownerReferences=OWNER, nodeName="a")
    world.pod("w1", annotations=GANG, ownerReferences=OWNER)
    await world.settle(10.0)


@pytest.mark.parametrize("restart", [False, True])
def test_the_deadline_of_a_gang_does_not_begin_anew(*, restart: bool) -> None:
    async def story(world: World) -> None:
        await a_gang_in_part(world)
        if restart:
            await new_leader(world)
        await world.settle(20.0)
        assert world.evicted() == []
        await world.settle(35.0)
        assert world.evicted() == ["w0"]
        (note,) = world.events("GangIncomplete")
        assert "has 1 of 2 members placed past its deadline; it is taken back to start again" in note

    in_world(story, gang_deadline_s=60.0)


def test_explain_agrees_when_a_gang_is_past_its_deadline() -> None:
    async def story(world: World) -> None:
        await a_gang_in_part(world)
        await world.stop()
        await world.clock.sleep(60.0)
        gone_by = await explained(world, "w1", gang_deadline_s=60.0)
        world.start()
        await world.settle(2.0)
        assert world.evicted() == ["w0"]
        live = await explained(world, "w1", gang_deadline_s=60.0)
        assert gone_by.cause == live.cause

    in_world(story, gang_deadline_s=60.0)


SHORT = "gpufleet.io/GangShort"


def train(minimum: int) -> dict[str, str]:
    """What a member of a gang says of it."""
    return {"gpufleet.io/gang": "train", "gpufleet.io/gang-min-members": str(minimum)}


def short_members(world: World) -> list[str]:
    """The pods whose condition says that their gang is short of members."""
    pods = world.objects("/api/v1/pods")
    told = [one for one in pods if told_of(one, SHORT) and condition(one, SHORT)["status"] == "True"]
    return sorted(one["metadata"]["name"] for one in told)


async def a_gang_that_ran(world: World) -> None:
    """All three members run, for longer than a gang has to become whole."""
    world.node("a", gpus=3)
    for number in range(3):
        world.pod(f"w{number}", annotations=train(3), ownerReferences=OWNER)
    await world.settle(300.0)
    for number in range(3):
        runs(world, f"w{number}")


def writes_of_short_gangs(world: World) -> int:
    """How often it was written that a gang is short of members, or whole again."""
    asked = (one for one in world.server.answered if one.method == "PATCH" and one.user != "system:masters")
    paths = [one.target for one in asked if one.target.endswith("/status")]
    return sum(path.startswith("/api/v1/namespaces/default/pods/w") for path in paths)


def test_a_gang_that_is_whole_is_not_written_of() -> None:
    async def story(world: World) -> None:
        await a_gang_that_ran(world)
        assert short_members(world) == []
        assert writes_of_short_gangs(world) == 0

    in_world(story)


def test_that_a_gang_is_short_of_members_stands_in_one_of_them_until_it_is_whole() -> None:
    async def story(world: World) -> None:
        await a_gang_that_ran(world)
        world.delete("w0")
        await world.settle(5.0)
        (first,) = short_members(world)
        words = condition(world.get(first), SHORT)["message"]
        assert words.startswith("its gang is short of members since 2026-01-01T00:05:0")
        assert words.endswith("; it ran with 3, and members that come join those that run")
        world.delete(first)
        await world.settle(5.0)
        (other,) = short_members(world)
        assert condition(world.get(other), SHORT)["message"] == words
        for number in range(2):
            world.pod(f"new-{number}", annotations=train(3), ownerReferences=OWNER)
        await world.settle(5.0)
        assert short_members(world) == []
        assert condition(world.get(other), SHORT)["reason"] == "GangWhole"

    in_world(story)


@pytest.mark.parametrize("restart", [False, True])
def test_the_time_of_a_gang_to_replace_members_does_not_begin_anew(*, restart: bool) -> None:
    async def story(world: World) -> None:
        await a_gang_that_ran(world)
        world.delete("w0")
        await world.settle(10.0)
        if restart:
            await new_leader(world)
        await world.settle(40.0 - 5.0 * restart)
        assert world.evicted() == []
        await world.settle(15.0)
        assert world.evicted() == ["w1", "w2"]

    in_world(story, gang_deadline_s=300.0)


@pytest.mark.parametrize("restart", [False, True])
def test_a_member_that_comes_joins_those_that_run_under_the_next_leader_too(*, restart: bool) -> None:
    async def story(world: World) -> None:
        await a_gang_that_ran(world)
        world.delete("w0")
        world.delete("w1")
        await world.settle(10.0)
        if restart:
            await new_leader(world)
        world.pod("new", annotations=train(3), ownerReferences=OWNER)
        await world.settle(2.0)
        assert world.node_of("new") == "a"

    in_world(story)


def test_explain_knows_that_a_gang_ran_and_until_when_it_must_be_whole() -> None:
    async def story(world: World) -> None:
        await a_gang_that_ran(world)
        world.request("PATCH", "/api/v1/nodes/a", {"spec": {"unschedulable": True}})
        world.delete("w0")
        await world.settle(5.0)
        world.pod("new", annotations=train(3), ownerReferences=OWNER)
        await world.settle(30.0)
        assert (await explained(world, "new")).cause == "cordoned"
        await world.stop()
        await world.clock.sleep(60.0)
        assert (await explained(world, "new")).cause == "gang-short"

    in_world(story)


def test_a_forged_history_gives_a_gang_its_time_once_more_at_most() -> None:
    async def story(world: World) -> None:
        await a_gang_in_part(world)
        await world.stop()
        since = "its gang is short of members since 2099-01-01T00:00:00.000000Z"
        words = f"{since}; it ran with 9, and members that come join those that run"
        forged = {"type": SHORT, "status": "True", "message": words}
        path = "/api/v1/namespaces/default/pods/w0/status"
        assert world.request("PATCH", path, {"status": {"conditions": [forged]}}) == 200
        world.start()
        await world.settle(50.0)
        assert world.evicted() == []
        assert "2099" not in condition(world.get("w0"), SHORT)["message"]
        await world.settle(15.0)
        assert world.evicted() == ["w0"]

    in_world(story, gang_deadline_s=60.0)


def test_a_pod_in_a_conflict_ends_under_the_next_leader_too_and_explain_agrees() -> None:
    async def story(world: World) -> None:
        world.node("a", gpus=1)
        world.pod("granted", ownerReferences=OWNER)
        await world.settle()
        world.pod("stranger", schedulerName="other", nodeName="a")
        world.pod("next")
        reports(world, "a", stranger="0")
        await world.settle(5.0)
        await new_leader(world, 30.0)
        assert world.evicted() == ["granted"]
        answer = await explained(world, "next")
        assert answer.cause == "gpu-busy"
        assert "1 with too few free GPUs" in world.why("next")

    in_world(story)


def test_an_offender_ends_under_the_next_leader_too_and_explain_agrees() -> None:
    async def story(world: World) -> None:
        world.node("a", gpus=1, shares=True)
        share(world, "greedy", "0.9", ownerReferences=OWNER)
        await world.settle()
        share(world, "next", "0.9")
        reports(world, "a", greedy=a_share(world, "greedy", 79000))
        await world.settle(30.0)
        await new_leader(world, 100.0)
        assert world.evicted() == ["greedy"]
        assert (await explained(world, "next")).cause == "gpu-busy"

    in_world(story, evict_memory_offenders=True)


async def a_pod_that_a_budget_keeps(world: World) -> Refusing:
    """The only GPU is in use, and the server refuses to evict its pod for work that goes before it."""
    world.node("n", gpus=1)
    add_queue(world, "a", 1)
    world.pod("low", labels=of("a"), ownerReferences=OWNER)
    await world.settle(5.0)
    runs(world, "low")
    refusing = Refusing(world, "low")
    await world.stop()
    world.start(refusing)
    await world.settle(40.0)
    world.pod("high", labels=of("a"), priority=100)
    # The fourth refusal holds for 80 seconds.
    while refusing.refused < 4:
        await world.settle(1.0)
    await world.settle(2.0)
    return refusing


def test_a_refused_eviction_is_written_once_and_its_time_is_whole_seconds() -> None:
    async def story(world: World) -> None:
        refusing = await a_pod_that_a_budget_keeps(world)
        told = condition(world.get("low"), "gpufleet.io/EvictionRefused")
        assert told["status"] == "True"
        words = "its eviction was refused (disruption-budget), and is not asked for again until "
        assert told["message"].startswith(words)
        path = "/api/v1/namespaces/default/pods/low/status"
        asked = [one for one in world.server.answered if (one.method, one.target) == ("PATCH", path)]
        patched = [one for one in asked if one.user != "system:masters"]
        assert len(patched) == refusing.refused

    in_world(story)


def test_explain_knows_that_a_pod_is_not_evicted_now() -> None:
    async def story(world: World) -> None:
        await a_pod_that_a_budget_keeps(world)
        live = world.why("high")
        assert "is kept for it" not in live
        answer = await explained(world, "high")
        assert answer.cause == "queue-quota"
        # Without the condition it would say that the pod ends for this one.
        path = "/api/v1/namespaces/default/pods/low/status"
        assert world.request("PATCH", path, {"status": {"conditions": []}}) == 200
        assert (await explained(world, "high")).cause == "nominated"

    in_world(story)


def test_a_new_leader_asks_for_a_refused_eviction_no_sooner() -> None:
    async def story(world: World) -> None:
        refusing = await a_pod_that_a_budget_keeps(world)
        await world.stop()
        world.start()
        await world.settle(60.0)
        assert world.evicted() == []
        await world.settle(25.0)
        assert world.evicted() == ["low"]
        assert refusing.refused == 4

    in_world(story)


def test_a_forged_refusal_keeps_a_pod_for_no_longer_than_any_other() -> None:
    async def story(world: World) -> None:
        world.node("n", gpus=1)
        add_queue(world, "a", 1)
        world.pod("low", labels=of("a"), ownerReferences=OWNER)
        await world.settle(5.0)
        await world.stop()
        words = "its eviction was refused (forbidden), and is not asked for again until 2099-01-01T00:00:00Z"
        forged = {"type": "gpufleet.io/EvictionRefused", "status": "True", "message": words}
        path = "/api/v1/namespaces/default/pods/low/status"
        running = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}, forged]}
        assert world.request("PATCH", path, {"status": running}) == 200
        world.start()
        world.pod("high", labels=of("a"), priority=100)
        await world.settle(120.0)
        assert world.evicted() == []
        await world.settle(60.0)
        assert world.evicted() == ["low"]

    in_world(story)
