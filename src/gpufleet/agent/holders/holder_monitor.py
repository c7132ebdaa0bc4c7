"""Publishes the holders of this node's devices, also those that the kubelet forgot.

Its pod resources API knows an allocation first; its record on disk adds the pod's UID and the init
containers. Both are joined with the pods of the API server, and with the agent's own memory
(``holder_memory``). The kubelet is asked again after ``look`` (an allocator that has just given
something), when the pods change, and now and then. While the kubelet is away the last value stays: containers
go on with what they have.
"""

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Collection, Iterable
from pathlib import Path
from typing import Protocol

import msgspec

from gpufleet.agent.holders.holder_memory import HolderMemory, SeenHolder
from gpufleet.agent.kubelet.kubelet_checkpoint import CheckpointEntry, read_checkpoint
from gpufleet.agent.state.node_state import Held, Holders, NodeGpus, NodePod, NodePods
from gpufleet.agent.state.state_errors import KubeletError
from gpufleet.agent.state.topic import Topic, any_change
from gpufleet.kube.clock import Clock
from gpufleet.kube.objects.node_devices import Holder
from gpufleet.model.model_errors import WorldError

LOG = logging.getLogger(__name__)
SPACING_S = 0.4
"""At most so often; short enough that what changes is reported within a second."""

SETTLING_S = 0.05
"""The kubelet writes an allocation down only after it has our answer."""

# Without news: the kubelet tells nothing by itself when a container ends.
REGULAR_S = 15.0
# Where the kubelet and our memory differ: mostly a start or an end that is over in a moment.
UNSETTLED_FIRST_S = 1.0


class Lister(Protocol):
    """The pod resources API; ``pod_resources`` is the real one."""

    async def list(self) -> Holders:
        """All that is held on this node. Raises KubeletError."""
        ...


async def _no_report() -> tuple[Holder, ...]:
    return ()


class HolderSources(msgspec.Struct, frozen=True):
    """The sources besides the kubelet that know what containers hold.

    ``pods_complete`` says whether the topic of pods has all of the node, and ``ended`` which pods were
    finished before they went; ``report`` reads what the node's own report says, once, and may raise
    WorldError and TimeoutError.
    """

    memory: HolderMemory
    gpus: Topic[NodeGpus] = msgspec.field(default_factory=lambda: Topic(NodeGpus("")))
    pods_complete: Callable[[], bool] = lambda: True
    report: Callable[[], Awaitable[tuple[Holder, ...]]] = _no_report
    ended: Callable[[], Collection[str]] = tuple


class HolderMonitor:
    """Keeps the topic of holders while ``run`` runs.

    ``record_folder`` is where the kubelet keeps its record, beside the device plugins' sockets.
    """

    def __init__(
        self,
        lister: Lister,
        record_folder: Path,
        pods: Topic[NodePods],
        topic: Topic[Holders],
        sources: HolderSources,
        clock: Clock,
    ) -> None:
        self._lister = lister
        self._folder = record_folder
        self._pods = pods
        self._topic = topic
        self._sources = sources
        self._clock = clock
        self._turn = asyncio.Lock()
        self._recalled = False
        self._news = asyncio.Event()
        self._unsettled_s = UNSETTLED_FIRST_S
        self._seen: NodeGpus | None = None
        self.known = False
        """Whether the kubelet has answered once; before that nothing follows from an empty topic."""
        self.problem = ""
        """Why the topic may be out of date; empty while the kubelet answers."""

    @property
    def sure(self) -> bool:
        """Whether the topic is of the GPUs that there are now, so that grants and reports could be read."""
        return self._seen is self._sources.gpus.value

    def look(self) -> None:
        """Something was given or taken: ask the kubelet soon."""
        self._news.set()

    async def run(self) -> None:
        """Keep the topic up to date until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._follow())
            group.create_task(self._keep())

    async def ask(self) -> Holders:
        """What is held now; told to the topic too. Raises WorldError and TimeoutError."""
        # One at a time: an older answer of the kubelet must not come after a newer one.
        async with self._turn:
            await self._recall()
            try:
                listed = await self._lister.list()
            except KubeletError:
                self._sources.memory.kubelet_silent()
                raise
            record: tuple[CheckpointEntry, ...] = ()
            try:
                record = read_checkpoint(self._folder)
            except KubeletError as problem:
                LOG.warning(
                    "init containers may be missing among the holders", extra={"problem": str(problem)}
                )
            pods, memory = self._pods.value, self._sources.memory
            gpus = self._sources.gpus.value
            seen = SeenHolder(gpus, pods, self._sources.pods_complete(), self._sources.ended())
            holders = memory.joined(join_holders(listed, record, pods), seen)
            await memory.keep()
            self.known, self.problem, self._seen = True, "", gpus
            self._topic.publish(holders)
            return holders

    async def _recall(self) -> None:
        """What the node's report said is read before this agent writes it anew."""
        if not self._recalled:
            self._sources.memory.report_said(await self._sources.report())
            self._recalled = True

    async def _follow(self) -> None:
        async for _ in any_change(self._pods, self._sources.gpus):
            self.look()

    async def _keep(self) -> None:
        while True:
            self._news.clear()
            pause_s = REGULAR_S
            try:
                if self._is_settled(await self.ask()):
                    self._unsettled_s = UNSETTLED_FIRST_S
                else:
                    # Doubled, so that a difference that stays does not have the kubelet asked every second.
                    pause_s = self._unsettled_s = min(2 * self._unsettled_s, REGULAR_S)
            except (WorldError, TimeoutError) as problem:
                if not self.problem:
                    LOG.warning("the holders of devices are not known", extra={"problem": str(problem)})
                self.problem = str(problem) or "the node's report is not known: no answer"
                pause_s = UNSETTLED_FIRST_S
            # Also after news, so that a burst of pods costs a few looks only.
            await self._clock.sleep(SPACING_S)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(pause_s):
                    await self._news.wait()
                    await self._clock.sleep(SETTLING_S)

    def _is_settled(self, holders: Holders) -> bool:
        """Whether the pods of all holders are known, and the kubelet lists them; otherwise one is ahead."""
        return all(one.pod_uid in self._pods.value and (one.listed or one.lost) for one in holders)


def join_holders(listed: Holders, record: Iterable[CheckpointEntry], pods: NodePods) -> Holders:
    """What the kubelet lists, with UIDs, and what only its record has: init containers that end.

    Pods that ended hold nothing any more, whatever the kubelet has not tidied up yet.
    """
    recorded = {(one.container, one.resource, one.units, one.pod_uid): one for one in record}
    by_name = {(pod.namespace, pod.name): pod for pod in pods.values()}
    found: dict[tuple[str, str, str], Held] = {}
    for held in listed:
        pod = by_name.get((held.namespace, held.pod))
        uid = _uid(held, pod, recorded)
        # The kubelet lists a pod for a while after it ended.
        if uid not in pods or not pods[uid].finished:
            found[uid or held.namespace + "/" + held.pod, held.container, held.resource] = (
                msgspec.structs.replace(held, pod_uid=uid)
            )
    for one in recorded.values():
        pod = pods.get(one.pod_uid)
        key = (one.pod_uid, one.container, one.resource)
        # PodResources leaves out init containers that end; the record has them.
        if pod is not None and not pod.finished and key not in found:
            found[key] = Held(
                pod.namespace, pod.name, one.container, one.resource, tuple(sorted(one.units)), pod.uid
            )
    return tuple(
        sorted(found.values(), key=lambda one: (one.namespace, one.pod, one.container, one.resource))
    )


def _uid(
    held: Held, pod: NodePod | None, recorded: dict[tuple[str, str, frozenset[str], str], CheckpointEntry]
) -> str:
    """The pod's UID: as recorded for exactly these units, else that of the pod of this name."""
    wanted = (held.container, held.resource, frozenset(held.units))
    if pod is not None and (*wanted, pod.uid) in recorded:
        return pod.uid
    owners = {uid for *what, uid in recorded if tuple(what) == wanted}
    if len(owners) == 1:
        return owners.pop()
    return "" if pod is None else pod.uid
