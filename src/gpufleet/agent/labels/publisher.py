"""Keeping the node's labels in the cluster as its GPUs are.

Follows the node's GPUs and writes where the labels differ from what is written, and only then: first it
reads what is there, so a restart writes nothing. Whether Node Feature Discovery is installed is looked at
each time; where it came or went, the labels move, off the Node first, so that no label of
ours stays under another manager. A vendor whose driver does not answer keeps the labels that it had.
"""

import asyncio
import logging
import math
import random
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

from gpufleet.agent.labels import PREFIXES, node_labels
from gpufleet.agent.labels.node_feature import InNodeFeature
from gpufleet.agent.labels.nvidia import TIMESTAMP
from gpufleet.agent.labels.on_node import OnNode
from gpufleet.agent.labels.values import Labels
from gpufleet.agent.state.node_state import NodeGpus
from gpufleet.agent.state.topic import Topic
from gpufleet.devices.sharing.plugin_config import Discovery
from gpufleet.files.regular import UnfitFileError, read_beginning
from gpufleet.kube.backoff import Backoff, RetryLimits
from gpufleet.kube.client import Client
from gpufleet.kube.kube_errors import KubeError
from gpufleet.kube.resources import NODE_FEATURES
from gpufleet.model.gpu_catalogue import Vendor

LOG = logging.getLogger(__name__)
POLL_S = 300.0
"""How often to look whether the labels are still there and by which way they are written,
where the configuration does not say."""

# A configuration may ask for less; each look is a request to the API server.
POLL_LEAST_S = 10.0
RETRIES = RetryLimits(first_s=1.0, longest_s=60.0)
# The firmware's name of a machine is one short line.
MACHINE_LENGTH_MAX = 4096


class LabelPublisher:
    """Writes this node's labels. ``problem`` says why it cannot, "" while it can.

    ``namespace`` is where its NodeFeature is kept, ``machine_file`` has the name of the machine's type.
    ``storage`` makes the labels of its disks.
    ``discovery`` is what the configuration of the device plugin says of labels, and goes before: whether
    one tells when they were made, how often to look after them, and the file of the machine's type.
    """

    def __init__(
        self,
        gpus: Topic[NodeGpus],
        client: Client,
        jitter: random.Random,
        *,
        namespace: str,
        machine_file: Path | None = None,
        storage: Callable[[], Labels] = dict,
        discovery: Topic[Discovery | None] | None = None,
    ) -> None:
        self.gpus = gpus
        self.client = client
        self.jitter = jitter
        self.namespace = namespace
        self.machine_file = machine_file
        self.storage = storage
        self.discovery: Topic[Discovery | None] = discovery or Topic(None)
        self.problem = ""

    async def run(self) -> None:
        """Keep the labels until cancelled."""
        backoff = Backoff(RETRIES, self.jitter)
        async with _changes(self.gpus, self.discovery) as changed:
            while True:
                changed.clear()
                try:
                    await self.reconcile()
                except KubeError as error:
                    self._tell(f"the node's labels cannot be written: {error}")
                    await self.client.clock.sleep(backoff.next_s())
                else:
                    self._tell("")
                    backoff.reset()
                    said = self.discovery.value
                    every_s = POLL_S if said is None else max(said.every_s, POLL_LEAST_S)
                    await _either(changed, every_s * self.jitter.uniform(0.9, 1.1))

    async def reconcile(self) -> None:
        """Compare what is written with what is so, and write where they differ. Raises KubeError."""
        known = self.gpus.value
        on_node = OnNode(self.client, known.node)
        node = await on_node.read_node()
        if not await self.client.serves(NODE_FEATURES):
            await self._settle(known, on_node, node.ours(), node.ours())
            return
        in_feature = InNodeFeature(self.client, known.node, node.metadata.uid, self.namespace)
        written = await in_feature.read()
        before = {**node.ours(), **written}
        if node.ours():
            await on_node.write({})
        await self._settle(known, in_feature, written, before)

    async def _settle(
        self, known: NodeGpus, place: OnNode | InNodeFeature, written: Labels, before: Labels
    ) -> None:
        """Write what is wanted where it is not ``written`` already; ``before`` is what was so anywhere."""
        wanted = self._wanted(known, before)
        if wanted == {name: value for name, value in written.items() if name != TIMESTAMP}:
            return
        if self._options.timestamp and any(name.startswith(PREFIXES[Vendor.NVIDIA]) for name in wanted):
            wanted[TIMESTAMP] = str(int(self.client.clock.now().timestamp()))
        await place.write(wanted)
        LOG.info("the node's labels are written", extra={"node": known.node, "labels": len(wanted)})

    def _wanted(self, known: NodeGpus, before: Labels) -> Labels:
        """The labels of the vendors that answer, and those that the others had while something is wrong."""
        wanted = node_labels(known, machine_type(self._machine_file()))
        if wanted:
            # Disks of a node without GPUs are no matter of ours.
            wanted.update(self.storage())
        if not known.problems:
            return wanted
        answering = {driver.vendor for driver in known.drivers}
        silent = [
            prefix for vendor, all_of in PREFIXES.items() if vendor not in answering for prefix in all_of
        ]
        kept = {name: value for name, value in before.items() if name.startswith(tuple(silent))}
        kept.pop(TIMESTAMP, None)
        return {**kept, **wanted}

    def _machine_file(self) -> Path:
        given = self.machine_file if self.discovery.value is None else None
        return given or Path(self._options.machine_type_file)

    @property
    def _options(self) -> Discovery:
        return self.discovery.value or Discovery()

    def _tell(self, problem: str) -> None:
        if problem and problem != self.problem:
            LOG.warning("the labels of the node are not as they should be", extra={"problem": problem})
        self.problem = problem


def machine_type(file: Path) -> str:
    """The machine's type, as the file says; "" where there is none, or it cannot be read."""
    try:
        return read_beginning(file, MACHINE_LENGTH_MAX).decode("utf-8", "replace").strip()
    except (OSError, UnfitFileError):
        return ""


@asynccontextmanager
async def _changes(*topics: Topic[Any]) -> AsyncIterator[asyncio.Event]:
    """An event that is set whenever one of them has a new value."""
    changed = asyncio.Event()

    async def follow(values: AsyncIterator[Any]) -> None:
        async for _ in values:
            changed.set()

    followed = [topic.follow() for topic in topics]
    for values in followed:
        await anext(values)
    following = [asyncio.create_task(follow(values)) for values in followed]
    try:
        yield changed
    finally:
        for task in following:
            task.cancel()


async def _either(changed: asyncio.Event, limit_s: float) -> None:
    """Wait for a change, but not longer than this."""
    with suppress(TimeoutError):
        # NVIDIA's configuration may say "infinite", which no timer takes.
        async with asyncio.timeout(limit_s if math.isfinite(limit_s) else None):
            await changed.wait()
