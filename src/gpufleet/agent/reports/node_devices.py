"""Writes this node's NodeDevices: the GPUs and their actual holders, within a second of a change.

Changes that come together are one write, and writes are at most two a second, so that a GPU that flaps
costs the API server little. A write carries the version that it was decided on; after a conflict, or when
it is unknown whether it happened, the object is read again and compared. Nothing is written that is there
already, and nothing at all before the GPUs and their holders have been seen: a report that says "nothing
is held" would be believed.
"""

import asyncio
import contextlib
import logging
from collections.abc import Callable

import msgspec

from gpufleet.agent.reports.node_report import node_report
from gpufleet.agent.reports.service import dated
from gpufleet.agent.sharing.memory_monitor import Offenders
from gpufleet.agent.state.node_object import NodeObject
from gpufleet.agent.state.node_state import Holders, NodeGpus, NodePods
from gpufleet.agent.state.topic import Topic, any_change
from gpufleet.kube.backoff import Backoff, RetryLimits
from gpufleet.kube.client import Client
from gpufleet.kube.kube_errors import KubeError
from gpufleet.kube.listing import Selection
from gpufleet.kube.mirror import Mirror, Pace
from gpufleet.kube.mirror_changes import Appeared, Change, Changed, Listed, Vanished
from gpufleet.kube.objects.metadata import Metadata
from gpufleet.kube.objects.node_devices import (
    NodeDevices,
    NodeDevicesSpec,
    decode_node_devices,
    encode_node_devices,
)
from gpufleet.kube.replica import is_newer
from gpufleet.kube.resources import NODE_DEVICES
from gpufleet.kube.status import StatusError

LOG = logging.getLogger(__name__)
# A pod that starts changes pods, holders and GPUs at once: one write tells all.
GATHERING_S = 0.05
# Two writes a second at most; with the gathering a change is reported within a second.
SPACING_S = 0.5
# Looks at memory, until GPUs and holders are known.
UNREADY_S = 0.2
COMPARED_EVERY_S = 600.0
"""A watch may miss what it was told of; a look costs little."""

LOOKED_FOR_EVERY_S = 5.0
"""How often the object, as last seen, is compared with what was written."""

# Between tries to write, ever longer while the API server is away; pods wait for this report.
PAUSES = RetryLimits(first_s=0.2, longest_s=10.0)
# Where NodeDevices are not defined yet.
PACE = Pace(absent_pause_s=15.0)


class NodeDevicesWriter:
    """Keeps the object equal to the topics while ``run`` runs.

    ``ready`` says whether the topics of holders and pods are whole; the one of GPUs is when it names a boot.
    ``offenders`` are the pods that use more memory than their share, where that is monitored.
    ``offered_since`` is when the kubelet last learned of the devices; empty as long as it has not from us.
    """

    def __init__(
        self,
        client: Client,
        gpus: Topic[NodeGpus],
        holders: Topic[Holders],
        pods: Topic[NodePods],
        ready: Callable[[], bool],
        offenders: Topic[Offenders] | None = None,
        offered_since: Topic[str] | None = None,
    ) -> None:
        self._client = client
        self._object = NodeObject(client, NODE_DEVICES, encode_node_devices, decode_node_devices, _unreadable)
        self._gpus = gpus
        self._holders = holders
        self._pods = pods
        self._ready = ready
        self._offenders = offenders or Topic({})
        self._offered_since = offered_since or Topic("")
        self._seen: NodeDevices | None = None
        self._unsure = True
        self._news = asyncio.Event()
        self._backoff = Backoff(PAUSES, client.jitter)
        self.problem = ""
        """Why the report may be out of date; empty while it is as it should be."""

    async def run(self) -> None:
        """Write until cancelled; failures of the world are tried again."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._listen())
            group.create_task(self._follow())
            group.create_task(self._keep())

    async def _listen(self) -> None:
        async for _ in any_change(
            self._gpus, self._holders, self._pods, self._offenders, self._offered_since
        ):
            self._news.set()

    async def _follow(self) -> None:
        """Follow changes of the object by other clients."""
        while not self._is_ready():
            await self._client.clock.sleep(UNREADY_S)
        node = self._gpus.value.node
        own, decoder = Selection(fields=f"metadata.name={node}"), msgspec.json.Decoder(NodeDevices)
        mirror = Mirror(
            self._client, NODE_DEVICES, decoder, self._hear, selection=own, optional=True, pace=PACE
        )
        async with asyncio.TaskGroup() as group:
            group.create_task(mirror.run())
            await mirror.wait_listed()
            while True:
                await self._client.clock.sleep(LOOKED_FOR_EVERY_S * self._client.jitter.uniform(0.5, 1.0))
                if self._seen is not None and mirror.get(node) is None:
                    # Its kind was away for a moment, so the end of an object was not seen.
                    self._suspect()

    def _hear(self, change: Change[NodeDevices]) -> None:
        """The object is not as it was left, unless this is our own last write."""
        match change:
            case Listed():
                return
            case Appeared(found) | Changed(_, found):
                known = "" if self._seen is None else self._seen.metadata.resource_version
                if not is_newer(found.metadata.resource_version, known):
                    return
            case Vanished(found):
                if self._seen is not None and self._seen.metadata.uid != found.metadata.uid:
                    return
        self._suspect()

    def _suspect(self) -> None:
        """The object has to be looked at again."""
        self._unsure = True
        self._news.set()

    async def _keep(self) -> None:
        clock = self._client.clock
        while True:
            if not self._is_ready():
                await clock.sleep(UNREADY_S)
                continue
            await clock.sleep(GATHERING_S)
            self._news.clear()
            try:
                wrote = await self._write_if_needed()
            except KubeError as problem:
                await clock.sleep(max(SPACING_S, self._failed(problem)))
                continue
            self._backoff.reset()
            self.problem = ""
            if wrote:
                await clock.sleep(SPACING_S - GATHERING_S)
            if not await self._heard(COMPARED_EVERY_S * self._client.jitter.uniform(0.5, 1.0)):
                self._unsure = True

    async def _heard(self, limit_s: float) -> bool:
        """Wait for news; False where there are none in this time."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(limit_s):
                return await self._news.wait()
        return False

    def _is_ready(self) -> bool:
        return bool(self._gpus.value.boot_id) and self._ready()

    def _failed(self, problem: KubeError) -> float:
        """Remember why; how long to wait before the next try, in seconds."""
        self._unsure = True
        if str(problem) != self.problem:
            LOG.warning("NodeDevices is not written", extra={"problem": str(problem)})
        self.problem = str(problem)
        return self._backoff.next_s(problem.retry_after_s if isinstance(problem, StatusError) else None)

    async def _write_if_needed(self) -> bool:
        """Make the object equal to what is known now. Raises KubeError; whether it took a write."""
        gpus = self._gpus.value
        # After a failed write, or one by another client, it is not known what is there.
        if self._unsure:
            self._seen = await self._object.read(gpus.node)
            self._unsure = False
        seen = self._seen
        since = self._offered_since.value or ("" if seen is None else seen.spec.offered_since)
        found = node_report(gpus, self._holders.value, self._pods.value, self._offenders.value, since)
        wanted = dated(found, None if seen is None else seen.spec, self._client.clock.now())
        if seen is not None and seen.spec == wanted:
            return False
        # A write that fails may have happened all the same, so until it has succeeded nothing is sure.
        self._unsure = True
        self._seen = await (
            self._object.create(gpus.node, wanted)
            if seen is None
            else self._object.change(seen.metadata, wanted)
        )
        self._unsure = False
        return True


def _unreadable(there: Metadata) -> NodeDevices:
    return NodeDevices(there, NodeDevicesSpec(boot_id="unreadable"))
