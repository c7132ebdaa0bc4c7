"""The disruption controller: how many pods of each budget may go, kept up a little later than its cause."""

import asyncio
from random import Random

import msgspec

from gpufleet.kube.transport import Request
from gpufleet.simulation import pod_facts
from gpufleet.simulation.actors import ADMIN, MERGE
from gpufleet.simulation.api_server import ApiServer
from gpufleet.simulation.eviction import BUDGETS, selects
from gpufleet.simulation.history import PODS
from gpufleet.simulation.refusal import JsonObject

# Drawn anew each time: an eviction may meet a budget that is not counted yet.
SETTLES_WITHIN_S = (0.01, 0.5)


class BudgetActor:
    """Counts the healthy pods of each budget anew when a pod changed."""

    def __init__(self, server: ApiServer, random: Random) -> None:
        self.server = server
        self._random = random

    async def run(self) -> None:
        """Act for ever."""
        while True:
            # Before the count, so that a write meanwhile is counted too.
            waiting = self.server.store.next_write()
            for name, budget in list(self.server.store.all(BUDGETS).items()):
                self._count(name, budget)
            await waiting
            await asyncio.sleep(self._random.uniform(*SETTLES_WITHIN_S))

    def _count(self, name: tuple[str, str], budget: JsonObject) -> None:
        pods = [
            pod
            for (namespace, _), pod in self.server.store.all(PODS).items()
            if namespace == name[0] and selects(budget, pod) and not pod_facts.is_over(pod)
        ]
        healthy = [pod for pod in pods if _is_healthy(pod)]
        least = int(budget["spec"]["minAvailable"])
        status = {
            "observedGeneration": budget["metadata"].get("generation", 1),
            "expectedPods": len(pods),
            "currentHealthy": len(healthy),
            "desiredHealthy": least,
            "disruptionsAllowed": max(0, len(healthy) - least),
        }
        if budget.get("status") != status:
            path = f"/apis/policy/v1/namespaces/{name[0]}/poddisruptionbudgets/{name[1]}/status"
            body = msgspec.json.encode({"status": status})
            self.server.answer(Request("PATCH", path, body, MERGE), ADMIN)


def _is_healthy(pod: JsonObject) -> bool:
    ready = (pod_facts.condition(pod, "Ready") or {}).get("status") == "True"
    return ready and "deletionTimestamp" not in pod["metadata"]
