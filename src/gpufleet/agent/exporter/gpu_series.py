"""The series of every GPU under our own names, for GPUs of all vendors.

Names follow Prometheus' conventions: base units, ``_total`` for what only grows, ``_info`` for facts. What
is not told is absent; the age of the readings and the GPU's health stay, so that a gap has its reason
beside it.
"""

from collections import Counter
from collections.abc import Iterator, Mapping

from gpufleet.agent.exporter.energy import EnergyCounters
from gpufleet.agent.exporter.gpu_snapshot import GpuSnapshot
from gpufleet.agent.exporter.text import Family, Value, labelled, series
from gpufleet.agent.exporter.usage import busy_ratio
from gpufleet.agent.gpus.health_reason import reason_class
from gpufleet.agent.holders.held_parts import MODE_NAMES
from gpufleet.devices.facts import MigFacts
from gpufleet.devices.health import Verdict
from gpufleet.devices.sample import Sample
from gpufleet.devices.xid import XidAction, xid
from gpufleet.model.gpu_catalogue import Vendor

# Prometheus' own series are in base units.
MIB = 1 << 20
NANOSECONDS = 1_000_000_000

INFO = Family("gpufleet_gpu_info", "gauge", "What the card is and how it is offered.")
HEALTHY = Family(
    "gpufleet_gpu_healthy",
    "gauge",
    "1 for a card in service, 0 for one that is out; absent if unknown.",
)
HEALTH_INFO = Family(
    "gpufleet_gpu_health_info",
    "gauge",
    "Health of the card, and of MIG instances out of service by themselves, with the kind of reason.",
)
XIDS = Family(
    "gpufleet_gpu_xid_errors_total",
    "counter",
    "How often the driver reported each Xid since the agent began.",
)
XID_EVENTS = Family(
    "gpufleet_gpu_xid_events_total",
    "counter",
    "Xids since the agent began, by what follows from them (class); 0 of each class from the beginning.",
)
THROTTLED = Family(
    "gpufleet_gpu_throttle_seconds_total",
    "counter",
    "Time with lowered clocks since the driver was loaded, by reason.",
)
SLOWDOWN = Family(
    "gpufleet_gpu_slowdown_celsius",
    "gauge",
    "Temperature of the chip from which on the hardware lowers the clocks.",
)
UNCORRECTED = Family(
    "gpufleet_gpu_uncorrected_errors_total",
    "counter",
    "Errors of memory that could not be corrected, since the driver was loaded or the card was reset.",
)
REMAP_PENDING = Family(
    "gpufleet_gpu_row_remap_pending",
    "gauge",
    "1 where a row of memory will be replaced at the next reset.",
)
REMAP_FAILED = Family(
    "gpufleet_gpu_row_remap_failed",
    "gauge",
    "1 where a broken row of memory could not be replaced.",
)
LINK_ERRORS = Family(
    "gpufleet_gpu_nvlink_errors_total",
    "counter",
    "Errors of NVLink over all links of the card since the driver was loaded, by kind.",
)
PCIE_REPLAYS = Family(
    "gpufleet_gpu_pcie_replays_total",
    "counter",
    "Packets of PCI Express that had to be sent again, since the driver was loaded.",
)
PCIE_WIDTH = Family(
    "gpufleet_gpu_pcie_link_width",
    "gauge",
    "Lanes of PCI Express in use; some cards use fewer while they idle.",
)
ATTRIBUTION = Family(
    "gpufleet_gpu_attribution_info",
    "gauge",
    "From what the figures of pods on the card or instance follow: device, process, slices or none.",
)
BUSY = Family("gpufleet_gpu_busy_ratio", "gauge", "Part of the time in which the card computed, 0 to 1.")
MEMORY = Family("gpufleet_gpu_memory_bytes", "gauge", "Device memory.")
MEMORY_USED = Family("gpufleet_gpu_memory_used_bytes", "gauge", "Device memory that programs use.")
POWER = Family("gpufleet_gpu_power_watts", "gauge", "Power that the card draws.")
TEMPERATURE = Family("gpufleet_gpu_temperature_celsius", "gauge", "Temperature of the chip.")
ENERGY = Family("gpufleet_gpu_energy_joules_total", "counter", "Energy drawn since the driver was loaded.")
UNATTRIBUTED_ENERGY = Family(
    "gpufleet_gpu_energy_unattributed_joules_total",
    "counter",
    "Energy since the agent began that is no pod's; with that of its pods it is what the card drew.",
)
FAMILIES = (
    INFO,
    HEALTHY,
    HEALTH_INFO,
    XIDS,
    XID_EVENTS,
    ATTRIBUTION,
    BUSY,
    MEMORY,
    MEMORY_USED,
    POWER,
    TEMPERATURE,
    ENERGY,
    UNATTRIBUTED_ENERGY,
    THROTTLED,
    SLOWDOWN,
    UNCORRECTED,
    REMAP_PENDING,
    REMAP_FAILED,
    LINK_ERRORS,
    PCIE_REPLAYS,
    PCIE_WIDTH,
)
AGE = Family(
    "gpufleet_gpu_sample_age_seconds", "gauge", "Time since the card last answered; its readings are so old."
)
"""Written anew at every scrape, so not among those of a picture."""

Pairs = list[tuple[str, str]]


def lines(snapshot: GpuSnapshot, energy: EnergyCounters) -> dict[str, str]:
    """The series of a GPU, by the name of their family."""
    labels = labelled(device_labels(snapshot))
    return {
        INFO.name: series(INFO.name, labelled(_info(snapshot)), 1),
        HEALTHY.name: series(HEALTHY.name, labels, _healthy(snapshot)),
        HEALTH_INFO.name: "".join(
            series(HEALTH_INFO.name, labelled(pairs), 1) for pairs in _health(snapshot)
        ),
        XIDS.name: "".join(
            series(XIDS.name, labelled([*device_labels(snapshot), ("xid", str(code))]), count)
            for code, count in sorted(snapshot.gpu.xids.items())
        ),
        XID_EVENTS.name: _by_label(snapshot, XID_EVENTS, "class", _xid_classes(snapshot)),
        ATTRIBUTION.name: "".join(
            series(ATTRIBUTION.name, labelled(pairs), 1) for pairs in _attribution(snapshot)
        ),
        **{family.name: series(family.name, labels, value) for family, value in _readings(snapshot)},
        **_errors(snapshot),
        UNATTRIBUTED_ENERGY.name: series(
            UNATTRIBUTED_ENERGY.name, labels, joules(energy.unattributed(snapshot.gpu.uuid))
        ),
    }


def device_labels(snapshot: GpuSnapshot, instance: MigFacts | None = None) -> Pairs:
    """Which GPU or instance it is."""
    facts = snapshot.gpu.facts
    pairs = [("node", snapshot.node), ("gpu", str(facts.index)), ("uuid", str(facts.uuid))]
    if instance is not None:
        pairs += [("mig_profile", instance.profile), ("mig_id", str(instance.gpu_instance))]
    return pairs


def joules(millijoules: int | None) -> Value:
    """Energy in base units."""
    return None if millijoules is None else millijoules / 1000


def _info(snapshot: GpuSnapshot) -> Pairs:
    facts, driver = snapshot.gpu.facts, snapshot.driver
    return [
        *device_labels(snapshot),
        ("vendor", facts.vendor.value),
        ("model", facts.product),
        ("pci_bus_id", facts.pci_bus_id or ""),
        ("mode", MODE_NAMES[type(snapshot.gpu.plan.mode)]),
        ("driver_version", "" if driver is None else driver.version),
    ]


def _healthy(snapshot: GpuSnapshot) -> Value:
    return None if snapshot.gpu.health is Verdict.UNKNOWN else int(snapshot.gpu.health is Verdict.HEALTHY)


def _health(snapshot: GpuSnapshot) -> Iterator[Pairs]:
    gpu = snapshot.gpu
    reason = reason_class(gpu.health, gpu.reason)
    yield [*device_labels(snapshot), ("state", gpu.health.value), ("reason", reason)]
    for uuid, why in sorted(gpu.sick_instances.items()):
        instance = gpu.instance(uuid)
        if instance is not None:
            sick = Verdict.UNHEALTHY
            state = [("state", sick.value), ("reason", reason_class(sick, why))]
            yield [*device_labels(snapshot, instance), *state]


def _xid_classes(snapshot: GpuSnapshot) -> dict[str, int]:
    """Xids by class. ``increase`` sees the first one only where the class stood at 0 before."""
    if snapshot.gpu.facts.vendor is not Vendor.NVIDIA:
        return {}
    counts: Counter[str] = Counter()
    for code, count in snapshot.gpu.xids.items():
        counts[xid(code).action.value] += count
    return {action.value: counts[action.value] for action in XidAction}


def _by_label(snapshot: GpuSnapshot, family: Family, label: str, values: Mapping[str, Value]) -> str:
    """One series for each value of a label."""
    pairs = device_labels(snapshot)
    return "".join(
        series(family.name, labelled([*pairs, (label, name)]), value) for name, value in values.items()
    )


def _errors(snapshot: GpuSnapshot) -> dict[str, str]:
    """Slower clocks, errors of memory and errors of links."""
    sample = snapshot.sample
    if sample is None:
        return {}
    labels = labelled(device_labels(snapshot))
    throttled_s = {
        reason.value: nanoseconds / NANOSECONDS for reason, nanoseconds in sample.throttled_ns.items()
    }
    link_errors = {kind.value: count for kind, count in sample.nvlink_errors.items()}
    return {
        THROTTLED.name: _by_label(snapshot, THROTTLED, "reason", throttled_s),
        LINK_ERRORS.name: _by_label(snapshot, LINK_ERRORS, "kind", link_errors),
        **{family.name: series(family.name, labels, value) for family, value in _single_errors(sample)},
    }


def _single_errors(sample: Sample) -> list[tuple[Family, Value]]:
    remaps = sample.remaps
    return [
        (SLOWDOWN, sample.slowdown_celsius),
        (UNCORRECTED, sample.uncorrected_errors),
        (REMAP_PENDING, remaps.pending),
        (REMAP_FAILED, remaps.failed),
        (PCIE_REPLAYS, sample.pcie_replays),
        (PCIE_WIDTH, sample.pcie_width),
    ]


def _attribution(snapshot: GpuSnapshot) -> Iterator[Pairs]:
    for use in snapshot.uses:
        yield [
            *device_labels(snapshot, use.instance),
            ("memory", use.memory.value),
            ("compute", use.compute.value),
            ("energy", use.energy.value),
        ]


def _readings(snapshot: GpuSnapshot) -> list[tuple[Family, Value]]:
    total_mib = snapshot.gpu.facts.memory_mib
    found: list[tuple[Family, Value]] = [(MEMORY, None if total_mib is None else total_mib * MIB)]
    sample = snapshot.sample
    if sample is None:
        return found
    used_mib = sample.memory.used_mib
    return [
        *found,
        (BUSY, busy_ratio(sample)),
        (MEMORY_USED, None if used_mib is None else used_mib * MIB),
        (POWER, sample.power_w),
        (TEMPERATURE, sample.gpu_celsius),
        (ENERGY, joules(sample.energy_mj)),
    ]
