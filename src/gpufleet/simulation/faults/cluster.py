"""Faults of the server, of its objects, of nodes, clocks and processes."""

import asyncio
import json
from collections.abc import AsyncIterator
from random import Random

from gpufleet.kube.transport import Request, Response, ResponseStream, TransportError
from gpufleet.simulation import cluster_recipe, pod_facts
from gpufleet.simulation.admission_policies import GRANT, SCHEDULER_USER
from gpufleet.simulation.cluster_recipe import USER
from gpufleet.simulation.faults.interference import Fault, status, whole_lines
from gpufleet.simulation.faults.writes import make_anew
from gpufleet.simulation.history import NODE_DEVICES, NODES, PODS
from gpufleet.simulation.refusal import JsonObject
from gpufleet.simulation.world import SchedulerProcess, World


class ServerDown(Fault):
    """No connection for five minutes; every watch breaks."""

    name = "server-down"
    blinds_s = 30.0
    lasts_s = 300.0

    async def before_call(self, request: Request, owner: SchedulerProcess | None) -> Response | None:
        self.acted += 1
        raise TransportError("connection refused", reached=False)

    async def before_open(self, request: Request) -> Response | ResponseStream | None:
        self.acted += 1
        raise TransportError("connection refused", reached=False)

    async def chunks(self, lines: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
        async for line in lines:
            if self.chance(1.0):
                raise TransportError("connection reset by peer", reached=True)
            yield line


class CompactedWhilePaused(Fault):
    """The scheduler sleeps for ten minutes, and the server forgets what was meanwhile."""

    name = "compacted-while-paused"
    blinds_s = 0.0
    lasts_s = 620.0

    async def drive(self, world: World) -> None:
        await asyncio.sleep(self.random.uniform(0.0, 10.0))
        for one in world.processes:
            one.process.pause()
        self.acted += 1
        await asyncio.sleep(600.0)
        world.server.store.compact()
        await self.undo(world)

    async def undo(self, world: World) -> None:
        for one in world.processes:
            one.process.resume()


class LeaderPaused(Fault):
    """The leader is stopped in the middle of its work, and wakes after it lost the Lease."""

    name = "leader-paused"
    blinds_s = 0.0
    schedulers = 2
    lasts_s = 150.0

    async def drive(self, world: World) -> None:
        while True:
            await asyncio.sleep(self.random.uniform(0.5, 10.0))
            leader = world.leader()
            if leader is None:
                continue
            process = leader.process
            self.acted += 1
            world.note(f"{leader.identity} is stopped")
            process.pause()
            # Twice as long as a Lease lasts: another leads by then.
            await asyncio.sleep(30.0)
            world.note(f"{leader.identity} wakes")
            process.resume()

    async def undo(self, world: World) -> None:
        for one in world.processes:
            one.process.resume()


class SameNameAgain(Fault):
    """Pods are deleted and made anew under their names while no watch says anything."""

    name = "delete-create-same-name"

    def __init__(self, random: Random) -> None:
        super().__init__(random)
        self._hushed = False
        self._expire = 0

    async def drive(self, world: World) -> None:
        while True:
            await asyncio.sleep(self.random.uniform(3.0, 8.0))
            bare = [
                pod
                for _, pod in sorted(world.server.store.all(PODS).items())
                if not pod["metadata"].get("ownerReferences") and "deletionTimestamp" not in pod["metadata"]
            ]
            if not bare:
                continue
            self._hushed = True
            pod = self.random.choice(bare)
            # The uid alone tells the new pod from the old one for a scheduler that saw neither deletion nor
            # creation.
            world.note(f"{pod['metadata']['name']} is made anew, unseen")
            path = f"/api/v1/namespaces/{pod['metadata']['namespace']}/pods/{pod['metadata']['name']}"
            world.actors.ask(USER, "DELETE", f"{path}?gracePeriodSeconds=0")
            if world.server.store.get(PODS, (pod["metadata"]["namespace"], pod["metadata"]["name"])) is None:
                make_anew(world, pod)
                self.acted += 1
            await asyncio.sleep(1.0)
            # A watch may not simply go on from before: only a list shows that the pod is another one.
            self._expire += 1
            self._hushed = False

    async def undo(self, world: World) -> None:
        self._hushed = False

    async def before_open(self, request: Request) -> Response | ResponseStream | None:
        if self._expire and "/pods" in request.target:
            self._expire = 0
            return status(410, "Expired", "too old resource version")
        return None

    async def chunks(self, lines: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
        async for line in whole_lines(lines):
            if self._hushed:
                raise TransportError("connection reset by peer", reached=True)
            yield line


class WallClockJump(Fault):
    """The wall clock of the scheduler jumps by up to an hour, back and forth."""

    name = "wall-clock-jump"

    async def drive(self, world: World) -> None:
        while True:
            await asyncio.sleep(self.random.uniform(1.0, 8.0))
            self.acted += 1
            for one in world.processes:
                one.clock.offset_s = self.random.choice((-3600.0, 3600.0, 0.0, -0.5, 59.0))

    async def undo(self, world: World) -> None:
        for one in world.processes:
            one.clock.offset_s = 0.0


class Starved(Fault):
    """The scheduler gets a small part of a CPU, while many more pods come."""

    name = "starved"
    blinds_s = 0.0
    MORE_PODS = 150
    """Far more than the GPUs of the cluster: each round then has many pods to look at."""

    async def drive(self, world: World) -> None:
        for number in range(self.MORE_PODS):
            extra = cluster_recipe.pod(f"crowd-{number}", 1, world.plan.recipe)
            world.server.add(extra, USER)
        self.acted += 1
        while True:
            for one in world.processes:
                one.process.callback_cost_s = 0.003
            await asyncio.sleep(1.0)

    async def undo(self, world: World) -> None:
        for one in world.processes:
            one.process.callback_cost_s = 0.0


class GangMemberRefused(Fault):
    """One node's kubelet rejects every member of a gang, after it was bound."""

    name = "gang-member-refused"

    async def prepare(self, world: World) -> None:
        refusing: list[str] = []

        def rejects(pod: JsonObject) -> str:
            if not self.active or pod_facts.gang_of(pod) is None:
                return ""
            # The node of the first member that starts while the fault lasts.
            refusing[:] = refusing or [pod_facts.node_of(pod)]
            bad = pod_facts.node_of(pod) in refusing
            self.acted += bad
            return "OutOfcpu" if bad else ""

        world.actors.rejects = rejects


class TwinsSwapped(Fault):
    """Two pods that ask for as many GPUs start together, and the kubelet gives each the other's."""

    name = "twins-swapped"

    async def prepare(self, world: World) -> None:
        def twin_of(pod: JsonObject) -> JsonObject | None:
            if not self.active:
                return None
            twin = next((one for one in self._starting(world) if _are_twins(pod, one, world.swapped)), None)
            if twin is not None:
                self.acted += 1
                world.swapped |= {pod["metadata"]["uid"], twin["metadata"]["uid"]}
                names = " and ".join(one["metadata"]["name"] for one in (pod, twin))
                world.note(f"{names} get each other's devices")
            return twin

        world.actors.twin_of = twin_of

    def _starting(self, world: World) -> list[JsonObject]:
        """Pods that have a node and do not run yet."""
        pods = [pod for _, pod in sorted(world.server.store.all(PODS).items())]
        return [
            pod
            for pod in pods
            if pod["status"].get("phase") == "Pending" and "deletionTimestamp" not in pod["metadata"]
        ]


def _are_twins(pod: JsonObject, other: JsonObject, swapped: set[str]) -> bool:
    """Whether they start on one node with as many whole devices, and neither got others before."""
    uids = {pod["metadata"]["uid"], other["metadata"]["uid"]}
    granted = [pod_facts.grant_of(one)[1] for one in (pod, other)]
    whole = all(one.gpu_milli >= 1000 for devices in granted for one in devices)
    return (
        len(uids) == 2
        and not uids & swapped
        and pod_facts.node_of(pod) == pod_facts.node_of(other) != ""
        and len(granted[0]) == len(granted[1]) > 0
        and whole
    )


class PoisonObject(Fault):
    """Objects stored before their schema was tightened: other objects may not suffer by them."""

    name = "poison-object"

    async def drive(self, world: World) -> None:
        recipe = world.plan.recipe
        for number, fraction in enumerate(("NaN", "abc", "1e999", "-1", "\u202e0.5")):
            pod = cluster_recipe.pod(f"poison-{number}", 0.5, recipe)
            pod["metadata"]["annotations"][pod_facts.FRACTION] = fraction
            world.poisoned.add(world.server.add(pod, USER)["metadata"]["uid"])
        crooked = cluster_recipe.pod("poison-crooked", 1, recipe)
        crooked["metadata"] |= {"uid": "poison-crooked", "creationTimestamp": "2026-01-01T00:00:00Z"}
        crooked["status"] = {"phase": "Pending"}
        world.poisoned.add("poison-crooked")
        spec = {**crooked["spec"], "nodeSelector": ["not", "a", "map"], "tolerations": {"not": "a list"}}
        self._store(world, PODS, "team-a", {**crooked, "spec": spec})
        node = {"metadata": {"name": "poison-node", "uid": "poison-node"}, "apiVersion": "v1", "kind": "Node"}
        amounts = {"cpu": "many", "memory": None}
        poison = {
            **node,
            "spec": {"unschedulable": True},
            "status": {"allocatable": amounts, "conditions": 7},
        }
        self._store(world, NODES, "", poison)
        report = {"apiVersion": "gpufleet.io/v1alpha1", "kind": "NodeDevices", "spec": "none"}
        self._store(
            world, NODE_DEVICES, "", {**report, "metadata": {"name": "poison-node", "uid": "poison-report"}}
        )

    def _store(self, world: World, kind: tuple[str, str], namespace: str, value: JsonObject) -> None:
        self.acted += 1
        name = (namespace, value["metadata"]["name"])
        world.server.store.put(kind, name, value, at_s=world.loop.time(), user="system:older-server")


class OldGrantVersion(Fault):
    """A grant that another version of gpufleet wrote holds a device that must not be given again."""

    name = "old-grant-version"

    async def prepare(self, world: World) -> None:
        device = {"id": "GPU-node-0-0", "kind": "whole", "gpuMilli": 1000}
        for number, version in enumerate((99, 0)):
            pod = cluster_recipe.pod(f"other-version-{number}", 1, world.plan.recipe)
            device = {**device, "id": f"GPU-node-0-{number}"}
            grant = {"v": version, "epoch": 0, "containers": {"main": [device]}, "news": True}
            made = world.server.add(pod, SCHEDULER_USER)
            path = f"/api/v1/namespaces/{cluster_recipe.NAMESPACE}/pods/{pod['metadata']['name']}"
            text = json.dumps(grant)
            body = {"metadata": {"name": made["metadata"]["name"], "annotations": {GRANT: text}}}
            # Bound before this server had any policy: the epoch of that time is over.
            fenced, world.policies.fence = world.policies.fence, False
            world.actors.ask(
                SCHEDULER_USER, "POST", f"{path}/binding", {**body, "target": {"name": "node-0"}}
            )
            world.policies.fence = fenced
            self.acted += 1
