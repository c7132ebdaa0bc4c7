"""A pod that runs on devices unknown to its kubelet is told of once, in an Event."""

from typing import Any

import msgspec

from gpufleet.agent.events.lost_holder_events import REASON, LostHolderEvents, note_of
from gpufleet.agent.events.pod_events import PodEvents
from gpufleet.agent.state.node_state import Holders
from gpufleet.agent.state.topic import Topic
from tests.agent.api_world import AgentWorld, in_agent_world
from tests.agent.node_values import GPU, NODE, held

LOST = msgspec.structs.replace(held("a", GPU, "GPU-0"), listed=False, lost=True)


async def told(world: AgentWorld) -> list[tuple[str, str, str]]:
    """The pod, the reason and the words of each Event."""
    listed: Any = msgspec.json.decode(await world.client.read("/apis/events.k8s.io/v1/events"))
    return [(one["regarding"]["uid"], one["reason"], one["note"]) for one in listed["items"]]


def test_a_holder_that_the_kubelet_lost_is_told_once_and_again_after_it_was_known() -> None:
    async def story(world: AgentWorld) -> None:
        holders: Topic[Holders] = Topic((held("a", GPU, "GPU-0"), held("b", GPU, "GPU-1")))
        world.start(LostHolderEvents(PodEvents(world.client, NODE), holders).run())
        await world.after(1.0)
        assert await told(world) == []
        holders.publish((LOST, held("b", GPU, "GPU-1")))
        await world.after(1.0)
        holders.publish((LOST,))
        await world.after(1.0)
        assert await told(world) == [("uid-a", REASON, note_of(LOST))]
        holders.publish((held("a", GPU, "GPU-0"),))
        await world.after(1.0)
        holders.publish((LOST,))
        await world.after(1.0)
        assert len(await told(world)) == 2

    in_agent_world(story)


def test_the_words_name_container_device_and_what_to_do() -> None:
    words = note_of(LOST)
    assert "container main runs on GPU-0 (nvidia.com/gpu)" in words
    assert "a new pod in its place" in words
    assert len(note_of(msgspec.structs.replace(LOST, units=("GPU-0",) * 500))) <= 1000
    assert "runs on nvidia.com/gpu," in note_of(msgspec.structs.replace(LOST, units=()))
