"""One agent as a process of its own, on simulated GPUs, with a real API server and a kubelet's sockets.

The kubelet is the small one of the tests: what is measured is the agent, and a real one would only add
its own time.
"""

import asyncio
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import grpc
import msgspec

from gpufleet.agent.kubelet.kubelet_api import device_plugin_pb2 as plugin_api
from gpufleet.agent.kubelet.kubelet_api import pod_resources_pb2
from gpufleet.localkube import manifests
from gpufleet.localkube.agent_identity import agent_kubeconfig
from gpufleet.localkube.cluster import LocalCluster
from gpufleet.localkube.control_plane import Options, needed_programs
from gpufleet.localkube.processes import child
from gpufleet.localkube.programs import binaries
from gpufleet.localkube.programs.releases import DEFAULT_KUBERNETES, release_of
from gpufleet.localkube.simulated_nodes import NODES, SimulatedNodes, gpu_model, node
from gpufleet.model.model_errors import WorldError
from gpufleet.progress.reporting import ToPerson
from tests.agent.small_kubelet import SmallKubelet

NODE = "bench-1"
PORT = 19400
START_WAIT_S = 60.0
TICKS_PER_S = os.sysconf("SC_CLK_TCK")
LIST = "/v1.PodResourcesLister/List"


class Load(msgspec.Struct, frozen=True):
    """What the node has: a description of its machine, how its GPUs are shared, and which go to claims."""

    name: str
    machine: str
    config: str = ""
    dra_cards: str = "none"


class PluginCalls:
    """The calls of one device plugin, over one connection."""

    def __init__(self, channel: grpc.aio.Channel) -> None:
        self._channel = channel

    async def prefer(self, available: Sequence[str], size: int) -> list[str]:
        """Which units suit."""
        asked = plugin_api.ContainerPreferredAllocationRequest(
            available_deviceIDs=available, allocation_size=size
        )
        request = plugin_api.PreferredAllocationRequest(container_requests=[asked])
        answer = await self._call("GetPreferredAllocation", request, plugin_api.PreferredAllocationResponse)
        return list(answer.container_responses[0].deviceIDs)

    async def allocate(self, units: Sequence[str]) -> None:
        """Have them given."""
        asked = plugin_api.ContainerAllocateRequest(devices_ids=units)
        request = plugin_api.AllocateRequest(container_requests=[asked])
        await self._call("Allocate", request, plugin_api.AllocateResponse)

    async def _call(self, method: str, request: Any, answer: Any) -> Any:
        call = self._channel.unary_unary(
            f"/v1beta1.DevicePlugin/{method}",
            request_serializer=type(request).SerializeToString,
            response_deserializer=answer.FromString,
        )
        return await call(request, timeout=START_WAIT_S)


@asynccontextmanager
async def plugin_calls(kubelet: SmallKubelet, resource: str) -> AsyncIterator[PluginCalls]:
    """A connection to the plugin of a resource, as the kubelet keeps one."""
    endpoint = next(one.endpoint for one in reversed(kubelet.registered) if one.resource_name == resource)
    async with grpc.aio.insecure_channel(f"unix:{kubelet.folder / endpoint}") as channel:
        yield PluginCalls(channel)


class Running:
    """The agent, and what it takes of the machine."""

    def __init__(self, process: subprocess.Popen[bytes], folder: Path, kubelet: SmallKubelet) -> None:
        self.process = process
        self.state = folder / "state"
        self.kubelet_root = folder / "kubelet"
        self.kubelet = kubelet

    def resident_mib(self) -> float:
        """Memory that is its own or shared, as `ps` shows it."""
        return self._kib("VmRSS") / 1024

    def peak_mib(self) -> float:
        """The most that it ever had."""
        return self._kib("VmHWM") / 1024

    def cpu_s(self) -> float:
        """Processor time so far."""
        fields = Path(f"/proc/{self.process.pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / TICKS_PER_S

    def offered(self, healthy: str) -> dict[str, list[str]]:
        """The units of each resource, of those that are so."""
        return {
            resource: [one.ID for one in devices if one.health == healthy]
            for resource, devices in self.kubelet.devices.items()
        }

    def _kib(self, field: str) -> int:
        text = Path(f"/proc/{self.process.pid}/status").read_text(encoding="utf-8")
        return next(int(line.split()[1]) for line in text.splitlines() if line.startswith(f"{field}:"))


@contextmanager
def api_server() -> Iterator[LocalCluster]:
    """A cluster without controllers, with one Node that no kubelet keeps."""
    progress = ToPerson("bench: ")
    options = Options(simulated_nodes=False)
    wanted = {name: release_of(name, DEFAULT_KUBERNETES) for name in needed_programs(options)}
    found = binaries.paths(binaries.find(wanted, progress))
    with (
        tempfile.TemporaryDirectory(prefix="gpufleet-bench-") as text,
        LocalCluster.start(Path(text) / "cluster", "bench", found, options) as cluster,
    ):
        with cluster.api() as api:
            manifests.install(api)
            bare = SimulatedNodes(1, 0, gpu_model("H100-80GB"), managed=False)
            api.call("POST", NODES, node(NODE, bare))
        yield cluster


@asynccontextmanager
async def an_agent(cluster: LocalCluster, load: Load) -> AsyncIterator[Running]:
    """The agent at work under a load."""
    with tempfile.TemporaryDirectory(prefix="gpufleet-agent-") as text:
        folder = Path(text)
        (folder / "kubelet/device-plugins").mkdir(parents=True)
        (folder / "kubelet/pod-resources").mkdir()
        kubelet = SmallKubelet(folder / "kubelet/device-plugins")
        await kubelet.start()
        lister = await _lister(folder / "kubelet/pod-resources/kubelet.sock")
        process = _started(cluster, load, folder)
        try:
            running = Running(process, folder, kubelet)
            await _await_offer(running, folder)
            yield running
        finally:
            process.terminate()
            process.wait(30)
            await kubelet.stop()
            await lister.stop(0)


def _started(cluster: LocalCluster, load: Load, folder: Path) -> subprocess.Popen[bytes]:
    (folder / "gpus.yaml").write_text(load.machine, encoding="utf-8")
    command = [
        *(sys.executable, "-m", "gpufleet", "agent", f"--node-name={NODE}"),
        f"--kubeconfig={agent_kubeconfig(cluster, NODE)}",
        f"--simulated={folder / 'gpus.yaml'}",
        f"--state-folder={folder / 'state'}",
        f"--kubelet-root={folder / 'kubelet'}",
        f"--cdi-folder={folder / 'cdi'}",
        f"--metrics-address=127.0.0.1:{PORT}",
        f"--dra-cards={load.dra_cards}",
        "--accounting",
    ]
    if load.config:
        (folder / "sharing.yaml").write_text(load.config, encoding="utf-8")
        command.append(f"--config={folder / 'sharing.yaml'}")
    with (folder / "log").open("wb") as log:
        return subprocess.Popen(command, stderr=log)


async def _await_offer(running: Running, folder: Path) -> None:
    """Return when the kubelet is offered something, all of it healthy."""
    limit_s = time.monotonic() + START_WAIT_S
    while not any(running.offered("Healthy").values()):
        if time.monotonic() > limit_s or running.process.poll() is not None:
            raise WorldError(f"the agent offered nothing; its log:\n{child.log_tail(folder / 'log')}")
        await asyncio.sleep(0.1)


async def _lister(path: Path) -> grpc.aio.Server:
    """The kubelet's pod resources, of a node on which nobody holds anything."""

    async def answer(_: Any, __: Any) -> Any:
        return pod_resources_pb2.ListPodResourcesResponse()

    handler = grpc.unary_unary_rpc_method_handler(
        answer,
        pod_resources_pb2.ListPodResourcesRequest.FromString,
        pod_resources_pb2.ListPodResourcesResponse.SerializeToString,
    )
    server = grpc.aio.server()
    service, _, method = LIST[1:].partition("/")
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(service, {method: handler}),))
    server.add_insecure_port(f"unix:{path}")
    await server.start()
    return server
