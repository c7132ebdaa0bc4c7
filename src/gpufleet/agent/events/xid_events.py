"""Tells pods of the errors of the GPUs that they hold, in an Event: `kubectl describe pod` says why.

Most errors are made by a program and kill that program alone; its owner looks at the pod, not at the node.
The agent ends no pod: what the driver did not end goes on.
"""

import asyncio
from collections import deque

from gpufleet.agent.events.pod_events import PodEvents
from gpufleet.agent.holders.held_parts import PodName, held_parts
from gpufleet.agent.state.node_state import Gpu, Holders, NodeGpus, NodePods
from gpufleet.agent.state.topic import Topic
from gpufleet.devices.backend import XidEvent
from gpufleet.devices.xid import XidAction, xid
from gpufleet.kube.client import Client

# While the API server is away the oldest are dropped: a broken GPU repeats itself.
WAITING_MAX = 100
AGAIN_AFTER_S = 60.0
"""An error of one pod is told again after so long at the earliest."""

FOLLOWS = {
    XidAction.POD: "the program is at fault or lost, the GPU is well",
    XidAction.QUIET: "the GPU takes no new work until it has been quiet for a while",
    XidAction.RESET: "the GPU takes no new work until it was reset",
    XidAction.GONE: "the GPU is lost",
}
"""What the owner of a pod is told of each action; of information, nothing."""


class XidPodEvents:
    """Writes the Events of one node's driver errors. The GPU monitor calls ``heard``."""

    def __init__(
        self,
        client: Client,
        node: str,
        gpus: Topic[NodeGpus],
        pods: Topic[NodePods],
        holders: Topic[Holders],
    ) -> None:
        self._client = client
        self._gpus = gpus
        self._pods = pods
        self._holders = holders
        self._waiting: deque[tuple[PodName, str]] = deque(maxlen=WAITING_MAX)
        self._told: dict[tuple[PodName, int], float] = {}
        self._events = PodEvents(client, node)
        self._wake = asyncio.Event()

    def heard(self, event: XidEvent) -> None:
        """An error was reported: queue an Event for each pod that holds the GPU or instance."""
        gpu = None if event.uuid is None else self._gpus.value.gpu(event.uuid)
        follows = FOLLOWS.get(xid(event.code).action)
        if gpu is None or follows is None:
            return
        now_s = self._client.clock.monotonic_s()
        self._told = {key: at_s for key, at_s in self._told.items() if now_s - at_s < AGAIN_AFTER_S}
        for pod in self._on(gpu, event.mig_uuid):
            if pod.uid and (pod, event.code) not in self._told:
                self._told[pod, event.code] = now_s
                self._waiting.append((pod, _note(event, gpu, follows)))
                self._wake.set()

    async def run(self) -> None:
        """Write until cancelled."""
        while True:
            await self._wake.wait()
            self._wake.clear()
            while self._waiting:
                pod, note = self._waiting.popleft()
                await self._events.warn(pod, "GPUError", "Xid", note)

    def _on(self, gpu: Gpu, instance: str | None) -> list[PodName]:
        """The pods on a GPU, or on one instance of it."""
        held = held_parts(self._gpus.value, self._pods.value, self._holders.value).get(gpu.uuid, ())
        return list(dict.fromkeys(one.pod for one in held if instance in (None, one.instance)))


def _note(event: XidEvent, gpu: Gpu, follows: str) -> str:
    where = f"{gpu.uuid} (index {gpu.facts.index})"
    if event.mig_uuid is not None:
        where = f"{event.mig_uuid} of {where}"
    return f"Xid {event.code} of {where}: {xid(event.code).meaning}; {follows}"
