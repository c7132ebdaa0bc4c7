"""The series of every GPU under our own names, for GPUs of all vendors.

Names follow Prometheus' conventions: base units, ``_total`` for what only grows, ``_info`` for facts. What
is not told is absent; the age of the readings and the GPU's health stay, so that a gap has its reason
beside it.
"""

from collections.abc import Iterator

from gpufleet.agent.exporter.energy import EnergyBook
from gpufleet.agent.exporter.gpu_snapshot import GpuSnapshot
from gpufleet.agent.exporter.text import Family, Value, labelled, series
from gpufleet.agent.exporter.usage import busy_ratio
from gpufleet.agent.gpus.health_reason import reason_class
from gpufleet.agent.holders.holdings import MODE_NAMES
from gpufleet.devices.facts import MigFacts
from gpufleet.devices.health import Verdict

# Prometheus' own series are in base units.
MIB = 1 << 20

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
    ATTRIBUTION,
    BUSY,
    MEMORY,
    MEMORY_USED,
    POWER,
    TEMPERATURE,
    ENERGY,
    UNATTRIBUTED_ENERGY,
)
AGE = Family(
    "gpufleet_gpu_sample_age_seconds", "gauge", "Time since the card last answered; its readings are so old."
)
"""Written anew at every scrape, so not among those of a picture."""

Pairs = list[tuple[str, str]]


def lines(snapshot: GpuSnapshot, energy: EnergyBook) -> dict[str, str]:
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
        ATTRIBUTION.name: "".join(
            series(ATTRIBUTION.name, labelled(pairs), 1) for pairs in _attribution(snapshot)
        ),
        **{family.name: series(family.name, labels, value) for family, value in _readings(snapshot)},
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
