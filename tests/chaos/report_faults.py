"""Faults of what nodes report, on a real server: deleted, restored, gone with their definition."""

import asyncio
import contextlib

from gpufleet.kube.client import PatchType
from gpufleet.kube.kube_errors import KubeError
from gpufleet.kube.manifests import manifests
from gpufleet.kube.objects.node import GPU_HEALTHY
from gpufleet.kube.resources import NODE_DEVICES, NODES, Kind
from gpufleet.kube.status import NotFound
from gpufleet.simulation.history import NODE_DEVICES as REPORTS
from tests.chaos.stage import LiveFault, Stage

DEFINITIONS = Kind(
    "apiextensions.k8s.io", "v1", "customresourcedefinitions", "CustomResourceDefinition", False
)
DEFINITION = "nodedevices.gpufleet.io"
AWAY_S = 1.5


class ReportFault(LiveFault):
    """One of nodes whose agents say on the Node that they watch its GPUs, as real ones do."""

    async def prepare_stage(self, stage: Stage) -> None:
        told = {"type": GPU_HEALTHY, "status": "True", "reason": "AllHealthy"}
        for _, node in stage.recorder.now(REPORTS):
            await stage.client.patch(
                NODES,
                node,
                {"status": {"conditions": [told]}},
                patch_type=PatchType.STRATEGIC,
                subresource="status",
            )


class ReportDeleted(ReportFault):
    """Reports of nodes are deleted one after the other; their agents write them again a while later."""

    name = "report-deleted"

    async def act(self, stage: Stage, lasts_s: float) -> None:
        limit_s = stage.clock.monotonic_s() + lasts_s
        while stage.clock.monotonic_s() < limit_s:
            node = self.random.choice(sorted(stage.agents.reports))
            stage.agents.away.add(node)
            with contextlib.suppress(NotFound):
                await stage.client.delete(NODE_DEVICES, node)
                self.acted += 1
            await asyncio.sleep(self.random.uniform(0.2, AWAY_S))
            stage.agents.away.discard(node)


class ReportRestored(ReportFault):
    """Reports are written over: without holders, with a part of the devices, with none or with other ids."""

    name = "report-restored"

    async def act(self, stage: Stage, lasts_s: float) -> None:
        limit_s = stage.clock.monotonic_s() + lasts_s
        while stage.clock.monotonic_s() < limit_s:
            node = self.random.choice(sorted(stage.agents.reports))
            devices = stage.agents.reports[node]["devices"]
            older = self.random.choice(
                (
                    devices,
                    devices[: len(devices) // 2],
                    [],
                    [{**one, "id": f"{one['id']}-before"} for one in devices],
                )
            )
            stage.agents.away.add(node)
            with contextlib.suppress(NotFound):
                await stage.client.patch(NODE_DEVICES, node, {"spec": {"devices": older, "holders": []}})
                self.acted += 1
            await asyncio.sleep(self.random.uniform(0.2, AWAY_S))
            stage.agents.away.discard(node)


class DefinitionDeleted(ReportFault):
    """The definition of NodeDevices is deleted with all reports; later it is installed again."""

    name = "crd-deleted"

    async def act(self, stage: Stage, lasts_s: float) -> None:
        await asyncio.sleep(1.0)
        await stage.client.delete(DEFINITIONS, DEFINITION)
        self.acted += 1
        await stage.until(lambda: not stage.recorder.now(REPORTS))
        await asyncio.sleep(lasts_s)
        found = manifests((1, 37))
        definition = next(one for one in found if one["metadata"]["name"] == DEFINITION)
        while True:
            try:
                await stage.client.create(DEFINITIONS, definition, name=DEFINITION)
            except KubeError:
                # The former one is still on its way out.
                await asyncio.sleep(0.2)
                continue
            return
