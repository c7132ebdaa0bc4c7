"""The series of NVIDIA's GPUs under DCGM's names, labelled as dcgm-exporter labels them.

What a cut GPU's instances tell is told by instance, all else of the GPU; never both under one name, so
that a sum over a name is right. The order of labels is dcgm-exporter's: first the device, then the node,
then values that DCGM's fields of type label give and labels of pods, then the holder.
"""

from collections.abc import Iterable, Iterator, Sequence

import msgspec

from gpufleet.agent.exporter.counters import Counter, Reading
from gpufleet.agent.exporter.exporter_counters import ExporterCounter
from gpufleet.agent.exporter.gpu_snapshot import GpuSnapshot
from gpufleet.agent.exporter.options import ExporterOptions
from gpufleet.agent.exporter.text import Family, Value, labelled, series
from gpufleet.agent.exporter.usage import PodUse
from gpufleet.agent.holders.held_parts import HeldPart
from gpufleet.devices.facts import MigFacts
from gpufleet.devices.sample import Sample
from gpufleet.devices.xid import xid

XID = "DCGM_FI_DEV_XID_ERRORS"
NO_XID = "none seen"
# A sample without a value, so that its series are absent.
NO_SAMPLE = Sample(0.0)
Pairs = list[tuple[str, str]]

BY_POD = {"DCGM_FI_DEV_GPU_UTIL", "DCGM_FI_DEV_FB_USED"}
"""What is told of a pod by itself where processes on a shared GPU are seen."""


class _Line(msgspec.Struct):
    """The labels of one series of a device, and what its pod uses of a shared one."""

    device: Pairs
    holder: Pairs
    use: PodUse | None
    text: str


class DcgmSeries:
    """Writes the series of one GPU after the other."""

    def __init__(self, options: ExporterOptions) -> None:
        self._options = options
        self.families = [chosen.family for chosen in options.counters.counters]

    def lines(self, snapshot: GpuSnapshot) -> dict[str, str]:
        """The series of a GPU, by the name of their family."""
        # A GPU that fell silent still has its last Xid, which is often the reason.
        readings = [
            Reading(snapshot.gpu, snapshot.sample or NO_SAMPLE, events=snapshot.events),
            *_instances(snapshot),
        ]
        lines = [self._lines_of(snapshot, reading.instance) for reading in readings]
        found: dict[str, str] = {}
        for chosen in self._options.counters.counters:
            if isinstance(chosen.counter, ExporterCounter):
                # dcgm-exporter counts these of GPUs alone.
                text = _parts(chosen.family, chosen.counter, readings[0], lines[0])
            else:
                text = _readings(chosen.family, chosen.counter, zip(readings, lines, strict=True))
            if text:
                found[chosen.family.name] = text
        return found

    def _lines_of(self, snapshot: GpuSnapshot, instance: MigFacts | None) -> list[_Line]:
        device = self._device_labels(snapshot, instance)
        held = snapshot.held_of(None if instance is None else instance.uuid)
        jobs = snapshot.jobs_of(None if instance is None else instance.gpu_instance) or ("",)
        found = []
        for part in self._holders(held):
            brought, who = self._holder_labels(snapshot, part)
            before = [*device, *brought]
            for job in jobs:
                holder = sorted([*who, ("hpc_job", job)])
                text = labelled([*before, *holder])
                found.append(_Line(before, holder, _use_of_shared(snapshot, part), text))
        return found

    def _holders(self, held: Sequence[HeldPart]) -> Sequence[HeldPart | None]:
        """The holders for which a device has series: each one, or only a holder that has it alone."""
        if not held:
            return (None,)
        if self._options.virtual_gpus:
            return list({(one.pod, one.container, one.replica): one for one in held}.values())
        return (held[-1],) if len({one.pod for one in held}) == 1 else (None,)

    def _device_labels(self, snapshot: GpuSnapshot, instance: MigFacts | None) -> Pairs:
        options, facts = self._options, snapshot.gpu.facts
        product = "-".join(facts.product.split()) if options.replace_blanks else facts.product
        pairs = [
            ("gpu", str(facts.index)),
            ("uuid" if options.old_names else "UUID", facts.uuid),
            ("pci_bus_id", facts.pci_bus_id or ""),
            ("device", f"nvidia{facts.index}"),
            ("modelName", product),
        ]
        if instance is not None:
            pairs += [("GPU_I_PROFILE", instance.profile), ("GPU_I_ID", str(instance.gpu_instance))]
        if options.hostname_label:
            pairs.append((options.hostname_label, snapshot.node))
        labels = (
            (one.name, one.value(snapshot.gpu, snapshot.driver) or "") for one in options.counters.labels
        )
        return [*pairs, *sorted(labels)]

    def _holder_labels(self, snapshot: GpuSnapshot, part: HeldPart | None) -> tuple[Pairs, Pairs]:
        """A pod's own labels, and its name."""
        if part is None:
            return [], []
        names = ("container_name", "pod_namespace", "pod_name") if self._options.old_names else _NAMES
        values = (part.container, part.pod.namespace, part.pod.name)
        who = list(zip(names, values, strict=True))
        if self._options.pod_uid:
            who.append(("pod_uid", part.pod.uid))
        if self._options.virtual_gpus:
            who.append(("vgpu", part.replica))
        return sorted(snapshot.pod_labels.get(part.pod, ())), who


# As dcgm-exporter names them now; ``old_names`` has the former ones.
_NAMES = ("container", "namespace", "pod")


def _use_of_shared(snapshot: GpuSnapshot, part: HeldPart | None) -> PodUse | None:
    return None if part is None or not part.shared else snapshot.use(part.instance, part.pod)


def _instances(snapshot: GpuSnapshot) -> Iterator[Reading]:
    """The readings of each instance that exists."""
    samples = {} if snapshot.reading is None else snapshot.reading.instances
    for instance in snapshot.gpu.facts.mig:
        yield Reading(snapshot.gpu, samples.get(instance.uuid) or NO_SAMPLE, instance)


def _readings(family: Family, counter: Counter, told: Iterable[tuple[Reading, list[_Line]]]) -> str:
    """The series of a counter that has one of each reading."""
    found: dict[bool, list[str]] = {True: [], False: []}
    for reading, lines in told:
        value = counter.value(reading)
        if value is not None:
            found[reading.instance is not None] += [_series(family, counter, value, one) for one in lines]
    # What instances tell is theirs, and not the GPU's once more.
    return "".join(found[True] or found[False])


def _parts(family: Family, counter: ExporterCounter, reading: Reading, lines: list[_Line]) -> str:
    """The series of a counter that has several of a GPU."""
    parts = counter.parts(reading)
    return "".join(
        series(family.name, labelled([*line.device, *sorted([*line.holder, *labels])]), value)
        for line in lines
        for labels, value in parts
    )


def _series(family: Family, counter: Counter, value: Value, line: _Line) -> str:
    name = counter.name
    if name == XID and value is not None:
        told = [("err_code", str(value)), ("err_msg", xid(int(value)).meaning if value else NO_XID)]
        return series(family.name, labelled([*line.device, *sorted([*line.holder, *told])]), value)
    if line.use is not None and name in BY_POD:
        value = _of_pod(name, line.use, value)
    return series(family.name, line.text, value)


def _of_pod(name: str, use: PodUse, value: Value) -> Value:
    """A pod's own part of a shared GPU; the GPU's where the part is unknown."""
    if name == "DCGM_FI_DEV_FB_USED":
        return value if use.memory_used_mib is None else use.memory_used_mib
    return value if use.used_ratio is None else round(use.used_ratio * 100)
