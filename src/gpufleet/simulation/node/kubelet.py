"""The kubelet of a simulated node: admits pods, gives devices, starts containers, and forgets.

Its device manager does what the real one does: it asks a device plugin for a preference and for an
allocation, keeps a checkpoint on the disk, asks the plugin again before each start of a container, and knows
nothing of a plugin after its own restart. A restart may lose the checkpoint; containers run on. The container
runtime is here too: a container starts only where the CDI files of its devices are there, and has what they
say.
"""

import asyncio
import base64
from collections.abc import Awaitable, Callable, Coroutine, Iterable
from pathlib import Path
from random import Random
from typing import Any, Protocol, TypeVar

import msgspec

from gpufleet.agent.device_plugin import cdi
from gpufleet.agent.device_plugin.registration import ResourceServer, RunningKubelet
from gpufleet.agent.device_plugin.share_files import KIND as SHARE_KIND
from gpufleet.agent.device_plugin.share_files import PREFIX, read_given
from gpufleet.agent.device_plugin.static_devices import spec_name
from gpufleet.agent.device_plugin.unit_allocator import Allocator
from gpufleet.agent.kubelet.kubelet_api import device_plugin_pb2 as api
from gpufleet.agent.kubelet.kubelet_checkpoint import FILE
from gpufleet.agent.state.node_state import Held, Holders
from gpufleet.agent.state.state_errors import KubeletError, RefusedError
from gpufleet.agent.units.node_units import Unit, device_of
from gpufleet.kube.transport import Request
from gpufleet.model.device import WHOLE_GPU_MILLI
from gpufleet.model.gpu_catalogue import Vendor
from gpufleet.simulation.api_server import ApiServer
from gpufleet.simulation.history import PODS
from gpufleet.simulation.node.crashes import Crashes, ProcessKilledError
from gpufleet.simulation.pod_facts import is_over
from gpufleet.simulation.process import SimulatedProcess
from gpufleet.simulation.refusal import JsonObject

CONTAINER = "main"
"""The one container of each pod of a run."""

STRATEGIC = "application/strategic-merge-patch+json"
RUNS_FOR = "simulation.gpufleet.io/runs-for-s"
ADMITS_WITHIN_S = (0.01, 0.8)
TELLS_WITHIN_S = (0.01, 1.0)
FORGETS_WITHIN_S = (0.1, 3.0)
"""How long allocations of a pod that ended stay in the device manager."""

STARTS_AGAIN_AFTER_S = (0.5, 1.0, 2.0, 4.0, 8.0, 8.0, 8.0, 8.0, 8.0, 8.0)
"""The pauses between failed starts of a container."""

Value = TypeVar("Value")
Devices = tuple[tuple[str, int], ...]
"""Devices of a container, each with the thousandths of it that the container may use."""


class PluginGoneError(Exception):
    """The device plugin does not answer: its process died, or the resource is not registered."""


class Allocation(msgspec.Struct, frozen=True):
    """Units that the kubelet gave a container, with the CDI names it was answered with."""

    resource: str
    units: tuple[str, ...]
    cdi_devices: tuple[str, ...]


class Answering(Protocol):
    """An end of one process of the agent at which the kubelet calls."""

    process: SimulatedProcess
    crashes: Crashes


class SimulatedServer:
    """The agent's end for one resource: a ``ResourceServer`` of one process of the agent."""

    def __init__(self, allocator: Allocator, process: SimulatedProcess, crashes: Crashes) -> None:
        self.allocator = allocator
        self.process = process
        self.crashes = crashes
        self.units: tuple[Unit, ...] = ()
        self.is_open = False

    @property
    def is_there(self) -> bool:
        """As ResourceServer."""
        return self.is_open

    def publish(self, units: Iterable[Unit]) -> None:
        """As ResourceServer."""
        self.units = tuple(units)

    async def open(self) -> None:
        """As ResourceServer."""
        self.is_open = True

    async def close(self) -> None:
        """As ResourceServer."""
        self.is_open = False


class SimulatedLink:
    """The way of one process of the agent to the kubelet: a ``KubeletLink`` and a ``Lister``.

    The process may die before and after each call, in both directions.
    """

    def __init__(self, kubelet: "SimulatedKubelet", process: SimulatedProcess, crashes: Crashes) -> None:
        self._kubelet = kubelet
        self._process = process
        self._crashes = crashes

    def running_kubelet(self) -> RunningKubelet | None:
        """As KubeletLink."""
        return (1, self._kubelet.starts) if self._kubelet.up else None

    def server(self, allocator: Allocator) -> SimulatedServer:
        """As KubeletLink."""
        return SimulatedServer(allocator, self._process, self._crashes)

    async def register(self, server: ResourceServer) -> None:
        """As KubeletLink."""
        if not self._kubelet.up or not isinstance(server, SimulatedServer):
            raise KubeletError("the kubelet does not listen")
        resource = server.allocator.resource
        await self._crashes.step_of_call(f"before it registers {resource}")
        self._kubelet.plugins[resource] = server
        await self._crashes.step_of_call(f"after it registered {resource}")

    async def list(self) -> Holders:
        """As Lister."""
        if not self._kubelet.up:
            raise KubeletError("the kubelet does not listen")
        await self._crashes.step_of_call("before it asks for the list of pods")
        listed = self._kubelet.listed()
        await self._crashes.step_of_call("after it asked for the list of pods")
        return listed


class SimulatedKubelet:
    """One kubelet, its device manager and its container runtime."""

    def __init__(self, server: ApiServer, random: Random, node: str, folder: Path, cdi_folder: Path) -> None:
        self.server = server
        self.random = random
        self.node = node
        self.checkpoint = folder / FILE
        self.cdi_folder = cdi_folder
        self._back = asyncio.Event()
        self._back.set()
        self.starts = 1
        self.plugins: dict[str, SimulatedServer] = {}
        self.allocated: dict[str, Allocation] = {}
        """By the pod's UID."""
        self.using: dict[str, Devices] = {}
        """What running containers have, whatever the kubelet remembers of them; by the pod's UID."""
        self.pods: dict[str, JsonObject] = {}
        self.failed: dict[str, str] = {}
        """The pods that could not be admitted or started, by UID, with the reason."""
        self.on_start: Callable[[str], None] = lambda _: None
        """Called when a container has started."""
        self._tasks: set[asyncio.Task[None]] = set()
        self._admitted: set[str] = set()
        self._over: set[str] = set()

    @property
    def up(self) -> bool:
        """Whether the kubelet runs."""
        return self._back.is_set()

    async def run(self) -> None:
        """Act on every pod of the node, for ever."""
        cursor = 0
        while True:
            waiting = self.server.store.next_write()
            revision = self.server.store.revision
            for written in self.server.store.since(PODS, cursor, revision):
                pod, uid = written.value, written.latest["metadata"]["uid"]
                if pod is None:
                    self._vanished(uid)
                elif uid not in self.pods and not is_over(pod):
                    self.pods[uid] = pod
                    self._begin(self._serve(uid))
            cursor = revision
            await waiting

    def restart(self, *, forgets: bool) -> None:
        """Start anew: plugins have to register again, and allocations are those of the checkpoint."""
        self._back.set()
        self.starts += 1
        self.plugins.clear()
        if forgets:
            self.allocated.clear()
            self.checkpoint.unlink(missing_ok=True)
        for uid in self.pods:
            # A running container is left alone; one that does not run is admitted anew.
            if uid in self._admitted and uid not in self.using and uid not in self.allocated:
                self._admitted.discard(uid)

    def stop(self) -> None:
        """The kubelet is away; containers run on."""
        self._back.clear()
        for server in self.plugins.values():
            # The kubelet empties the folder of sockets when it starts; until then it calls none of them.
            server.is_open = False

    def listed(self) -> Holders:
        """The allocations as the pod resources API names them."""
        return tuple(
            Held("team", self.pods[uid]["metadata"]["name"], CONTAINER, one.resource, one.units)
            for uid, one in sorted(self.allocated.items())
            if uid in self.pods
        )

    def end_container(self, uid: str) -> None:
        """A container ends by itself, and is started again after a while."""
        self._begin(self.restart_container(uid))

    async def restart_container(self, uid: str) -> None:
        """A container ends by itself and is started again; returns when it runs, or cannot."""
        before = self.using.pop(uid)
        self._tell(uid, {"terminated": {"exitCode": 1}}, "Running")
        await self._pause((0.1, 1.0))
        await self._start(uid, f"it had {before}")

    def _begin(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _serve(self, uid: str) -> None:
        """One pod from its admission to its end."""
        await self._pause(ADMITS_WITHIN_S)
        await self._start(uid, "it is new")
        if uid not in self.using or uid not in self.pods:
            return
        await asyncio.sleep(float(self.pods[uid]["metadata"]["annotations"][RUNS_FOR]))
        if uid in self.pods:
            self.using.pop(uid, None)
            self._say(uid, {"phase": "Succeeded", "containerStatuses": [_status({"terminated": {}})]})
            await self._pause(FORGETS_WITHIN_S)
            self._forget(uid)

    async def _start(self, uid: str, story: str) -> None:
        """Start the container of a pod, with pauses between failures; a pod without devices fails."""
        for pause_s in STARTS_AGAIN_AFTER_S:
            await self._back.wait()
            if uid not in self.pods or uid in self._over:
                return
            try:
                if uid not in self.allocated:
                    await self._admit(uid)
                devices = await self._prepared(uid)
            except (RefusedError, PluginGoneError) as problem:
                # What is refused at admission fails for good; later only the container is started again.
                first = uid not in self._admitted
                self.failed[uid] = f"{problem} ({story})"
                if first:
                    self._say(uid, {"phase": "Failed", "reason": "UnexpectedAdmissionError"})
                    self._forget(uid)
                    return
                await asyncio.sleep(pause_s)
                continue
            if uid not in self.pods or uid in self._over:
                return
            self.failed.pop(uid, None)
            self.using[uid] = devices
            self.on_start(uid)
            await self._pause(TELLS_WITHIN_S)
            # Told later than it started: the API learns of a container after its node does.
            self._tell(uid, {"running": {}}, "Running")
            return
        self._say(uid, {"phase": "Failed", "reason": "StartError"})
        self._forget(uid)

    async def _admit(self, uid: str) -> None:
        """Have units allocated. Raises RefusedError and PluginGoneError."""
        ((resource, text),) = self.pods[uid]["spec"]["containers"][0]["resources"]["limits"].items()
        size, started = int(text), self.starts
        taken = {unit for one in self.allocated.values() for unit in one.units}
        server = self._plugin(resource)
        free = [one.id for one in server.units if one.healthy and one.id not in taken]
        if len(free) < size:
            raise RefusedError(f"{size} of {resource} were asked for, and {len(free)} are free")
        units = await self.call(server, "prefer", lambda: server.allocator.prefer(free, [], size))
        given = await self.call(server, "allocate", lambda: server.allocator.allocate(units))
        # The answer was for a kubelet that is gone, and so is its memory of having asked.
        if started != self.starts or not self.up:
            raise PluginGoneError("the kubelet died after the answer")
        if uid in self.pods:
            self.allocated[uid] = Allocation(resource, tuple(sorted(units)), given.cdi_devices)
            self._admitted.add(uid)
            self._write()

    async def _prepared(self, uid: str) -> Devices:
        """The devices of a container that starts now. Raises RefusedError and PluginGoneError."""
        allocation = self.allocated[uid]
        server = self._plugin(allocation.resource)
        if server.allocator.prepares:
            await self.call(server, "prepare", lambda: server.allocator.prepare(allocation.units))
        if uid not in self.allocated:
            raise PluginGoneError("the pod ended while its container was started")
        return tuple(part for name in allocation.cdi_devices for part in self._of_runtime(name))

    def _of_runtime(self, name: str) -> Devices:
        """What the container runtime finds under a CDI name. Raises PluginGoneError without a file."""
        kind, _, device = name.partition("=")
        if kind == SHARE_KIND:
            spec = cdi.read_spec(self.cdi_folder, f"{PREFIX}{device}")
            given = None if spec is None else read_given(spec)
            if given is not None:
                return tuple((str(part.id), part.gpu_milli) for part in given.parts)
        else:
            spec = cdi.read_spec(self.cdi_folder, spec_name(Vendor.NVIDIA))
            if spec is not None and any(one.name == device for one in spec.devices):
                return ((device_of(device), WHOLE_GPU_MILLI),)
        raise PluginGoneError(f"unresolvable CDI device {name}")

    def _plugin(self, resource: str) -> SimulatedServer:
        server = self.plugins.get(resource)
        if server is None or not server.process.alive or not server.is_open or not self.up:
            raise PluginGoneError(f"{resource} is not registered")
        return server

    async def call(self, server: Answering, name: str, work: Callable[[], Awaitable[Value]]) -> Value:
        """A call that the agent's process answers. Raises PluginGoneError where that dies meanwhile."""

        async def answer() -> Value:
            server.crashes.step(f"before it answers {name}")
            result = await work()
            server.crashes.step(f"after it has the answer to {name}")
            return result

        task = server.process.start(answer())
        # Asks for the error, which Python would tell of as lost where this call ends before the task does.
        task.add_done_callback(lambda done: done.cancelled() or done.exception())
        while not task.done():
            if not server.process.alive or not self.up:
                raise PluginGoneError("the plugin ended in the middle of a call")
            # Looked at in short intervals, because no future tells of the death of a process.
            await asyncio.wait({task}, timeout=0.05)
        try:
            result: Value = task.result()
        except ProcessKilledError as killed:
            raise PluginGoneError("the plugin died in the middle of a call") from killed
        return result

    def _vanished(self, uid: str) -> None:
        """A pod left the API: the kubelet forgets it at once, and its container ends within its grace."""
        if uid in self.pods:
            self._forget(uid)
            self._begin(self._end_later(uid))

    async def _end_later(self, uid: str) -> None:
        await self._pause((0.5, 20.0))
        self.using.pop(uid, None)

    def _forget(self, uid: str) -> None:
        self.pods.pop(uid, None)
        if self.allocated.pop(uid, None) is not None:
            self._write()

    def _write(self) -> None:
        """Replace the checkpoint."""
        entries = [
            {
                "PodUID": uid,
                "ContainerName": CONTAINER,
                "ResourceName": one.resource,
                "DeviceIDs": {"-1": list(one.units)},
                "AllocResp": base64.b64encode(_response(one.cdi_devices)).decode("ascii"),
            }
            for uid, one in sorted(self.allocated.items())
        ]
        # The kubelet writes null for no entries. No reader here checks the sum.
        data = {"Data": {"PodDeviceEntries": entries or None, "RegisteredDevices": {}}, "Checksum": 1}
        self.checkpoint.write_bytes(msgspec.json.encode(data))

    def _tell(self, uid: str, state: JsonObject, phase: str) -> None:
        self._say(uid, {"phase": phase, "containerStatuses": [_status(state)]})

    def _say(self, uid: str, status: JsonObject) -> None:
        """Write the status of a pod that is still there."""
        pod = self.pods.get(uid)
        if pod is not None and uid not in self._over:
            if status["phase"] in {"Succeeded", "Failed"}:
                self._over.add(uid)
            target = f"/api/v1/namespaces/team/pods/{pod['metadata']['name']}/status"
            body = msgspec.json.encode({"metadata": {"uid": uid}, "status": status})
            self.server.answer(Request("PATCH", target, body, STRATEGIC), f"system:node:{self.node}")

    async def _pause(self, within_s: tuple[float, float]) -> None:
        await asyncio.sleep(self.random.uniform(*within_s))


def _status(state: JsonObject) -> JsonObject:
    return {"name": CONTAINER, "containerID": "containerd://1", "state": state}


def _response(cdi_devices: tuple[str, ...]) -> bytes:
    names = [api.CDIDevice(name=name) for name in cdi_devices]
    encoded: bytes = api.ContainerAllocateResponse(cdi_devices=names).SerializeToString()
    return encoded
