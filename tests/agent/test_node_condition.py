"""The Node says how its GPUs are, is written to only when that changed, and forgets what is over."""

import asyncio
from collections.abc import Awaitable, Callable
from random import Random
from typing import Any

import msgspec
import pytest

from gpufleet.agent.gpus.gpu_monitor import LOOKING
from gpufleet.agent.reports.node_condition import (
    ANNOTATION,
    CHECK_EVERY_S,
    TYPE,
    NodeCondition,
    annotation,
    condition,
)
from gpufleet.agent.state.node_state import Gpu, NodeGpus
from gpufleet.agent.state.topic import Topic
from gpufleet.devices.facts import GpuFacts
from gpufleet.devices.health import Verdict
from gpufleet.devices.sharing.plan import Exclusive, SharingPlan
from gpufleet.kube.client import Client
from gpufleet.kube.resources import NODES
from gpufleet.model.gpu_catalogue import Vendor
from gpufleet.model.identifiers import DeviceId
from gpufleet.simulation.api_server import ApiServer
from gpufleet.simulation.network import SimulatedTransport
from gpufleet.simulation.virtual_loop import VirtualClock, VirtualLoop, run

READY = {"type": "Ready", "status": "True", "reason": "KubeletReady"}
NODE = "/api/v1/nodes/node-1"


def gpu(index: int, health: Verdict = Verdict.HEALTHY, reason: str = "", **more: Any) -> Gpu:
    uuid = DeviceId(f"GPU-{index}")
    facts = GpuFacts(uuid, Vendor.NVIDIA, index, "NVIDIA H100")
    return Gpu(facts, SharingPlan(uuid, Exclusive()), health, reason, **more)


def gpus(*those: Gpu, problems: tuple[str, ...] = ()) -> NodeGpus:
    return NodeGpus("node-1", gpus=those, problems=problems)


SICK = gpus(gpu(0, Verdict.UNHEALTHY, "Xid 79: the card fell off the bus"), gpu(1))


@pytest.mark.parametrize(
    ("now", "status", "reason", "message"),
    [
        (gpus(gpu(0), gpu(1)), "True", "AllHealthy", "all 2 GPUs are healthy"),
        (
            SICK,
            "False",
            "GPUsOutOfService",
            "1 of 2 GPUs is out of service: GPU-0 (index 0): Xid 79: the card fell off the bus",
        ),
        (
            gpus(gpu(0, Verdict.UNKNOWN, "no answer for 5 s")),
            "Unknown",
            "GPUsUnknown",
            "1 of 1 GPU is unknown: GPU-0 (index 0): no answer for 5 s",
        ),
        (
            gpus(gpu(0, sick_instances={"MIG-1": "Xid 95"})),
            "False",
            "InstancesOutOfService",
            "MIG-1 of GPU-0 (index 0): Xid 95",
        ),
        (gpus(problems=("NVIDIA: no library",)), "Unknown", "NoDriver", "NVIDIA: no library"),
        (gpus(), "Unknown", "NoGPUs", "no GPU was found on this node"),
        (
            gpus(gpu(0), problems=("config: bad",)),
            "True",
            "AllHealthy",
            "the GPU is healthy; config: bad",
        ),
    ],
)
def test_the_condition_says_what_is(now: NodeGpus, status: str, reason: str, message: str) -> None:
    found = condition(now)
    assert found is not None
    assert (found.type, found.status, found.reason, found.message) == (TYPE, status, reason, message)


def test_nothing_is_said_before_anything_is_known() -> None:
    assert condition(gpus(problems=(LOOKING,))) is None


def test_the_annotation_names_each_card_that_is_out_and_nothing_else() -> None:
    assert annotation(SICK) == "GPU-0 (index 0): Xid 79: the card fell off the bus"
    assert annotation(gpus(gpu(0), gpu(1))) == ""


class Cluster:
    """A server with one Node, and what was written to it."""

    def __init__(self, loop: VirtualLoop) -> None:
        self.clock = VirtualClock(loop)
        self.server = ApiServer(self.clock, Random(1))
        self.add_node()
        self.gpus = Topic(gpus(problems=(LOOKING,)))
        transport = SimulatedTransport(self.server, "system:masters", Random(2))
        self.client = Client(transport, self.clock, Random(3))
        self.part = NodeCondition(self.client, "node-1", self.gpus)

    def add_node(self) -> None:
        """The kubelet makes it, with a condition of its own."""
        self.server.add(
            {
                "apiVersion": "v1",
                "kind": "Node",
                "metadata": {"name": "node-1"},
                "status": {"conditions": [READY]},
            }
        )

    async def node(self) -> dict[str, Any]:
        """The Node as it is stored."""
        found: dict[str, Any] = msgspec.json.decode(await self.client.read(NODE))
        return found

    async def conditions(self) -> dict[str, dict[str, Any]]:
        """By type."""
        return {one["type"]: one for one in (await self.node())["status"]["conditions"]}

    def writes(self) -> int:
        """How often the Node was patched."""
        return sum(1 for one in self.server.answered if one.method == "PATCH")


def told(story: Callable[[Cluster], Awaitable[None]]) -> None:
    async def tell(loop: VirtualLoop) -> None:
        cluster = Cluster(loop)
        running = asyncio.create_task(cluster.part.run())
        await story(cluster)
        assert not running.done()
        running.cancel()
        await asyncio.wait([running])

    run(tell)


def test_a_sick_card_and_its_recovery_are_on_the_node() -> None:
    async def story(cluster: Cluster) -> None:
        cluster.gpus.publish(SICK)
        await cluster.clock.sleep(1)
        found = await cluster.conditions()
        assert found["Ready"] == READY
        assert found[TYPE]["status"] == "False"
        assert "Xid 79" in (await cluster.node())["metadata"]["annotations"][ANNOTATION]
        cluster.gpus.publish(gpus(gpu(0), gpu(1)))
        await cluster.clock.sleep(1)
        assert (await cluster.conditions())[TYPE]["status"] == "True"
        assert ANNOTATION not in (await cluster.node())["metadata"].get("annotations", {})

    told(story)


def test_what_the_node_says_already_is_not_written_again() -> None:
    async def story(cluster: Cluster) -> None:
        cluster.gpus.publish(SICK)
        await cluster.clock.sleep(1)
        assert cluster.writes() == 2
        cluster.gpus.publish(msgspec.structs.replace(SICK, boot_id="another"))
        await cluster.clock.sleep(3 * CHECK_EVERY_S)
        assert cluster.writes() == 2

    told(story)


def test_the_time_of_transition_is_that_of_the_status() -> None:
    async def story(cluster: Cluster) -> None:
        cluster.gpus.publish(SICK)
        await cluster.clock.sleep(60)
        before = (await cluster.conditions())[TYPE]["lastTransitionTime"]
        cluster.gpus.publish(gpus(gpu(0, Verdict.UNHEALTHY, "something else"), gpu(1)))
        await cluster.clock.sleep(60)
        assert (await cluster.conditions())[TYPE]["lastTransitionTime"] == before
        cluster.gpus.publish(gpus(gpu(0), gpu(1)))
        await cluster.clock.sleep(60)
        assert (await cluster.conditions())[TYPE]["lastTransitionTime"] > before

    told(story)


def test_a_node_that_is_away_is_written_to_when_it_is_back() -> None:
    async def story(cluster: Cluster) -> None:
        await cluster.client.delete(NODES, "node-1")
        cluster.gpus.publish(SICK)
        await cluster.clock.sleep(5)
        assert "cannot be written" in cluster.part.problem
        cluster.add_node()
        await cluster.clock.sleep(31)
        assert (await cluster.conditions())[TYPE]["status"] == "False"
        assert cluster.part.problem == ""

    told(story)


def test_a_node_that_was_made_anew_is_told_again() -> None:
    async def story(cluster: Cluster) -> None:
        cluster.gpus.publish(SICK)
        await cluster.clock.sleep(1)
        await cluster.client.delete(NODES, "node-1")
        cluster.add_node()
        await cluster.clock.sleep(CHECK_EVERY_S)
        assert (await cluster.conditions())[TYPE]["status"] == "False"

    told(story)
