"""A container that names devices itself is told once that this counts for nothing, and no other one is."""

from typing import Any

import msgspec

from gpufleet.agent.events.pod_events import PodEvents
from gpufleet.agent.events.variable_events import REASON, VariableEvents
from gpufleet.agent.state.node_state import Holders, NodePod, NodePods
from gpufleet.agent.state.topic import Topic
from tests.agent.api_world import AgentWorld, in_agent_world
from tests.agent.node_values import GPU, NODE, held


def a_pod(name: str, *naming: str) -> NodePod:
    """A pod of which these containers name devices in the variable."""
    return NodePod(f"uid-{name}", "team-a", name, named_devices=frozenset(naming))


async def told(world: AgentWorld) -> list[tuple[str, str, str, str]]:
    """The pod, the kind, the reason and the words of each Event."""
    listed: Any = msgspec.json.decode(await world.client.read("/apis/events.k8s.io/v1/events"))
    return [(one["regarding"]["uid"], one["type"], one["reason"], one["note"]) for one in listed["items"]]


def test_it_is_told_once_to_the_pod_that_holds_devices_and_names_others() -> None:
    async def story(world: AgentWorld) -> None:
        pods: Topic[NodePods] = Topic({})
        holders: Topic[Holders] = Topic((held("a", GPU, "GPU-0"), held("b", GPU, "GPU-1")))
        world.start(VariableEvents(PodEvents(world.client, NODE), pods, holders).run())
        await world.after(1.0)
        assert await told(world) == []
        pods.publish({one.uid: one for one in (a_pod("a", "main"), a_pod("b", "side"), a_pod("c", "main"))})
        await world.after(1.0)
        holders.publish((*holders.value, held("d", GPU, "GPU-2")))
        await world.after(1.0)
        note = (
            "container main sets NVIDIA_VISIBLE_DEVICES itself, which counts for nothing: "
            "it sees the devices that it was granted, and no others"
        )
        assert await told(world) == [("uid-a", "Normal", REASON, note)]

    in_agent_world(story)
