"""Faults of processes: the server and the schedulers are killed, stopped, starved and cut off."""

import asyncio
import json
from random import Random
from typing import TYPE_CHECKING

import msgspec

from gpufleet.kube.resources import NODE_DEVICES, PODS
from gpufleet.kube.transport import Request, Response
from gpufleet.simulation import cluster_recipe
from gpufleet.simulation.cluster_recipe import NAMESPACE
from gpufleet.simulation.faults.interference import is_write
from gpufleet.simulation.history import NODE_DEVICES as REPORTS
from tests.chaos.proxy import PASSING
from tests.chaos.stage import LEASE_S, LiveFault, Stage
from tests.chaos.traffic import RECIPE

if TYPE_CHECKING:
    from gpufleet.simulation.world import SchedulerProcess

PAST_THE_LEASE_S = LEASE_S + 2.0


class ServerDown(LiveFault):
    """No connection to the server for a while; every watch and every request under way breaks."""

    name = "server-down"

    async def act(self, stage: Stage, lasts_s: float) -> None:
        await asyncio.sleep(1.0)
        for replica in stage.replicas:
            replica.proxy.close_door()
            self.acted += 1
        await asyncio.sleep(lasts_s)


class ServerRestart(LiveFault):
    """The API server is killed and started anew: what watches resume from is forgotten (410 Gone)."""

    name = "server-restart"

    async def act(self, stage: Stage, lasts_s: float) -> None:
        await asyncio.sleep(1.0)
        stage.kill_server()
        self.acted += 1
        await asyncio.sleep(lasts_s)
        await stage.await_server()


class CompactedWhilePaused(LiveFault):
    """Every scheduler sleeps; meanwhile the world changes and the server forgets what was."""

    name = "compacted-while-paused"

    async def act(self, stage: Stage, lasts_s: float) -> None:
        await asyncio.sleep(1.0)
        for replica in stage.replicas:
            replica.stop()
        stage.kill_server()
        self.acted += 1
        await asyncio.sleep(max(lasts_s, PAST_THE_LEASE_S))
        await stage.await_server()
        for replica in stage.replicas:
            replica.go_on()


class LeaderPaused(LiveFault):
    """The leader is stopped in the middle of its work, and wakes after it lost the Lease."""

    name = "leader-paused"

    async def act(self, stage: Stage, lasts_s: float) -> None:
        await asyncio.sleep(self.random.uniform(0.5, 2.0))
        await stage.until(lambda: stage.leader() is not None)
        leader = stage.leader()
        assert leader is not None
        identity = leader.identity
        leader.stop()
        self.acted += 1
        stage.tell(f"{identity} is stopped")
        await stage.until(lambda: (now := stage.leader()) is not None and now.identity != identity)
        await asyncio.sleep(1.0)
        stage.tell(f"{identity} wakes")
        leader.go_on()
        await asyncio.sleep(1.0)


class LeaderPartitioned(LiveFault):
    """Nothing passes between the leader and the server until another leads; then all arrives late."""

    name = "leader-partitioned"

    async def act(self, stage: Stage, lasts_s: float) -> None:
        await asyncio.sleep(self.random.uniform(0.5, 2.0))
        await stage.until(lambda: stage.leader() is not None)
        leader = stage.leader()
        assert leader is not None
        identity = leader.identity
        leader.proxy.hold()
        self.acted += 1
        stage.tell(f"{identity} is cut off")
        await stage.until(lambda: (now := stage.leader()) is not None and now.identity != identity)
        await asyncio.sleep(1.0)
        leader.proxy.let_pass()
        await asyncio.sleep(1.0)


class KillAfterWrite(LiveFault):
    """The leader is killed right after its k-th write, and the next one after its k-th."""

    name = "kill-after-write-k"

    def __init__(self, random: Random) -> None:
        super().__init__(random)
        self._left = random.randint(1, 12)

    async def prepare_stage(self, stage: Stage) -> None:
        self._stage = stage

    async def act(self, stage: Stage, lasts_s: float) -> None:
        await super().act(stage, lasts_s)
        await stage.until(lambda: self.acted > 0)

    async def after_call(
        self, request: Request, response: Response, owner: "SchedulerProcess | None"
    ) -> Response:
        replica = self._stage.replica_of(PASSING.get().proxy)
        if is_write(request) and "/leases" not in request.target and replica.runs:
            self._left -= 1
            if self._left == 0:
                self._left = self.random.randint(1, 12)
                self.acted += 1
                self._stage.tell(f"{replica.identity} is killed after {request.method} {request.target}")
                replica.kill()
        return response


class Starved(LiveFault):
    """The schedulers get a small part of a CPU, while many more pods come."""

    name = "starved"
    MORE_PODS = 60

    async def act(self, stage: Stage, lasts_s: float) -> None:
        crowd = cluster_recipe.pod("crowd", 0, RECIPE)
        await stage.traffic.replica_set("crowd", self.MORE_PODS, crowd, gpus=0)
        limit_s = stage.clock.monotonic_s() + lasts_s
        while stage.clock.monotonic_s() < limit_s:
            for replica in stage.replicas:
                replica.stop()
            await asyncio.sleep(0.19)
            for replica in stage.replicas:
                replica.go_on()
            self.acted += 1
            await asyncio.sleep(0.01)


class OldGrantVersion(LiveFault):
    """Grants that another version of gpufleet wrote hold devices that must not be given again."""

    name = "old-grant-version"

    async def prepare_stage(self, stage: Stage) -> None:
        (_, node), report = min(stage.recorder.now(REPORTS).items())
        for version, device in zip((99, 0), report["spec"]["devices"], strict=False):
            name = f"other-version-{version}"
            await stage.traffic.pod(cluster_recipe.pod(name, 1, RECIPE))
            one = {"id": device["id"], "kind": "whole", "gpuMilli": 1000}
            # The fence reads where version and epoch stand first.
            grant = json.dumps(
                {"v": version, "epoch": 1, "containers": {"main": [one]}}, separators=(",", ":")
            )
            metadata = {"name": name, "annotations": {"gpufleet.io/grant": grant}}
            body = {"metadata": metadata, "target": {"name": node}}
            target = f"/api/v1/namespaces/{NAMESPACE}/pods/{name}/binding"
            request = Request("POST", target, msgspec.json.encode(body))
            response = await stage.scheduler_way.call(request, timeout_s=30)
            assert response.status == 201, response.body
            self.acted += 1


class PoisonObject(LiveFault):
    """Objects that nobody can make sense of: nobody else may suffer by them."""

    name = "poison-object"

    async def act(self, stage: Stage, lasts_s: float) -> None:
        for number, fraction in enumerate(("NaN", "abc", "1e999", "-1", "\u202e0.5")):
            pod = cluster_recipe.pod(f"poison-{number}", 0.5, RECIPE)
            pod["metadata"]["annotations"]["gpufleet.io/gpu-fraction"] = fraction
            await self._add(stage, pod)
        gang = cluster_recipe.pod("poison-gang", 1, RECIPE)
        gang["metadata"]["annotations"] |= {
            "gpufleet.io/gang": "poison",
            "gpufleet.io/gang-min-members": "many",
        }
        await self._add(stage, gang)
        report = {
            "apiVersion": "gpufleet.io/v1alpha1",
            "kind": "NodeDevices",
            "metadata": {"name": "no-such-node"},
            "spec": {"devices": [{"id": "GPU-x", "model": "\u202emodel"}]},
        }
        await stage.client.create(NODE_DEVICES, report, name="no-such-node")
        await super().act(stage, lasts_s)

    async def _add(self, stage: Stage, pod: dict[str, object]) -> None:
        await stage.traffic.pod(pod)
        name = pod["metadata"]["name"]  # type: ignore[index]
        found = msgspec.json.decode(await stage.client.get(PODS, name, namespace=NAMESPACE))
        stage.poisoned.add(found["metadata"]["uid"])
        self.acted += 1
