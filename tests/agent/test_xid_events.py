"""Pods hear of the errors of the GPUs that they hold, and of no others, once each."""

import asyncio
from collections.abc import Awaitable, Callable
from random import Random
from typing import Any

import msgspec

from gpufleet.agent.events.xid_events import AGAIN_AFTER_S, XidPodEvents
from gpufleet.agent.state.node_state import Gpu, Held, Holders, NodeGpus, NodePod, NodePods
from gpufleet.agent.state.topic import Topic
from gpufleet.devices.backend import XidEvent
from gpufleet.devices.facts import GpuFacts, MigFacts
from gpufleet.devices.sharing.plan import Exclusive, Mig, SharingPlan
from gpufleet.kube.client import Client
from gpufleet.model.gpu_catalogue import Vendor
from gpufleet.model.identifiers import DeviceId
from gpufleet.simulation.api_server import ApiServer
from gpufleet.simulation.network import SimulatedTransport
from gpufleet.simulation.virtual_loop import VirtualClock, VirtualLoop, run

WHOLE, CUT = DeviceId("GPU-0"), DeviceId("GPU-1")
PARTS = (MigFacts("MIG-a", "3g.20gb", 0, 1, 0), MigFacts("MIG-b", "3g.20gb", 4, 2, 0))
GPUS = (
    Gpu(GpuFacts(WHOLE, Vendor.NVIDIA, 0, "NVIDIA A100"), SharingPlan(WHOLE, Exclusive())),
    Gpu(GpuFacts(CUT, Vendor.NVIDIA, 1, "NVIDIA A100", mig=PARTS), SharingPlan(CUT, Mig(None))),
)
UNITS = {"train": WHOLE, "left": "MIG-a", "right": "MIG-b"}


class Cluster:
    """A node on which three pods hold a whole GPU and two instances of another."""

    def __init__(self, loop: VirtualLoop) -> None:
        self.clock = VirtualClock(loop)
        server = ApiServer(self.clock, Random(1))
        client = Client(SimulatedTransport(server, "system:masters", Random(2)), self.clock, Random(3))
        pods: NodePods = {f"uid-{name}": NodePod(f"uid-{name}", "default", name) for name in UNITS}
        holders: Holders = tuple(
            Held("default", name, "main", "nvidia.com/gpu", (unit,), f"uid-{name}")
            for name, unit in UNITS.items()
        )
        gpus = Topic(NodeGpus("node-1", "boot-1", gpus=GPUS))
        self.client = client
        self.notes = XidPodEvents(client, "node-1", gpus, Topic(pods), Topic(holders))

    async def told(self) -> list[tuple[str, str]]:
        """The pod and the words of each Event."""
        await self.clock.sleep(1)
        listed: Any = msgspec.json.decode(await self.client.read("/apis/events.k8s.io/v1/events"))
        return sorted((one["regarding"]["name"], one["note"]) for one in listed["items"])


def in_cluster(story: Callable[[Cluster], Awaitable[None]]) -> None:
    async def tell(loop: VirtualLoop) -> None:
        cluster = Cluster(loop)
        running = asyncio.create_task(cluster.notes.run())
        await story(cluster)
        assert not running.done()
        running.cancel()
        await asyncio.wait([running])

    run(tell)


def test_whoever_holds_the_gpu_hears_of_its_error() -> None:
    async def story(cluster: Cluster) -> None:
        cluster.notes.heard(XidEvent(31, WHOLE))
        words = "Xid 31 of GPU-0 (index 0): a page fault in GPU memory"
        follows = "the program is at fault or lost, the GPU is well"
        assert await cluster.told() == [("train", f"{words}; {follows}")]

    in_cluster(story)


def test_an_error_of_an_instance_is_told_to_its_holder_alone() -> None:
    async def story(cluster: Cluster) -> None:
        cluster.notes.heard(XidEvent(94, CUT, "MIG-b"))
        assert [pod for pod, _ in await cluster.told()] == ["right"]

    in_cluster(story)


def test_an_error_of_a_cut_card_is_told_to_all_on_it() -> None:
    async def story(cluster: Cluster) -> None:
        cluster.notes.heard(XidEvent(79, CUT))
        assert [pod for pod, _ in await cluster.told()] == ["left", "right"]

    in_cluster(story)


def test_information_and_errors_without_a_card_are_told_to_nobody() -> None:
    async def story(cluster: Cluster) -> None:
        for event in (XidEvent(63, WHOLE), XidEvent(79, None), XidEvent(79, DeviceId("GPU-9"))):
            cluster.notes.heard(event)
        assert await cluster.told() == []

    in_cluster(story)


def test_the_same_error_is_told_once_a_minute() -> None:
    async def story(cluster: Cluster) -> None:
        for _ in range(1000):
            cluster.notes.heard(XidEvent(31, WHOLE))
        assert len(await cluster.told()) == 1
        await cluster.clock.sleep(AGAIN_AFTER_S)
        cluster.notes.heard(XidEvent(31, WHOLE))
        cluster.notes.heard(XidEvent(13, WHOLE))
        assert len(await cluster.told()) == 3

    in_cluster(story)
