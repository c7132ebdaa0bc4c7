"""The text of each GPU, made anew only where something about the GPU changed.

A reading of one GPU makes one GPU's series anew; the others' lie there as text. A GPU whose series
cannot be made (a fault of ours) is left out and counted, and harms no other GPU.
"""

import logging

import msgspec

from gpufleet.agent.exporter import amd_series, gpu_series, pod_series
from gpufleet.agent.exporter.dcgm_series import DcgmSeries
from gpufleet.agent.exporter.energy import Account, EnergyCounters
from gpufleet.agent.exporter.exporter_counters import ExporterCounter
from gpufleet.agent.exporter.gpu_events import NO_EVENTS, EventCounters, GpuEvents
from gpufleet.agent.exporter.gpu_snapshot import GpuSnapshot
from gpufleet.agent.exporter.jobs import Jobs
from gpufleet.agent.exporter.options import ExporterOptions, pod_label_names
from gpufleet.agent.exporter.text import Family
from gpufleet.agent.exporter.usage import PodOf, gpu_use
from gpufleet.agent.holders.held_parts import HeldPart, HeldParts, PodName, held_parts
from gpufleet.agent.state.node_state import Gpu, GpuReading, Holders, NodeGpus, NodePods, Readings
from gpufleet.devices.facts import Driver
from gpufleet.model.gpu_catalogue import Vendor
from gpufleet.model.identifiers import DeviceId

LOG = logging.getLogger(__name__)


class ExporterInputs(msgspec.Struct, frozen=True):
    """What the other parts know at one moment, and when that is on the monotonic clock."""

    gpus: NodeGpus
    readings: Readings
    pods: NodePods
    holders: Holders
    now_s: float
    jobs: Jobs = {}


class _Drawn(msgspec.Struct):
    """A GPU's text, and what it was made from."""

    picture: GpuSnapshot
    text: dict[str, str]


class GpuPages:
    """The texts of all GPUs, and the energy accounts of their pods."""

    def __init__(self, options: ExporterOptions, pod_of: PodOf | None) -> None:
        self._options = options
        self._pod_of = pod_of
        self._labels = pod_label_names(options.pod_labels)
        self._dcgm = DcgmSeries(options)
        self._energy = EnergyCounters()
        wanted = (chosen.counter for chosen in options.counters.counters)
        self._events = EventCounters() if any(isinstance(one, ExporterCounter) for one in wanted) else None
        self._drawn: dict[DeviceId, _Drawn] = {}
        self._held_parts: HeldParts = {}
        self._held_from: tuple[NodeGpus, NodePods, Holders] | None = None
        self.families: tuple[Family, ...] = (
            *self._dcgm.families,
            *amd_series.FAMILIES,
            *gpu_series.FAMILIES,
            *pod_series.FAMILIES,
        )
        self.failed: set[DeviceId] = set()
        """Cards whose series could not be made."""

    def draw(self, known: ExporterInputs) -> None:
        """Make anew what changed."""
        held = self._held(known)
        drivers = {driver.vendor: driver for driver in known.gpus.drivers}
        here = {gpu.uuid for gpu in known.gpus.gpus}
        self._drawn = {uuid: drawn for uuid, drawn in self._drawn.items() if uuid in here}
        self._energy.forget_gpus(here)
        if self._events is not None:
            self._events.forget_gpus(here)
        for gpu in known.gpus.gpus:
            try:
                self._draw_gpu(gpu, drivers.get(gpu.facts.vendor), held.get(gpu.uuid, ()), known)
                self.failed.discard(gpu.uuid)
            except Exception:  # whatever it is, the other GPUs are told of
                if gpu.uuid not in self.failed:
                    LOG.exception("the metrics of a GPU cannot be made", extra={"gpu": gpu.uuid})
                self.failed.add(gpu.uuid)
                self._drawn.pop(gpu.uuid, None)

    def lines(self, family: Family) -> str:
        """The series of a family, GPU by GPU."""
        return "".join(drawn.text.get(family.name, "") for drawn in self._drawn.values())

    def stale_at_s(self) -> float | None:
        """When the next fresh reading or event will be too old; None where none is fresh."""
        samples = [drawn.picture.sample for drawn in self._drawn.values()]
        ends = [sample.at_s + self._options.stale_after_s for sample in samples if sample is not None]
        event_end = None if self._events is None else self._events.stale_at_s()
        return min([*ends, *([] if event_end is None else [event_end])], default=None)

    def _held(self, known: ExporterInputs) -> HeldParts:
        """What is held; worked out anew only where one of what it follows from is another."""
        now = (known.gpus, known.pods, known.holders)
        if self._held_from is None or any(
            new is not old for new, old in zip(now, self._held_from, strict=True)
        ):
            self._held_parts = held_parts(*now)
            self._held_from = now
        return self._held_parts

    def _draw_gpu(
        self, gpu: Gpu, driver: Driver | None, held: tuple[HeldPart, ...], known: ExporterInputs
    ) -> None:
        reading = self._fresh(known.readings.get(gpu.uuid), known.now_s)
        picture = GpuSnapshot(
            known.gpus.node,
            gpu,
            driver,
            reading,
            held,
            jobs=_jobs_of(gpu, known.jobs),
            events=self._events_of(gpu, reading, known.now_s),
            pod_labels=self._pod_labels(held, known.pods),
        )
        drawn = self._drawn.get(gpu.uuid)
        if drawn is not None and drawn.picture == picture:
            return
        uses = gpu_use(gpu, picture.reading, held, self._pod_of)
        whole = msgspec.structs.replace(picture, uses=uses)
        # Before the text is made, which tells of the energy up to this reading.
        self._book(whole)
        text = {
            **self._of_vendor(whole),
            **gpu_series.lines(whole, self._energy),
            **pod_series.lines(whole, self._energy, self._options),
        }
        self._drawn[gpu.uuid] = _Drawn(picture, {name: lines for name, lines in text.items() if lines})

    def _events_of(self, gpu: Gpu, reading: GpuReading | None, now_s: float) -> GpuEvents:
        if self._events is None:
            return NO_EVENTS
        return self._events.book(gpu.uuid, gpu.xids, None if reading is None else reading.sample, now_s)

    def _of_vendor(self, picture: GpuSnapshot) -> dict[str, str]:
        match picture.gpu.facts.vendor:
            case Vendor.NVIDIA:
                return self._dcgm.lines(picture)
            case Vendor.AMD:
                return amd_series.lines(picture)
            case _:
                return {}

    def _book(self, picture: GpuSnapshot) -> None:
        """Divide what the GPU drew since the last time."""
        parts: dict[Account, float] = {}
        accounts = set()
        for device in picture.uses:
            for use in device.pods:
                account = Account(use.pod, None if device.instance is None else device.instance.uuid)
                accounts.add(account)
                if use.energy_ratio is not None:
                    parts[account] = use.energy_ratio
        gpu = picture.gpu.uuid
        if picture.sample is not None:
            self._energy.book(gpu, picture.sample.energy_mj, parts)
        self._energy.keep(gpu, accounts)

    def _fresh(self, reading: GpuReading | None, now_s: float) -> GpuReading | None:
        if reading is None or reading.sample is None:
            return None
        return reading if now_s - reading.sample.at_s < self._options.stale_after_s else None

    def _pod_labels(
        self, held: tuple[HeldPart, ...], pods: NodePods
    ) -> dict[PodName, tuple[tuple[str, str], ...]]:
        found = {}
        for name in {one.pod for one in held} if self._labels else ():
            labels = pods[name.uid].labels if name.uid in pods else {}
            found[name] = tuple(
                (label, labels[key]) for key, label in self._labels.items() if labels.get(key)
            )
        return found


def _jobs_of(gpu: Gpu, jobs: Jobs) -> Jobs:
    index = str(gpu.facts.index)
    return {name: own for name, own in jobs.items() if name.partition(".")[0] == index}
