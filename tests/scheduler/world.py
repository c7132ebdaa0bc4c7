"""A small cluster in virtual time with our scheduler running on it; tests tell a story and look.

async def story(world: World) -> None:
    world.node("a", gpus=8)
    world.pod("p", gpus=1)
    await world.settle()
    assert world.node_of("p") == "a"

in_world(story)
"""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Coroutine
from random import Random
from typing import Any

import msgspec

from gpufleet.cluster.settings import LeaseTimes, Settings
from gpufleet.kube.lease import LeadershipLost
from gpufleet.kube.transport import Request, Response, ResponseStream, Transport, TransportError
from gpufleet.scheduler.metrics import Metrics
from gpufleet.scheduler.service import run as run_scheduler
from gpufleet.simulation.admission_policies import SCHEDULER_USER
from gpufleet.simulation.api_server import ApiServer
from gpufleet.simulation.network import SimulatedTransport
from gpufleet.simulation.virtual_loop import VirtualClock, VirtualLoop, run

Object = dict[str, Any]
GIB = 1024**3


class Hindered:
    """A way to the server on which some requests are lost or late."""

    def __init__(self, inner: Transport, world: "World") -> None:
        self.inner = inner
        self.world = world

    async def call(self, request: Request, *, timeout_s: float) -> Response:
        """Pass a request on, if it is not lost, when it is time."""
        for hindrance in self.world.hindrances:
            if hindrance.concerns(request):
                hindrance.times -= 1
                await asyncio.sleep(hindrance.late_s)
                if hindrance.lost:
                    raise TransportError("connection reset by peer", reached=True)
        return await self.inner.call(request, timeout_s=timeout_s)

    async def open(self, request: Request, *, timeout_s: float) -> ResponseStream:
        """A watch, as it is."""
        return await self.inner.open(request, timeout_s=timeout_s)

    async def close(self) -> None:
        """Close the way beneath."""
        await self.inner.close()


class Hindrance(msgspec.Struct):
    """What happens to the next requests of this kind."""

    method: str
    part: str
    times: int
    late_s: float = 0.0
    lost: bool = False

    def concerns(self, request: Request) -> bool:
        """True if it is such a request."""
        wanted = request.method == self.method and self.part in request.target
        return wanted and self.times > 0 and "dryRun" not in request.target


class World:
    """The simulated server, and what a story does with it."""

    def __init__(self, loop: VirtualLoop, seed: int, **settings: Any) -> None:
        self.clock = VirtualClock(loop)
        self.random = Random(seed)
        self.server = ApiServer(self.clock, Random(seed + 1))
        self.server.add({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "gpufleet-system"}})
        self.settings = settings
        self.lives = 0
        self.metrics = Metrics()
        self.life: asyncio.Task[None] | None = None
        self.hindrances: list[Hindrance] = []
        self.others: list[asyncio.Task[None]] = []

    def transport(self, user: str = SCHEDULER_USER) -> Transport:
        """A way to the server as a user."""
        return Hindered(SimulatedTransport(self.server, user, self.random), self)

    def loses(self, method: str, part: str, *, times: int) -> None:
        """The scheduler's next requests of this kind never arrive, and nobody tells it."""
        self.hindrances.append(Hindrance(method, part, times, lost=True))

    def delays(self, method: str, part: str, *, late_s: float, times: int = 1) -> None:
        """The scheduler's next requests of this kind are under way for so long."""
        self.hindrances.append(Hindrance(method, part, times, late_s))

    def also(self, work: Coroutine[Any, Any, None]) -> None:
        """Somebody else who acts in this world until the story ends."""
        self.others.append(asyncio.create_task(work))

    def start(self, transport: Transport | None = None) -> "asyncio.Task[None]":
        """Start a scheduler, a new process each time."""
        self.lives += 1
        settings = Settings(
            identity=f"scheduler-{self.lives}", lease=LeaseTimes(15, 10.0, 2.0), **self.settings
        )
        way = transport or self.transport()
        self.metrics = Metrics()
        self.life = asyncio.create_task(
            run_scheduler(way, self.clock, Random(self.lives), settings, metrics=self.metrics)
        )
        return self.life

    async def stop(self) -> None:
        """End the scheduler as a signal does."""
        if self.life is not None:
            self.life.cancel()
            with contextlib.suppress(asyncio.CancelledError, LeadershipLost):
                await self.life

    async def settle(self, duration_s: float = 20.0) -> None:
        """Let so much time go by; a scheduler that ended tells why."""
        await self.clock.sleep(duration_s)
        if self.life is not None and self.life.done():
            self.life.result()

    def node(
        self, name: str, *, gpus: int = 8, devices: bool = True, shares: bool = False, **spec: Any
    ) -> None:
        """A node; with ``devices`` its report, as the agent writes it; ``shares`` lets fractions in."""
        allocatable = {"cpu": "64", "memory": "512Gi", "pods": "110", "nvidia.com/gpu": str(gpus)}
        if shares:
            allocatable["gpufleet.io/gpu-share"] = str(10 * gpus)
        metadata = {"name": name, "labels": {"kubernetes.io/hostname": name, **spec.pop("labels", {})}}
        self.server.add(
            {
                "apiVersion": "v1",
                "kind": "Node",
                "metadata": metadata,
                "spec": spec,
                "status": {"allocatable": allocatable},
            }
        )
        if devices:
            self.report(name, gpus=gpus, shares=shares)

    def report(self, name: str, *, gpus: int, shares: bool = False) -> None:
        """A node's agent reports its devices for the first time."""
        listed = [
            {
                "id": f"GPU-{name}-{index}",
                "vendor": "nvidia",
                "model": "NVIDIA-H100-80GB-HBM3",
                "memoryMiB": 81559,
                "usableMemoryMiB": 80000,
                "sharing": "mixed" if shares else "whole",
                "health": "healthy",
            }
            for index in range(gpus)
        ]
        self.server.add(
            {
                "apiVersion": "gpufleet.io/v1alpha1",
                "kind": "NodeDevices",
                "metadata": {"name": name},
                "spec": {"devices": listed},
            }
        )

    def data(self, name: str, model: str, *, revision: str = "", complete: bool = True, **more: Any) -> None:
        """A node's agent reports a model in a folder."""
        entry = {
            "kind": "model",
            "name": model,
            "revision": revision,
            "bytes": 141 * 10**9,
            "complete": complete,
            "folder": "/data",
            **more,
        }
        self.server.add(
            {
                "apiVersion": "gpufleet.io/v1alpha1",
                "kind": "NodeData",
                "metadata": {"name": name},
                "spec": {"entries": [entry]},
            }
        )

    def pod(self, name: str, *, gpus: int = 1, resources: Object | None = None, **more: Any) -> None:
        """A pod of ours; ``more`` is its metadata's labels and annotations, or fields of its spec."""
        metadata = {"name": name, "namespace": more.pop("namespace", "default")}
        for key in ("labels", "annotations", "ownerReferences"):
            if key in more:
                metadata[key] = more.pop(key)
        limits = {"nvidia.com/gpu": str(gpus)} if gpus else {}
        container = {"name": "main", "image": "x", "resources": {"limits": {**limits, **(resources or {})}}}
        spec = {"schedulerName": "gpufleet", "containers": [container], **more}
        self.server.add({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec})

    def add(self, value: Object) -> None:
        """Any other object."""
        self.server.add(value)

    def objects(self, path: str) -> list[Object]:
        """All objects of a collection's path."""
        answer = self.server.answer(Request("GET", path), "system:masters")
        found: list[Object] = msgspec.json.decode(answer.body)["items"]
        return found

    def get(self, name: str, namespace: str = "default") -> Object:
        """A pod as the server has it."""
        path = f"/api/v1/namespaces/{namespace}/pods/{name}"
        found: Object = msgspec.json.decode(self.server.answer(Request("GET", path), "system:masters").body)
        return found

    def request(self, method: str, path: str, body: object = None, user: str = "system:masters") -> int:
        """Any request, as a user; the code of the answer."""
        patch = "application/merge-patch+json" if method == "PATCH" else "application/json"
        encoded = b"" if body is None else msgspec.json.encode(body)
        return self.server.answer(Request(method, path, encoded, content_type=patch), user).status

    def delete(self, name: str) -> None:
        """Delete a pod at once."""
        code = self.request("DELETE", f"/api/v1/namespaces/default/pods/{name}", {"gracePeriodSeconds": 0})
        assert code == 200

    def finish(self, name: str, phase: str = "Succeeded", reason: str = "") -> None:
        """A kubelet's word that a pod ended."""
        status = {"status": {"phase": phase, "reason": reason}}
        assert self.request("PATCH", f"/api/v1/namespaces/default/pods/{name}/status", status) == 200

    def node_of(self, name: str) -> str:
        """The node of a pod, "" if it has none."""
        found: str = self.get(name)["spec"].get("nodeName", "")
        return found

    def grant_of(self, name: str) -> Object:
        """The grant of a pod."""
        found: Object = msgspec.json.decode(self.get(name)["metadata"]["annotations"]["gpufleet.io/grant"])
        return found

    def devices_of(self, name: str) -> list[str]:
        """The ids of the devices that a pod was granted."""
        containers = self.grant_of(name).get("containers", {})
        return [device["id"] for granted in containers.values() for device in granted]

    def why(self, name: str) -> str:
        """What the pod's condition says of why it waits; "" if it says nothing."""
        conditions = self.get(name)["status"].get("conditions", [])
        return next((one.get("message", "") for one in conditions if one["type"] == "PodScheduled"), "")

    def bindings(self) -> list[tuple[str, int]]:
        """Every Binding that was asked for in earnest: its path and the answer's code."""
        return [
            (asked.target, asked.code)
            for asked in self.server.answered
            if asked.method == "POST" and asked.target.endswith("/binding")
        ]

    def evicted(self) -> list[str]:
        """The pods whose eviction was asked for, each once."""
        asked = [
            one.target.split("/")[-2] for one in self.server.answered if one.target.endswith("/eviction")
        ]
        return sorted(set(asked))

    def events(self, reason: str) -> list[str]:
        """The notes of Events with this reason."""
        path = "/apis/events.k8s.io/v1/namespaces/default/events"
        return [one["note"] for one in self.objects(path) if one["reason"] == reason]


def in_world(story: Callable[[World], Awaitable[None]], *, seed: int = 1, **settings: Any) -> None:
    """Run a story in virtual time, with one scheduler started at its beginning."""

    async def work(loop: VirtualLoop) -> None:
        world = World(loop, seed, **settings)
        world.start()
        try:
            await story(world)
        finally:
            for other in world.others:
                other.cancel()
            await world.stop()

    run(work, seed)
