"""The agents of simulated nodes: each says in its NodeDevices which running pod holds what.

KWOK plays the kubelets; nobody plays gpufleet's own agent there. Here it believes the grants, as one does
whose containers all started well, and writes its report a moment later, whole where it is gone or changed.
"""

import asyncio

from gpufleet.kube.backoff import ONE_TRY
from gpufleet.kube.client import Client
from gpufleet.kube.kube_errors import KubeError
from gpufleet.kube.resources import NODE_DEVICES
from gpufleet.simulation import pod_facts
from gpufleet.simulation.history import NODE_DEVICES as REPORTS
from gpufleet.simulation.refusal import JsonObject
from tests.chaos.recording import LastingRecorder


class Agents:
    """All agents of a cluster: ``reports`` is what each saw first, ``away`` are those that write nothing."""

    def __init__(self, client: Client, recorder: LastingRecorder, every_s: float) -> None:
        self._client = client
        self._recorder = recorder
        self._every_s = every_s
        self.reports: dict[str, JsonObject] = {}
        self.away: set[str] = set()

    async def run(self) -> None:
        """Report until cancelled."""
        while True:
            await asyncio.sleep(self._every_s)
            holders, there = self._holders(), self._recorder.now(REPORTS)
            for (_, node), report in there.items():
                self.reports.setdefault(node, report["spec"])
            for node, spec in self.reports.items():
                wanted = {**spec, "holders": holders.get(node, [])}
                if node not in self.away and _says(there.get(("", node))) != _says({"spec": wanted}):
                    await self._report(node, wanted, anew=("", node) not in there)

    def _holders(self) -> dict[str, list[JsonObject]]:
        """Who holds what by node, in an order of its own."""
        found: dict[str, list[JsonObject]] = {}
        for _, pod in sorted(self._recorder.now().items()):
            if (pod.get("status") or {}).get("phase") == "Running":
                on_node = found.setdefault(pod_facts.node_of(pod), [])
                for one in pod_facts.grant_of(pod)[1]:
                    kind = "whole" if one.gpu_milli >= 1000 else "share"
                    holder = {"device": one.device, "gpuMilli": one.gpu_milli, "kind": kind}
                    memory = {"memoryMiB": one.memory_mib} if one.memory_mib else {}
                    on_node.append({**holder, **memory, "podUID": pod["metadata"]["uid"]})
        return found

    async def _report(self, node: str, spec: JsonObject, *, anew: bool) -> None:
        try:
            if anew:
                body: JsonObject = {"apiVersion": NODE_DEVICES.api_version, "kind": NODE_DEVICES.name}
                body |= {"metadata": {"name": node}, "spec": spec}
                await self._client.create(NODE_DEVICES, body, name=node, retry_limits=ONE_TRY)
            else:
                await self._client.patch(NODE_DEVICES, node, {"spec": spec}, retry_limits=ONE_TRY)
        except KubeError:
            return  # the server is away; the next look sees that the report is still old


def _says(report: JsonObject | None) -> object:
    """What a report says of devices and holders."""
    spec = {} if report is None else report["spec"]
    return report is not None, [one["id"] for one in spec.get("devices") or []], spec.get("holders") or []
