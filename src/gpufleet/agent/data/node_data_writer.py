"""Writes this node's NodeData: the models and datasets in the folders that the agent is told to read.

The folders are read once a minute. A write follows only where
something differs, carries the version that it was decided on, and leaves the smallest entries out where the
object would become too large. Without folders a report of before is emptied: copies that are not watched any
more would be believed.
"""

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable

import msgspec

from gpufleet.agent.data.copy_rate import CopyRate
from gpufleet.agent.data.data_folders import FoundData
from gpufleet.agent.state.node_object import NodeObject
from gpufleet.kube.backoff import Backoff, RetryLimits
from gpufleet.kube.client import Client
from gpufleet.kube.kube_errors import KubeError
from gpufleet.kube.objects.metadata import Metadata
from gpufleet.kube.objects.node_data import NodeData, NodeDataSpec, decode_node_data, encode_node_data
from gpufleet.kube.resources import NODE_DATA
from gpufleet.kube.status import Conflict

LOG = logging.getLogger(__name__)
EVERY_S = 60.0
"""A copy of many gigabytes takes minutes, and each look costs a pass over the folders."""

COMPARED_EVERY = 10
"""After so many rounds without a write the object is read again: others may have changed it."""

ENTRIES_BYTES_MAX = 56 << 10
"""The entries of one NodeData, so that the whole object stays below 64 KiB."""

ENTRIES_MAX = 1024
"""As many as the definition of NodeData takes."""

# Between tries to write, ever longer while the API server is away; no pod waits for this report.
PAUSES = RetryLimits(first_s=1.0, longest_s=60.0)
_ENTRY = msgspec.json.Encoder()


class NodeDataWriter:
    """Keeps the object equal to the folders while ``run`` runs. ``read`` reads them, and may take its time;
    None where there are no folders. ``stages`` says that the agent copies what is wanted on the node,
    and ``copy_rate`` knows how fast; ``pulls`` and ``pull_rate`` say the same of images.
    """

    def __init__(
        self,
        client: Client,
        node: str,
        read: Callable[[], Awaitable[FoundData]] | None,
        *,
        stages: bool = False,
        copy_rate: CopyRate | None = None,
        pulls: bool = False,
        pull_rate: CopyRate | None = None,
    ) -> None:
        self._stages = stages
        self._copy_rate = copy_rate or CopyRate()
        self._pulls = pulls
        self._pull_rate = pull_rate or CopyRate()
        self._changed = asyncio.Event()
        self.problem = ""
        """Why the report may be out of date; empty while it is as it should be."""
        self._client = client
        self._object = NodeObject(client, NODE_DATA, encode_node_data, decode_node_data, _unreadable)
        self._node = node
        self._read = read
        self._seen: NodeData | None = None
        self._rounds_left = 0

    def report_now(self) -> None:
        """What is in the folders was changed by this agent: it is read before its time."""
        self._changed.set()

    async def run(self) -> None:
        """Write until cancelled; failures of the world are tried again."""
        backoff = Backoff(PAUSES, self._client.jitter)
        while True:
            self._changed.clear()
            found = FoundData() if self._read is None else await self._read()
            try:
                await self._write_if_needed(self._with_copies(spec_of(found)))
            except Conflict:
                # The scheduler wrote what it wants there: the version that was read is not the last.
                self._rounds_left = 0
                await self._client.clock.sleep(backoff.next_s())
                continue
            except KubeError as error:
                self._rounds_left = 0
                if not self.problem:
                    LOG.warning("NodeData is not written", extra={"problem": str(error)})
                self.problem = f"NodeData of the node {self._node} is not written: {error}"
                await self._client.clock.sleep(backoff.next_s())
                continue
            self.problem = ""
            backoff.reset()
            # Agents that started together do not read a disk they share at one moment.
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(EVERY_S * self._client.jitter.uniform(1.0, 1.2)):
                    await self._changed.wait()

    def _with_copies(self, spec: NodeDataSpec) -> NodeDataSpec:
        """The report with what it says of the agent's own copies."""
        return msgspec.structs.replace(
            spec,
            stages=self._stages,
            copy_bytes_per_s=self._copy_rate.bytes_per_s,
            pulls=self._pulls,
            pull_bytes_per_s=self._pull_rate.bytes_per_s,
        )

    async def _write_if_needed(self, wanted: NodeDataSpec) -> None:
        """Make the object equal to what the folders hold. Raises KubeError."""
        if self._rounds_left == 0:
            self._seen = await self._object.read(self._node)
        seen = self._seen
        if seen is None and wanted == NodeDataSpec():
            return
        if seen is None or seen.spec != wanted:
            # A write that fails may have happened all the same.
            self._rounds_left = 0
            self._seen = await (
                self._object.create(self._node, wanted)
                if seen is None
                else self._object.change(seen.metadata, wanted)
            )
            self._rounds_left = COMPARED_EVERY
        self._rounds_left = (self._rounds_left or COMPARED_EVERY) - 1


def _unreadable(there: Metadata) -> NodeData:
    # No report has so many left out.
    return NodeData(there, NodeDataSpec(omitted=-1))


def spec_of(found: FoundData) -> NodeDataSpec:
    """The report of what was found: the largest entries first, as many as the object may have."""
    entries = sorted(
        found.entries, key=lambda one: (-one.size_bytes, one.kind, one.name, one.revision, one.folder)
    )
    left_bytes, kept = ENTRIES_BYTES_MAX, 0
    for entry in entries[:ENTRIES_MAX]:
        left_bytes -= len(_ENTRY.encode(entry)) + 1
        if left_bytes < 0:
            break
        kept += 1
    return NodeDataSpec(tuple(entries[:kept]), len(entries) - kept, found.folders)
