"""The page of metrics: rendered when something changed, sent at each scrape.

``run`` follows what the other parts know and draws what changed (``gpu_pages``). A scrape adds the age of
each GPU's readings to the text that lies there, compressed where it is wanted; so it costs little, and
never waits for a driver. Readings that grow too old leave the page at the next scrape, also if no part
publishes anything any more.
"""

import asyncio
import logging
import zlib
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from gpufleet import __version__
from gpufleet.agent.exporter.amd_series import number_of_gpus
from gpufleet.agent.exporter.gpu_pages import ExporterInputs, GpuPages
from gpufleet.agent.exporter.gpu_series import AGE
from gpufleet.agent.exporter.jobs import read_jobs
from gpufleet.agent.exporter.options import ExporterOptions
from gpufleet.agent.exporter.text import CONTENT_TYPE, Family, encoded, labelled, series
from gpufleet.agent.exporter.usage import PodOf
from gpufleet.agent.state.node_state import Holders, NodeGpus, NodePods, Readings
from gpufleet.agent.state.topic import Topic
from gpufleet.daemon.http_server import Page
from gpufleet.kube.clock import Clock
from gpufleet.kube.expiry import Expiry
from gpufleet.model.identifiers import DeviceId

LOG = logging.getLogger(__name__)

SETTLE_S = 0.5
"""How long after a change to wait for others that come with it, such as the next GPU's reading."""

# Shorter than the 15 s between two scrapes that the chart sets.
JOBS_EVERY_S = 10.0
# 16 more asks zlib for gzip's head and tail.
_GZIP_BITS = 16 + zlib.MAX_WBITS
# The fastest: a page of metrics repeats itself so much that higher levels gain little.
_GZIP_LEVEL = 1

AGENT_INFO = Family("gpufleet_agent_info", "gauge", "The agent's version.")
PROBLEMS = Family("gpufleet_agent_problems", "gauge", "How many things keep the agent from knowing more.")
CREDENTIALS = Family(
    "gpufleet_agent_credential_expiry_timestamp_seconds",
    "gauge",
    "When a credential of the way to the API server ends, unless it is renewed.",
)
LOST = Family(
    "gpufleet_agent_lost_holders",
    "gauge",
    "Containers that run on devices of which the kubelet does not know any more.",
)
MIG_STEPS = Family(
    "gpufleet_agent_mig_steps_total",
    "counter",
    "Steps by which cards were cut into MIG instances or made whole: mode, remove, make, list.",
)
MIG_SECONDS = Family(
    "gpufleet_agent_mig_step_seconds_total", "counter", "How long these steps took together, in seconds."
)
UNTOLD = Family("gpufleet_agent_untold_gpus", "gauge", "Cards whose metrics could not be made; see the log.")


class Topics(msgspec.Struct, frozen=True):
    """What the page is made from, each kept by another part."""

    gpus: Topic[NodeGpus]
    readings: Topic[Readings]
    pods: Topic[NodePods]
    holders: Topic[Holders]


class Exporter:
    """Keeps the page. ``pod_of`` finds the pod of a process; None where processes are not read."""

    def __init__(
        self,
        topics: Topics,
        clock: Clock,
        options: ExporterOptions | None = None,
        *,
        pod_of: PodOf | None = None,
        expiries: Callable[[], tuple[Expiry, ...]] = tuple,
        mig_steps: Callable[[], Mapping[str, tuple[int, float]]] = dict,
    ) -> None:
        self._topics = topics
        self._options = options or ExporterOptions()
        self._clock = clock
        self._expiries = expiries
        self._mig_steps = mig_steps
        self._pictures = GpuPages(self._options, pod_of)
        self._text = b""
        self._stale_at_s: float | None = None
        self._answered_at_s: dict[DeviceId, float] = {}
        self._packed = b""
        self._packer: Any = None
        self._gzip_wanted = False
        self._changed = asyncio.Event()
        self.drawn = False
        """Whether there is a page."""

    async def run(self) -> None:
        """Draw what changed, until cancelled."""
        topics = self._topics
        async with asyncio.TaskGroup() as group:
            for topic in (topics.gpus, topics.readings, topics.pods, topics.holders):
                group.create_task(self._follow(topic))
            if self._options.job_folder is not None:
                group.create_task(self._look_for_jobs())
            while True:
                await self._changed.wait()
                await self._clock.sleep(SETTLE_S)
                self._changed.clear()
                self.draw_anyway()

    def page(self, gzipped: bool) -> Page:
        """What a scrape gets now."""
        if not self.drawn or (self._stale_at_s is not None and self._clock.monotonic_s() >= self._stale_at_s):
            self.draw()
        ages = encoded(self._ages())
        if not gzipped:
            return Page((self._text, ages), CONTENT_TYPE)
        self._gzip_wanted = True
        if self._packer is None:
            self._pack()
        end = self._packer.copy()
        return Page((self._packed, end.compress(ages) + end.flush()), CONTENT_TYPE, gzipped=True)

    def draw(self) -> None:
        """Make the page anew from what is known now."""
        topics, folder = self._topics, self._options.job_folder
        known = ExporterInputs(
            topics.gpus.value,
            topics.readings.value,
            topics.pods.value,
            topics.holders.value,
            self._clock.monotonic_s(),
            {} if folder is None else read_jobs(folder),
        )
        pictures = self._pictures
        pictures.draw(known)
        families = ((family, pictures.lines(family)) for family in pictures.families)
        text = "".join(family.header + lines for family, lines in families if lines)
        self._text = encoded(text + self._of_agent(known))
        self._stale_at_s = pictures.stale_at_s()
        self._packer = None
        if self._gzip_wanted:
            self._pack()
            self._gzip_wanted = False
        self._ages()  # remembers which GPUs answered, also between scrapes
        self.drawn = True

    def draw_anyway(self) -> None:
        """Draw; a fault of ours leaves the page as it is, which its readings' age tells."""
        try:
            self.draw()
        except Exception:
            LOG.exception("the page of metrics cannot be made")

    def _pack(self) -> None:
        """Compress all but the ages, so that they can be put behind it."""
        packer = zlib.compressobj(_GZIP_LEVEL, zlib.DEFLATED, _GZIP_BITS)
        self._packed = packer.compress(self._text) + packer.flush(zlib.Z_SYNC_FLUSH)
        self._packer = packer

    def _of_credentials(self, node: str) -> str:
        lines = [
            series(
                CREDENTIALS.name,
                labelled([("node", node), ("credential", one.credential)]),
                round(one.ends_s),
            )
            for one in self._expiries()
        ]
        return CREDENTIALS.header + "".join(lines) if lines else ""

    def _of_mig_steps(self, node: str) -> str:
        counted = [
            (labelled([("node", node), ("step", step)]), many, took_s)
            for step, (many, took_s) in self._mig_steps().items()
        ]
        if not counted:
            return ""
        steps = "".join(series(MIG_STEPS.name, labels, many) for labels, many, _ in counted)
        took = "".join(series(MIG_SECONDS.name, labels, round(took_s, 3)) for labels, _, took_s in counted)
        return f"{MIG_STEPS.header}{steps}{MIG_SECONDS.header}{took}"

    def _of_agent(self, known: ExporterInputs) -> str:
        labels = labelled([("node", known.gpus.node)])
        info = labelled([("node", known.gpus.node), ("version", __version__)])
        return number_of_gpus(known.gpus.node, known.gpus.gpus) + (
            f"{AGENT_INFO.header}{series(AGENT_INFO.name, info, 1)}"
            f"{PROBLEMS.header}{series(PROBLEMS.name, labels, len(known.gpus.problems))}"
            f"{LOST.header}{series(LOST.name, labels, len([one for one in known.holders if one.lost]))}"
            f"{UNTOLD.header}{series(UNTOLD.name, labels, len(self._pictures.failed))}"
            f"{self._of_credentials(known.gpus.node)}"
            f"{self._of_mig_steps(known.gpus.node)}"
        )

    def _ages(self) -> str:
        """How long ago each GPU answered, also where its readings are too old to be shown."""
        now_s, gpus, readings = (
            self._clock.monotonic_s(),
            self._topics.gpus.value,
            self._topics.readings.value,
        )
        told: dict[DeviceId, float] = {}
        lines = []
        for gpu in gpus.gpus:
            reading = readings.get(gpu.uuid)
            sample = None if reading is None else reading.sample
            at_s = self._answered_at_s.get(gpu.uuid) if sample is None else sample.at_s
            if at_s is not None:
                told[gpu.uuid] = at_s
                labels = [("node", gpus.node), ("gpu", str(gpu.facts.index)), ("uuid", str(gpu.uuid))]
                lines.append(series(AGE.name, labelled(labels), round(max(0.0, now_s - at_s), 3)))
        # Readings of a GPU that is silent for long are taken back; that it is silent is told on.
        self._answered_at_s = told
        return AGE.header + "".join(lines) if lines else ""

    async def _follow(self, topic: Topic[Any]) -> None:
        async for _ in topic.follow():
            self._changed.set()

    async def _look_for_jobs(self) -> None:
        """Jobs come and go without a notification, so their folder is read now and then."""
        while True:
            await self._clock.sleep(JOBS_EVERY_S)
            self._changed.set()
