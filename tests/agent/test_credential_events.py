"""A credential that ends soon is an Event on the node and a series of the agent (fault 37)."""

from typing import Any

import msgspec

from gpufleet.agent.events.credential_events import REASON, CredentialEvents
from gpufleet.agent.exporter.exporter import Exporter, Topics
from gpufleet.agent.state.node_state import NodeGpus
from gpufleet.agent.state.topic import Topic
from gpufleet.kube.expiry import Expiry
from gpufleet.kube.expiry_watch import ExpiryWatch
from tests.agent.api_world import AgentWorld, in_agent_world
from tests.agent.set_clock import Moment, SetClock

DAY_S = 86_400.0


def test_fault_37_people_hear_of_it_at_the_node_a_week_before() -> None:
    async def story(world: AgentWorld) -> None:
        ends_s = world.clock.now().timestamp() + 8 * DAY_S
        watch = ExpiryWatch(
            lambda: (Expiry("token", ends_s), Expiry("other", ends_s * 2)), world.client.clock
        )
        world.start(CredentialEvents(world.client, "node-1", watch).run())
        await world.after(0.9 * DAY_S)
        assert await notes(world) == []
        await world.after(0.2 * DAY_S)
        (note,) = await notes(world)
        assert note.startswith("the token on the way to the API server ends at ")

    in_agent_world(story)


async def notes(world: AgentWorld) -> list[str]:
    """What Events say of credentials."""
    listed: Any = msgspec.json.decode(await world.client.read("/apis/events.k8s.io/v1/events"))
    return [one["note"] for one in listed["items"] if one["reason"] == REASON]


def test_fault_37_the_end_of_each_credential_is_a_series() -> None:
    known = (Expiry("token", 1.8e9), Expiry("server-certificate", 1.9e9))
    topics = Topics(Topic(NodeGpus("node-1", "boot-1")), Topic({}), Topic({}), Topic(()))
    exporter = Exporter(topics, SetClock(Moment()), expiries=lambda: known)
    text = b"".join(exporter.page(gzipped=False).parts).decode()
    name = "gpufleet_agent_credential_expiry_timestamp_seconds"
    assert f'{name}{{node="node-1",credential="token"}} 1800000000\n' in text
    assert f'{name}{{node="node-1",credential="server-certificate"}} 1900000000\n' in text
    silent = Exporter(topics, SetClock(Moment()))
    assert name not in b"".join(silent.page(gzipped=False).parts).decode()
