"""Taking pods back: evictions, one after another, beside the decisions.

A bound pod cannot be unbound. Evicting it gives it the condition DisruptionTarget, honours disruption budgets
and lets its controller make another. A pod without a controller would be lost for good: it is only deleted
where its owner asked for that, and otherwise not touched. Who asks says why, and asks again where a pod is
still there later.
"""

import asyncio
import logging

from gpufleet.cluster.pods.pod_entry import PlacedPod
from gpufleet.kube.client import Client
from gpufleet.kube.errors import KubeError
from gpufleet.kube.resources import PODS
from gpufleet.kube.status import Conflict, NotFound, TooManyRequests
from gpufleet.scheduler.fence import EPOCH
from gpufleet.scheduler.metrics import Metrics

LOG = logging.getLogger(__name__)
TRY_AGAIN_S = 15.0
STAYS = "it stays, because no controller would replace it; delete it to free its room"


class Evictor:
    """Carries out evictions in the order in which they were asked for."""

    def __init__(self, client: Client, metrics: Metrics, *, epoch: int) -> None:
        self.client = client
        self.annotations = {EPOCH: str(epoch)}
        self.metrics = metrics
        self._tasks: asyncio.Queue[tuple[PlacedPod, str]] = asyncio.Queue()

    def take_back(self, pod: PlacedPod, reason: str) -> None:
        """Have a pod evicted; ``reason`` is a word for metrics and the log."""
        self._tasks.put_nowait((pod, reason))

    async def run(self) -> None:
        """Evict until cancelled."""
        while True:
            pod, reason = await self._tasks.get()
            outcome = await self._evict(pod)
            self.metrics.evictions.labels(reason, outcome).inc()
            LOG.info("a pod is taken back", extra={"pod": str(pod.pod), "cause": reason, "outcome": outcome})

    async def _evict(self, placed: PlacedPod) -> str:
        pod = placed.pod
        try:
            if not placed.controlled:
                await self.client.delete(PODS, pod.name, namespace=pod.namespace, uid=pod.uid)
                return "deleted"
            await self.client.evict(
                pod.name, namespace=pod.namespace, uid=pod.uid, annotations=self.annotations
            )
        except (NotFound, Conflict):
            return "gone"
        except TooManyRequests:
            return "budget-forbids"
        except KubeError as problem:
            LOG.warning("an eviction failed", extra={"pod": str(pod), "problem": str(problem)})
            return "failed"
        return "evicted"
