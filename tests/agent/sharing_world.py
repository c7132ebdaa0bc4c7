"""A node with a sharing configuration, in virtual time; tests tell a story and look.

async def story(world: SharingWorld) -> None:
    world.writes("version: v1")
    await world.settle()
    assert world.modes() == [Exclusive()]

in_sharing_world(story, "model: T4")
"""

import asyncio
import tempfile
from collections.abc import Awaitable, Callable
from pathlib import Path
from random import Random
from typing import Any

import msgspec

from gpufleet.agent.events.node_events import NodeEvents
from gpufleet.agent.gpus.plans import Plans
from gpufleet.agent.sharing.nvidia_config_maps import NvidiaConfigMaps, Place
from gpufleet.agent.sharing.plan_record import PlanRecord
from gpufleet.agent.sharing.sharing_source import OPTIONS, SharingOptions, SharingSource
from gpufleet.agent.sharing.sharing_texts import ConfigMapTexts, FileTexts, OwnLabels
from gpufleet.agent.state.node_state import Held, Holders, NodePod, NodePods
from gpufleet.agent.state.topic import Topic
from gpufleet.devices.facts import GpuFacts
from gpufleet.devices.sharing.plan import Mode
from gpufleet.kube.client import Client
from gpufleet.kube.transport import Request, Response, ResponseStream, Transport
from gpufleet.model.grant import ContainerGrant, Grant, GrantedDevice
from gpufleet.simulation.api_server import ApiServer
from gpufleet.simulation.network import SimulatedTransport
from gpufleet.simulation.virtual_loop import VirtualClock, VirtualLoop, run
from tests.devices.fleets import fleet_of

NODE = "gpu-1"
MAP_PATH = "/api/v1/namespaces/gpufleet-system/configmaps/sharing"


class Forbidding:
    """A way to an API server whose ConfigMaps of one namespace may not be read."""

    def __init__(self, wire: Transport, world: "SharingWorld") -> None:
        self.wire = wire
        self.world = world

    async def call(self, request: Request, *, timeout_s: float) -> Response:
        """As Transport."""
        path = f"/api/v1/namespaces/{self.world.forbidden}/configmaps"
        if self.world.forbidden and request.target.startswith(path):
            body = {
                "kind": "Status",
                "code": 403,
                "reason": "Forbidden",
                "message": "configmaps is forbidden",
            }
            return Response(403, {}, msgspec.json.encode(body))
        return await self.wire.call(request, timeout_s=timeout_s)

    async def open(self, request: Request, *, timeout_s: float) -> ResponseStream:
        """As Transport."""
        self.world.watched.append(request.target)
        return await self.wire.open(request, timeout_s=timeout_s)

    async def close(self) -> None:
        """As Transport."""
        await self.wire.close()


class SharingWorld:
    """One node; the configuration lies in a file, or with ``in_api`` in a ConfigMap."""

    def __init__(self, loop: VirtualLoop, folder: Path, gpus: tuple[GpuFacts, ...], *, in_api: bool) -> None:
        self.clock = VirtualClock(loop)
        self.server = ApiServer(self.clock, Random(1))
        namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "gpufleet-system"}}
        self.server.add(namespace)
        self.server.add({"apiVersion": "v1", "kind": "Node", "metadata": {"name": NODE}})
        self.folder = folder
        self.path = folder / "sharing.yaml"
        self.gpus = gpus
        self.in_api = in_api
        self.pods: Topic[NodePods] = Topic({})
        self.holders: Topic[Holders] = Topic(())
        self.lives: list[asyncio.Task[None]] = []
        self.other_plugins: tuple[str, ...] = ()
        self.forbidden = ""
        self.watched: list[str] = []

    def start(
        self,
        options: SharingOptions = OPTIONS,
        path: Path | None = None,
        *,
        declared: bool = True,
        places: tuple[Place, ...] = (),
        search_every_s: float = 0.0,
    ) -> SharingSource:
        """Start the part of the agent that reads the configuration, as a new process does.

        With ``places`` it follows NVIDIA's ConfigMaps there, or looks for them every ``search_every_s``;
        those of the namespace ``forbidden`` it may not read.
        """
        for life in self.lives:
            life.cancel()
        wire = Forbidding(SimulatedTransport(self.server, "system:masters", Random(2)), self)
        client = Client(wire, self.clock, Random(3))
        labels, events = OwnLabels(client, NODE), NodeEvents(client, NODE)
        texts: ConfigMapTexts | FileTexts | NvidiaConfigMaps
        if places:
            texts = NvidiaConfigMaps(client, places, lambda: self.other_plugins, search_every_s)
        elif self.in_api:
            texts = ConfigMapTexts(client, "gpufleet-system", "sharing")
        else:
            texts = FileTexts(path or self.path, self.clock)
        record = PlanRecord(self.folder)
        self.source = SharingSource(
            texts.topic if declared else None,
            labels.topic,
            self.pods,
            self.holders,
            record,
            events,
            options=options,
        )
        parts = (self.source.run(), texts.run(), labels.run(), events.run(), self._ask())
        self.lives = [asyncio.ensure_future(part) for part in parts]
        return self.source

    async def _ask(self) -> None:
        """As the monitor does."""
        await self.source.wait_loaded()
        async for planner in self.source.planner.follow():
            self.said: Plans = planner(self.gpus)

    async def settle(self) -> None:
        """Let some time go by; a part that ended tells why."""
        await self.clock.sleep(30.0)
        for life in self.lives:
            if life.done():
                life.result()

    def writes(self, text: str | bytes) -> None:
        """The file has this text now."""
        self.path.write_bytes(text.encode() if isinstance(text, str) else text)

    def declares(self, **texts: str) -> None:
        """The ConfigMap has these keys now."""
        metadata = {"name": "sharing", "namespace": "gpufleet-system"}
        body: dict[str, Any] = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": texts}
        if self._request("PUT", MAP_PATH, body) == 404:
            self.server.add(body)

    def puts(self, place: Place, texts: dict[str, str]) -> None:
        """A ConfigMap of this namespace and name has these keys now."""
        namespace, name = place
        metadata = {"name": name, "namespace": namespace}
        body: dict[str, Any] = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": texts}
        path = f"/api/v1/namespaces/{namespace}/configmaps/{name}"
        if self._request("PUT", path, body) == 404:
            if self._request("GET", f"/api/v1/namespaces/{namespace}") == 404:
                self.server.add({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}})
            self.server.add(body)

    def removes(self, place: Place) -> None:
        """There is no such ConfigMap any more."""
        assert self._request("DELETE", "/api/v1/namespaces/{}/configmaps/{}".format(*place)) == 200

    def deletes(self) -> None:
        """There is no ConfigMap any more."""
        assert self._request("DELETE", MAP_PATH) == 200

    def labels(self, **labels: str | None) -> None:
        """The node has these labels too; underscores stand for what a name cannot have."""
        names = {"config": "nvidia.com/device-plugin.config", "pool": "gpufleet.io/pool"}
        body = {"metadata": {"labels": {names[name]: text for name, text in labels.items()}}}
        assert self._request("PATCH", f"/api/v1/nodes/{NODE}", body) == 200

    def holds(self, pod: str, unit: str, resource: str = "nvidia.com/gpu") -> None:
        """The kubelet gave this unit to a pod."""
        held = Held("team-a", pod, "main", resource, (unit,), f"uid-{pod}")
        self.holders.publish((*self.holders.value, held))

    def grants(self, pod: str, device: GrantedDevice) -> None:
        """A pod was placed here with this device."""
        granted = Grant(1, (ContainerGrant("main", (device,)),))
        found = NodePod(f"uid-{pod}", "team-a", pod, grant=granted)
        self.pods.publish({**self.pods.value, found.uid: found})

    def ends(self, pod: str) -> None:
        """A pod is gone."""
        self.holders.publish(tuple(one for one in self.holders.value if one.pod != pod))
        self.pods.publish({uid: one for uid, one in self.pods.value.items() if one.name != pod})

    def modes(self) -> list[Mode]:
        """How each GPU is offered."""
        return [self.said.plan(gpu).mode for gpu in self.gpus]

    def problems(self) -> str:
        """What is said of the node."""
        return "\n".join(self.said.problems)

    def events(self, reason: str) -> list[str]:
        """The notes of Events about the node with this reason."""
        answer = self.server.answer(
            Request("GET", "/apis/events.k8s.io/v1/namespaces/default/events"), "system:masters"
        )
        found = msgspec.json.decode(answer.body)["items"]
        assert all(one["regarding"]["name"] == NODE for one in found)
        return [one["note"] for one in found if one["reason"] == reason]

    def _request(self, method: str, path: str, body: object = None) -> int:
        patch = "application/merge-patch+json" if method == "PATCH" else "application/json"
        raw = b"" if body is None else msgspec.json.encode(body)
        return self.server.answer(Request(method, path, raw, content_type=patch), "system:masters").status


def in_sharing_world(
    story: Callable[[SharingWorld], Awaitable[None]], *groups: str, in_api: bool = False
) -> None:
    """Run a story on a node with these groups of GPUs, in YAML."""

    async def work(loop: VirtualLoop) -> None:
        with tempfile.TemporaryDirectory() as folder:
            world = SharingWorld(loop, Path(folder), fleet_of(*groups).gpus, in_api=in_api)
            try:
                await story(world)
            finally:
                for life in world.lives:
                    life.cancel()

    run(work)
