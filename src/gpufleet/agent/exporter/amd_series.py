"""The series of AMD's GPUs under the names of AMD's own exporter.

Names, units and labels are those of ROCm's device-metrics-exporter: its fields in small letters, all of
them gauges, also those that only grow. Which of two names a reading has depends on the generation, as it
does there: MI200 GPUs tell the temperature of their edge and average power, MI300 GPUs and newer that
of their hottest spot and present power. A GPU that is cut into partitions tells of itself as partition 0.
"""

import re
from collections.abc import Callable, Sequence

import msgspec

from gpufleet.agent.exporter.gpu_snapshot import GpuSnapshot
from gpufleet.agent.exporter.text import Family, Value, labelled, series
from gpufleet.agent.state.node_state import Gpu
from gpufleet.devices.health import Verdict
from gpufleet.devices.sample import Sample
from gpufleet.model.gpu_catalogue import Vendor

_MI300_AND_NEWER = re.compile(r"MI[3-9]\d\d")


class AmdMetric(msgspec.Struct, frozen=True):
    """One metric; ``labels`` it has beside the common ones."""

    family: Family
    value: Callable[[Gpu, Sample], Value]
    labels: tuple[tuple[str, str], ...] = ()


def _metric(name: str, meaning: str, value: Callable[[Gpu, Sample], Value], **labels: str) -> AmdMetric:
    return AmdMetric(Family(name, "gauge", meaning), value, tuple(labels.items()))


def _is_new(gpu: Gpu) -> bool:
    return _MI300_AND_NEWER.search(gpu.facts.product) is not None


def _health(gpu: Gpu, _: Sample) -> Value:
    return None if gpu.health is Verdict.UNKNOWN else int(gpu.health is Verdict.HEALTHY)


def _microjoules(_: Gpu, sample: Sample) -> Value:
    return None if sample.energy_mj is None else sample.energy_mj * 1000


METRICS: tuple[AmdMetric, ...] = (
    _metric("gpu_power_usage", "Power that the card draws, in watts.", lambda _, sample: sample.power_w),
    _metric(
        "gpu_package_power",
        "Power that the package draws now, in watts (MI300 and newer).",
        lambda gpu, sample: sample.power_w if _is_new(gpu) else None,
    ),
    _metric(
        "gpu_average_package_power",
        "Power that the package draws on average, in watts (before MI300).",
        lambda gpu, sample: None if _is_new(gpu) else sample.power_w,
    ),
    _metric(
        "gpu_junction_temperature",
        "Temperature of the hottest spot, in degrees Celsius (MI300 and newer).",
        lambda gpu, sample: sample.gpu_celsius if _is_new(gpu) else None,
    ),
    _metric(
        "gpu_edge_temperature",
        "Temperature at the edge of the chip, in degrees Celsius (before MI300).",
        lambda gpu, sample: None if _is_new(gpu) else sample.gpu_celsius,
    ),
    _metric(
        "gpu_memory_temperature",
        "Temperature of the memory, in degrees Celsius.",
        lambda _, sample: sample.memory_celsius,
    ),
    _metric(
        "gpu_gfx_activity",
        "Use of the compute and graphics engine, in percent.",
        lambda _, sample: sample.gpu_busy_pct,
    ),
    _metric(
        "gpu_umc_activity",
        "Use of the memory's controllers, in percent.",
        lambda _, sample: sample.memory_busy_pct,
    ),
    _metric("gpu_energy_consumed", "Energy drawn since the driver was loaded, in microjoules.", _microjoules),
    _metric(
        "gpu_clock",
        "Clock of a part of the card, in MHz.",
        lambda _, sample: sample.sm_clock_mhz,
        clock_type="system",
    ),
    _metric(
        "gpu_clock",
        "Clock of a part of the card, in MHz.",
        lambda _, sample: sample.memory_clock_mhz,
        clock_type="memory",
    ),
    _metric("gpu_total_vram", "Device memory, in MB of 2^20 bytes.", lambda gpu, _: gpu.facts.memory_mib),
    _metric(
        "gpu_used_vram",
        "Device memory that programs use, in MB of 2^20 bytes.",
        lambda _, sample: sample.memory.used_mib,
    ),
    _metric(
        "gpu_free_vram",
        "Device memory that is free, in MB of 2^20 bytes.",
        lambda _, sample: sample.memory.free_mib,
    ),
    _metric(
        "pcie_replay_count",
        "Packets on PCI Express that had to be sent again.",
        lambda _, sample: sample.pcie_replays,
    ),
    _metric(
        "gpu_ecc_uncorrect_total",
        "Memory errors that could not be corrected.",
        lambda _, sample: sample.uncorrected_errors,
    ),
    _metric("gpu_health", "1 for a healthy card, 0 for one that is not.", _health),
)

CARDS = Family("gpu_nodes_total", "gauge", "How many of AMD's cards the node has.")

FAMILIES = tuple({metric.family.name: metric.family for metric in METRICS}.values())


def lines(snapshot: GpuSnapshot) -> dict[str, str]:
    """The series of a GPU, by the name of their family."""
    if snapshot.sample is None:
        return {}
    found: dict[str, str] = {}
    jobs = snapshot.jobs_of(None) or ("",)
    common = _labels(snapshot)
    for metric in METRICS:
        value = metric.value(snapshot.gpu, snapshot.sample)
        for job in jobs:
            labels = labelled(sorted([*metric.labels, *common, ("job_id", job)]))
            text = series(metric.family.name, labels, value)
            if text:
                found[metric.family.name] = found.get(metric.family.name, "") + text
    return found


def number_of_gpus(node: str, gpus: Sequence[Gpu]) -> str:
    """How many there are, under the name that it has there; nothing on a node without one."""
    count = sum(gpu.facts.vendor is Vendor.AMD for gpu in gpus)
    line = series(CARDS.name, labelled([("hostname", node)]), count)
    return CARDS.header + line if count else ""


def _labels(snapshot: GpuSnapshot) -> list[tuple[str, str]]:
    """What stands on every series: the GPU, and its holder if one pod has it alone."""
    facts = snapshot.gpu.facts
    compute, memory = _partition_types(snapshot)
    pairs = [
        ("card_model", facts.product),
        ("gpu_compute_partition_type", compute),
        ("gpu_id", str(facts.index)),
        ("gpu_memory_partition_type", memory),
        ("gpu_partition_id", "0"),
        ("hostname", snapshot.node),
        ("serial_number", facts.serial or ""),
    ]
    held = snapshot.held_of(None)
    if held and len({one.pod for one in held}) == 1:
        who = held[-1]
        pairs += [
            ("container", who.container),
            ("namespace", who.pod.namespace),
            ("pod", who.pod.name),
            *snapshot.pod_labels.get(who.pod, ()),
        ]
    return pairs


def _partition_types(snapshot: GpuSnapshot) -> tuple[str, str]:
    """How the GPU is cut: its compute and its memory, as far as its facts tell."""
    facts = snapshot.gpu.facts
    if facts.mig:
        compute, _, memory = facts.mig[0].profile.partition("_")
        return compute, memory
    return ("spx" if facts.mig_enabled is False else ""), ""
