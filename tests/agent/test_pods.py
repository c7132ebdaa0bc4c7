"""The agent knows the pods of its node and their grants, and no others."""

import pytest

from gpufleet.agent.kubelet.pods import Pods
from gpufleet.agent.state.node_state import NodePods
from gpufleet.agent.state.topic import Topic
from gpufleet.kube.kube_errors import KubeError
from tests.agent.api_world import PODS, AgentWorld, in_agent_world
from tests.agent.node_values import GPU, NODE, SHARE, a_grant, a_share


def follow(world: AgentWorld) -> tuple[Pods, Topic[NodePods]]:
    topic: Topic[NodePods] = Topic({})
    pods = Pods(world.client, NODE, topic)
    world.start(pods.run())
    return pods, topic


def test_pods_of_this_node_are_known_with_what_they_ask_and_were_granted() -> None:
    grant = a_grant(a_share("GPU-0", 250, 20_000), epoch=7)

    async def story(world: AgentWorld) -> None:
        uid = world.pod("mine", grant, main={SHARE: "1", "cpu": "500m"}, side={"memory": "1Gi"})
        world.pod("elsewhere", grant, node="node-2")
        pods, topic = follow(world)
        await world.after(1.0)
        assert pods.listed
        assert not pods.problem
        assert list(topic.value) == [uid]
        found = topic.value[uid]
        assert (found.title, found.grant) == ("team/mine", grant)
        assert found.requests == {"main": {SHARE: 1}}

    in_agent_world(story)


RUNNING = {"state": {"running": {"startedAt": "2026-11-23T05:00:00Z"}}, "containerID": "containerd://a"}
WAITING = {"state": {"waiting": {"reason": "ContainerCreating"}}}
ENDED = {"state": {"terminated": {"exitCode": 0}}}
CRASHED = {"state": {"waiting": {"reason": "CrashLoopBackOff"}}, "lastState": {"terminated": {"exitCode": 1}}}
MADE = {**WAITING, "containerID": "containerd://b"}


@pytest.mark.parametrize(
    ("status", "started", "running"),
    [
        (RUNNING, True, True),
        (WAITING, False, False),
        (ENDED, True, False),
        (CRASHED, True, False),
        (MADE, True, False),
    ],
)
@pytest.mark.parametrize("listed", ["containerStatuses", "initContainerStatuses"])
def test_what_has_started_is_told_by_the_pods_status(
    status: dict[str, object], started: bool, running: bool, listed: str
) -> None:
    async def story(world: AgentWorld) -> None:
        uid = world.pod("mine", main={GPU: "1"})
        _, topic = follow(world)
        await world.after(1.0)
        assert topic.value[uid].started == frozenset()
        told = {"status": {listed: [{"name": "main", **status}]}}
        assert world.request("PATCH", f"{PODS}/mine/status", told) == 200
        await world.after(1.0)
        assert topic.value[uid].started == frozenset({"main"} if started else ())
        assert topic.value[uid].running == frozenset({"main"} if running else ())

    in_agent_world(story)


def test_a_pod_that_ends_is_finished_and_one_that_goes_is_gone() -> None:
    async def story(world: AgentWorld) -> None:
        uid = world.pod("mine", main={GPU: "2"})
        pods, topic = follow(world)
        await world.after(1.0)
        since_s = topic.value[uid].first_seen_s
        world.phase("mine", "Succeeded")
        await world.after(1.0)
        assert topic.value[uid].finished
        assert topic.value[uid].first_seen_s == since_s
        assert not pods.ended
        world.remove("mine")
        other = world.pod("other", main={GPU: "1"})
        await world.after(1.0)
        world.remove("other")
        await world.after(1.0)
        assert topic.value == {}
        assert (uid in pods.ended, other in pods.ended) == (True, False)

    in_agent_world(story)


@pytest.mark.parametrize("text", ["", "{", '{"v": 99, "epoch": 1}', '{"v":1,"epoch":1,"containers":[]}'])
def test_a_grant_that_cannot_be_read_is_told_and_harms_no_other_pod(text: str) -> None:
    async def story(world: AgentWorld) -> None:
        bad = world.pod("bad", text)
        good = world.pod("good", a_grant(a_share("GPU-0", 500)))
        _, topic = follow(world)
        await world.after(1.0)
        assert topic.value[bad].grant is None
        assert "gpufleet.io/grant" in topic.value[bad].grant_problem
        assert topic.value[good].grant is not None

    in_agent_world(story)


def test_a_whole_list_is_one_value() -> None:
    async def story(world: AgentWorld) -> None:
        for number in range(20):
            world.pod(f"pod-{number}")
        _, topic = follow(world)
        sizes = []

        async def note() -> None:
            async for value in topic.follow():
                sizes.append(len(value))  # noqa: PERF401  (it never ends)

        world.start(note())
        await world.after(2.0)
        assert sizes == [0, 20]

    in_agent_world(story)


def test_who_must_not_be_behind_asks_the_server() -> None:
    async def story(world: AgentWorld) -> None:
        uid = world.pod("mine", a_grant(a_share("GPU-0", 500)))
        world.pod("elsewhere", node="node-2")
        pods = Pods(world.client, NODE, Topic({}))
        assert list(await pods.ask()) == [uid]
        await world.way.close()
        with pytest.raises(KubeError):
            await pods.ask()

    in_agent_world(story)
