"""Where the agent's own record is lost, its report of the same boot tells what was against the GPUs."""

from gpufleet.agent.reports.reported_xids import WAIT_S, reported_xids
from gpufleet.devices.xid import xid
from gpufleet.model.identifiers import DeviceId
from tests.agent.api_world import AgentWorld, Hindrance, in_agent_world
from tests.agent.node_values import BOOT, NODE

REASON = f"Xid 79: {xid(79).meaning}; the driver does not find it any more; Xid 48: {xid(48).meaning}"


def report(world: AgentWorld, boot_id: str = BOOT) -> None:
    """The node has reported a GPU that is well, one with errors, and one that is only silent."""
    devices = [
        {"id": "GPU-0"},
        {"id": "GPU-1", "health": "unhealthy", "healthReason": REASON},
        {"id": "GPU-2", "health": "unknown", "healthReason": "no answer to a sample for 5 s"},
    ]
    spec = {"bootID": boot_id, "devices": devices}
    world.add(
        {
            "apiVersion": "gpufleet.io/v1alpha1",
            "kind": "NodeDevices",
            "metadata": {"name": NODE},
            "spec": spec,
        }
    )


def test_the_errors_that_were_reported_are_found() -> None:
    async def story(world: AgentWorld) -> None:
        report(world)
        assert await reported_xids(world.client, NODE, BOOT) == {DeviceId("GPU-1"): (79, 48)}

    in_agent_world(story)


def test_a_report_of_another_boot_says_nothing() -> None:
    async def story(world: AgentWorld) -> None:
        report(world, "boot-0")
        assert await reported_xids(world.client, NODE, BOOT) == {}

    in_agent_world(story)


def test_without_a_report_or_a_server_nothing_is_said_and_nobody_waits_for_long() -> None:
    async def story(world: AgentWorld) -> None:
        assert await reported_xids(world.client, NODE, BOOT) == {}
        world.way.hindrances.append(Hindrance("GET", 1000, arrives=False))
        begin_s = world.clock.monotonic_s()
        assert await reported_xids(world.client, NODE, BOOT) == {}
        assert world.clock.monotonic_s() - begin_s <= WAIT_S

    in_agent_world(story)
