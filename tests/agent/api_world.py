"""An API server in virtual time, as one node's agent sees it; tests tell a story and look."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from random import Random
from typing import Any

import msgspec

from gpufleet.kube.client import Client
from gpufleet.kube.codec.grant import write_grant
from gpufleet.kube.transport import Request, Response, ResponseStream, TransportError
from gpufleet.model.grant import Grant
from gpufleet.simulation.admission_policies import SCHEDULER_USER
from gpufleet.simulation.api_server import ApiServer
from gpufleet.simulation.network import Delays, SimulatedTransport
from gpufleet.simulation.virtual_loop import VirtualClock, VirtualLoop, run
from tests.agent.node_values import NODE

Object = dict[str, Any]
AGENT = "system:serviceaccount:gpufleet-system:gpufleet-agent"
PODS = "/api/v1/namespaces/team/pods"
REPORT = f"/apis/gpufleet.io/v1alpha1/nodedevices/{NODE}"
NEVER_SLOW = Delays(rare_one_in=0)


class Hindrance(msgspec.Struct):
    """What happens to the next ``times`` requests of a method: lost on the way there, or on the way back."""

    method: str
    times: int
    arrives: bool


class Hindered:
    """The agent's way to the server."""

    def __init__(self, inner: SimulatedTransport) -> None:
        self.inner = inner
        self.hindrances: list[Hindrance] = []

    async def call(self, request: Request, *, timeout_s: float) -> Response:
        """Pass it on, or lose it."""
        for one in self.hindrances:
            if one.times and one.method == request.method:
                one.times -= 1
                if one.arrives:
                    await self.inner.call(request, timeout_s=timeout_s)
                raise TransportError("connection reset by peer", reached=True)
        return await self.inner.call(request, timeout_s=timeout_s)

    async def open(self, request: Request, *, timeout_s: float) -> ResponseStream:
        """A watch, as it is."""
        return await self.inner.open(request, timeout_s=timeout_s)

    async def close(self) -> None:
        """Close the way beneath."""
        await self.inner.close()


class AgentWorld:
    """The server, and what a story does with it."""

    def __init__(self, loop: VirtualLoop, seed: int = 1) -> None:
        self.clock = VirtualClock(loop)
        self.server = ApiServer(self.clock, Random(seed))
        for name in ("team", "gpufleet-system"):
            self.add({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
        self.add({"apiVersion": "v1", "kind": "Node", "metadata": {"name": NODE}})
        self.way = Hindered(SimulatedTransport(self.server, AGENT, Random(seed + 1), NEVER_SLOW))
        self.client = Client(self.way, self.clock, Random(seed + 2))
        self._parts: list[asyncio.Task[None]] = []

    def start(self, part: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """A part of the agent that runs until the story ends."""
        self._parts.append(asyncio.create_task(part))
        return self._parts[-1]

    async def end(self) -> None:
        """End all parts; one that failed tells why."""
        for part in self._parts:
            part.cancel()
        for part in self._parts:
            try:
                await part
            except asyncio.CancelledError:
                continue

    async def after(self, duration_s: float) -> None:
        """Let so much time go by."""
        await self.clock.sleep(duration_s)

    def add(self, value: Object) -> Object:
        """Create any object; the scheduler may write grants."""
        return self.server.add(value, SCHEDULER_USER)

    def pod(
        self, name: str, grant: Grant | str | None = None, *, node: str = NODE, **containers: dict[str, str]
    ) -> str:
        """A pod on a node with the limits of its containers; its UID."""
        text = write_grant(grant) if isinstance(grant, Grant) else grant
        annotations = {} if text is None else {"gpufleet.io/grant": text}
        spec: Object = {
            "nodeName": node,
            "containers": [
                {"name": one, "image": "x", "resources": {"limits": limits}}
                for one, limits in (containers or {"main": {}}).items()
            ],
        }
        metadata = {"name": name, "namespace": "team", "annotations": annotations}
        made = self.add({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec})
        uid: str = made["metadata"]["uid"]
        return uid

    def phase(self, name: str, phase: str) -> None:
        """What the kubelet says of a pod."""
        assert self.request("PATCH", f"{PODS}/{name}/status", {"status": {"phase": phase}}) == 200

    def remove(self, name: str) -> None:
        """Delete a pod at once."""
        assert self.request("DELETE", f"{PODS}/{name}", {"gracePeriodSeconds": 0}) == 200

    def request(self, method: str, path: str, body: object = None, user: str = "system:masters") -> int:
        """Any request, as a user; the code of the answer."""
        patch = "application/merge-patch+json" if method == "PATCH" else "application/json"
        encoded = b"" if body is None else msgspec.json.encode(body)
        return self.server.answer(Request(method, path, encoded, content_type=patch), user).status

    def report(self, path: str = REPORT) -> Object | None:
        """This node's NodeDevices, or another object, as the server has it."""
        answer = self.server.answer(Request("GET", path), "system:masters")
        found: Object = msgspec.json.decode(answer.body)
        return found if answer.status == 200 else None

    def writes(self) -> list[float]:
        """When the agent wrote, in seconds."""
        return [
            one.at_s for one in self.server.answered if one.user == AGENT and one.method in {"POST", "PATCH"}
        ]


def in_agent_world(story: Callable[[AgentWorld], Awaitable[None]], seed: int = 1) -> None:
    """Run a story in virtual time."""

    async def work(loop: VirtualLoop) -> None:
        world = AgentWorld(loop, seed)
        try:
            await story(world)
        finally:
            await world.end()

    run(work, seed)
