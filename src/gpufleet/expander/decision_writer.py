"""Writing what was decided of waiting pods into their conditions, beside the answers and never in their way.

Of each pod only the newest word is kept. What cannot be written is left: without it the autoscaler is asked
for the pods again, and the next answer decides anew.
"""

import asyncio
import logging
from collections import OrderedDict

import msgspec

from gpufleet.cluster.waiting_reasons import WAITING_FOR_TURN
from gpufleet.expander.answering import Answered
from gpufleet.expander.decisions import Decision
from gpufleet.kube.client import Client, PatchType
from gpufleet.kube.codec.chosen_nodes import Postponed, write_chosen_nodes
from gpufleet.kube.codec.times import whole_time
from gpufleet.kube.kube_errors import KubeError
from gpufleet.kube.objects.pod import NODES_CHOSEN, POD_SCHEDULED, Pod
from gpufleet.kube.resources import PODS
from gpufleet.kube.status import Conflict, NotFound

LOG = logging.getLogger(__name__)
WRITES_AT_ONCE = 4
"""A gang of hundreds is written within a second, and the API server has other clients."""


class DecisionWriter:
    """Keeps what is to be written, and writes it."""

    def __init__(self, client: Client) -> None:
        self.client = client
        self._unwritten: OrderedDict[str, tuple[Pod, Decision]] = OrderedDict()
        self._wake = asyncio.Event()

    def add(self, answered: Answered) -> None:
        """Have written what an answer decided."""
        for pod, decision in answered.decisions:
            self._unwritten[pod.metadata.uid] = (pod, decision)
        self._wake.set()

    async def run(self) -> None:
        """Write until cancelled."""
        async with asyncio.TaskGroup() as group:
            for _ in range(WRITES_AT_ONCE):
                group.create_task(self._work())

    async def _work(self) -> None:
        while True:
            if not self._unwritten:
                self._wake.clear()
                await self._wake.wait()
                continue
            _, (pod, decision) = self._unwritten.popitem(last=False)
            try:
                await self._write(pod, decision)
            except (NotFound, Conflict):
                # Gone, bound or changed since: what was decided of it may no longer hold.
                pass
            except KubeError as problem:
                words = "what was decided of a pod was not written"
                LOG.warning(words, extra={"pod": pod.metadata.path, "problem": str(problem)})

    async def _write(self, pod: Pod, decision: Decision) -> None:
        await self.client.patch(
            PODS,
            pod.metadata.name,
            self._body(pod, decision),
            namespace=pod.metadata.namespace,
            patch_type=PatchType.STRATEGIC,
            subresource="status",
        )

    def _body(self, pod: Pod, decision: Decision) -> bytes:
        said, before = write_chosen_nodes(decision), pod.condition(NODES_CHOSEN)
        written = {
            "type": NODES_CHOSEN,
            "status": said.status,
            "reason": said.reason,
            "message": said.message,
        }
        if before is None or before.status != said.status:
            written["lastTransitionTime"] = whole_time(self.client.clock.now())
        # The uid makes the server refuse the patch where the name is another pod's by now.
        metadata = {"uid": pod.metadata.uid}
        conditions = [written]
        scheduled = pod.condition(POD_SCHEDULED)
        if isinstance(decision, Postponed) and scheduled is not None and scheduled.status == "False":
            # The scheduler says the same when it goes over its waiting pods, which takes a while for many.
            # The version keeps this from a pod that was bound since.
            conditions.append({"type": POD_SCHEDULED, "reason": WAITING_FOR_TURN})
            metadata["resourceVersion"] = pod.metadata.resource_version
        return msgspec.json.encode({"metadata": metadata, "status": {"conditions": conditions}})
