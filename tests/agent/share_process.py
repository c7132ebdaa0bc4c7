"""The parts of the agent that give shares, as a process that tests may kill, on the node of a local cluster.

    python -m tests.agent.share_process KUBECONFIG DEVICE_PLUGINS POD_RESOURCES CDI STATE

Two cards of /dev/null. Where the file "die" is in STATE, the process kills itself when the kubelet next says
that a container is about to start.
"""

import asyncio
import logging
import os
import random
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

from gpufleet.agent.device_plugin.cdi import CdiEdits, CdiNode
from gpufleet.agent.device_plugin.kubelet_link import GrpcKubeletLink
from gpufleet.agent.device_plugin.open_call_record import OpenCallRecord
from gpufleet.agent.device_plugin.registration import KubeletRegistration
from gpufleet.agent.device_plugin.share_allocator import ShareAllocator, ShareInputs
from gpufleet.agent.device_plugin.share_files import ShareFiles
from gpufleet.agent.device_plugin.share_slot_registrar import ShareSlotRegistrar
from gpufleet.agent.holders.holder_memory import HolderMemory
from gpufleet.agent.holders.holder_monitor import HolderMonitor, HolderSources
from gpufleet.agent.kubelet.pod_resources import PodResources
from gpufleet.agent.kubelet.pods import Pods
from gpufleet.agent.reports.node_devices import NodeDevicesWriter
from gpufleet.agent.state.node_state import Gpu, Holders, NodeGpus, NodePods
from gpufleet.agent.state.topic import Topic
from gpufleet.kube.client import Client
from gpufleet.kube.clock import MachineClock
from gpufleet.kube.following_access import find_access
from gpufleet.kube.http_transport import HttpTransport
from gpufleet.localkube.node.configuration import NODE_NAME
from tests.agent.node_values import BOOT, FRACTIONS, a_gpu

GPUS = (a_gpu("GPU-0", FRACTIONS), a_gpu("GPU-1", FRACTIONS))


class MortalAllocator(ShareAllocator):
    """Dies where it is told to."""

    def __init__(self, die: Path, *parts: object) -> None:
        super().__init__(*parts)  # type: ignore[arg-type]
        self._die = die

    async def prepare(self, units: Sequence[str]) -> None:
        """As Allocator."""
        if self._die.exists():
            self._die.unlink()
            os.kill(os.getpid(), signal.SIGKILL)
        await super().prepare(units)


def edits(gpu: Gpu) -> CdiEdits:
    """Each card is /dev/null under another name."""
    nodes = tuple(CdiNode(path, host_path="/dev/null", permissions="rw") for path in gpu.facts.device_nodes)
    return CdiEdits(("NVIDIA_VISIBLE_DEVICES=void",), nodes)


async def run(kubeconfig: Path, plugins: Path, pod_resources: Path, cdi: Path, state: Path) -> None:
    """All parts until the process ends."""
    transport = HttpTransport(find_access(kubeconfig=kubeconfig))
    client = Client(transport, MachineClock(), random.Random())
    gpus: Topic[NodeGpus] = Topic(NodeGpus(NODE_NAME, BOOT, gpus=GPUS))
    known: Topic[NodePods] = Topic({})
    holders: Topic[Holders] = Topic(())
    pods = Pods(client, NODE_NAME, known)
    memory = HolderMemory(client.clock)
    watch = HolderMonitor(
        PodResources(pod_resources), plugins, known, holders, HolderSources(memory), client.clock
    )
    world = ShareInputs(gpus, known, holders, pods.ask, watch.ask, edits, watch.look, memory)
    allocator = MortalAllocator(
        state / "die", world, ShareFiles(cdi), OpenCallRecord(state / "checkpoint.json", BOOT), plugins
    )
    registration = KubeletRegistration(MachineClock(), GrpcKubeletLink(plugins))
    writer = NodeDevicesWriter(client, gpus, holders, known, lambda: pods.listed and watch.known)
    async with asyncio.TaskGroup() as group:
        for part in (
            pods,
            watch,
            registration,
            ShareSlotRegistrar(allocator, registration, gpus, holders),
            writer,
        ):
            group.create_task(part.run())


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO)
    asyncio.run(run(*map(Path, sys.argv[1:6])))
