"""DCGM's counters as data: name, type, unit, meaning, and which reading each of them shows.

Names, types and units are those of dcgm-exporter, so that dashboards and alerts go on; the words are ours.
``DEFAULT`` is what dcgm-exporter serves without a file of its own; ``SERVED`` is all that a file may ask for
(``counters_file``). A reading that a GPU does not give makes no series. DCGM's ``DCGM_FI_PROF_*`` come from
the hardware's own counters where NVML tells them (Hopper and newer), and are absent elsewhere.
"""

from collections.abc import Callable, Mapping

import msgspec

from gpufleet.agent.exporter.gpu_events import NO_EVENTS, GpuEvents
from gpufleet.agent.exporter.text import Kind, Value
from gpufleet.agent.state.node_state import Gpu
from gpufleet.devices.facts import Driver, MigFacts
from gpufleet.devices.health import Verdict
from gpufleet.devices.sample import Sample

# DCGM counts NVLink's traffic in decimal megabytes.
MEGABYTE = 1_000_000


class Reading(msgspec.Struct, frozen=True):
    """A sample of a GPU, or of its instance where there is one; ``events`` are the GPU's."""

    gpu: Gpu
    sample: Sample
    instance: MigFacts | None = None
    events: GpuEvents = NO_EVENTS


class Counter(msgspec.Struct, frozen=True):
    """One counter. ``older_name`` is what earlier releases called it."""

    name: str
    kind: Kind
    unit: str
    help: str
    value: Callable[[Reading], Value]
    older_name: str = ""


class InfoLabel(msgspec.Struct, frozen=True):
    """A "counter" of type label: it stands on every series of its GPU."""

    name: str
    help: str
    value: Callable[[Gpu, Driver | None], str | None]


def _last_xid(reading: Reading) -> Value:
    """DCGM's 0 says that no error was seen, so it is told only where errors are listened to."""
    if reading.instance is not None:
        return None
    listening = reading.gpu.health is not Verdict.UNKNOWN
    return reading.gpu.last_xid or (0 if listening else None)


def _used_part(reading: Reading) -> Value:
    memory = reading.sample.memory
    if memory.used_mib is None or memory.free_mib is None or not memory.used_mib + memory.free_mib:
        return None
    return memory.used_mib / (memory.used_mib + memory.free_mib)


def _total_mib(reading: Reading) -> Value:
    return (reading.gpu.facts if reading.instance is None else reading.instance).memory_mib


def _nvlink_megabytes(reading: Reading) -> Value:
    found = reading.sample.nvlink_bytes
    return None if found is None else found / MEGABYTE


def _clock_event_bits(reading: Reading) -> Value:
    found = reading.sample.clock_events
    return None if found is None else found.value


DEFAULT: tuple[Counter, ...] = (
    Counter(
        "DCGM_FI_DEV_SM_CLOCK",
        "gauge",
        "MHz",
        "Clock of the multiprocessors, in MHz.",
        lambda reading: reading.sample.sm_clock_mhz,
        "dcgm_sm_clock",
    ),
    Counter(
        "DCGM_FI_DEV_MEM_CLOCK",
        "gauge",
        "MHz",
        "Clock of the memory, in MHz.",
        lambda reading: reading.sample.memory_clock_mhz,
        "dcgm_memory_clock",
    ),
    Counter(
        "DCGM_FI_DEV_MEMORY_TEMP",
        "gauge",
        "C",
        "Temperature of the memory, in degrees Celsius.",
        lambda reading: reading.sample.memory_celsius,
        "dcgm_memory_temp",
    ),
    Counter(
        "DCGM_FI_DEV_GPU_TEMP",
        "gauge",
        "C",
        "Temperature of the chip, in degrees Celsius.",
        lambda reading: reading.sample.gpu_celsius,
        "dcgm_gpu_temp",
    ),
    Counter(
        "DCGM_FI_DEV_POWER_USAGE",
        "gauge",
        "W",
        "Power that the card draws, in watts.",
        lambda reading: reading.sample.power_w,
        "dcgm_power_usage",
    ),
    Counter(
        "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION",
        "counter",
        "mJ",
        "Energy drawn since the driver was loaded, in millijoules.",
        lambda reading: reading.sample.energy_mj,
        "dcgm_total_energy_consumption",
    ),
    Counter(
        "DCGM_FI_DEV_PCIE_REPLAY_COUNTER",
        "counter",
        "",
        "Packets on PCI Express that had to be sent again.",
        lambda reading: reading.sample.pcie_replays,
        "dcgm_pcie_replay_counter",
    ),
    Counter(
        "DCGM_FI_DEV_GPU_UTIL",
        "gauge",
        "%",
        "Part of the time in which some program computed, in percent.",
        lambda reading: reading.sample.gpu_busy_pct,
        "dcgm_gpu_utilization",
    ),
    Counter(
        "DCGM_FI_DEV_MEM_COPY_UTIL",
        "gauge",
        "%",
        "Part of the time in which memory was read or written, in percent.",
        lambda reading: reading.sample.memory_busy_pct,
        "dcgm_mem_copy_utilization",
    ),
    Counter(
        "DCGM_FI_DEV_ENC_UTIL",
        "gauge",
        "%",
        "Use of the video encoders, in percent.",
        lambda reading: reading.sample.encoder_busy_pct,
        "dcgm_enc_utilization",
    ),
    Counter(
        "DCGM_FI_DEV_DEC_UTIL",
        "gauge",
        "%",
        "Use of the video decoders, in percent.",
        lambda reading: reading.sample.decoder_busy_pct,
        "dcgm_dec_utilization",
    ),
    Counter(
        "DCGM_FI_DEV_XID_ERRORS",
        "gauge",
        "",
        "Number of the last Xid that the driver reported; 0 if none was seen.",
        _last_xid,
        "dcgm_xid_errors",
    ),
    Counter(
        "DCGM_FI_DEV_FB_FREE",
        "gauge",
        "MiB",
        "Device memory that is free, in MiB.",
        lambda reading: reading.sample.memory.free_mib,
        "dcgm_fb_free",
    ),
    Counter(
        "DCGM_FI_DEV_FB_USED",
        "gauge",
        "MiB",
        "Device memory that programs use, in MiB.",
        lambda reading: reading.sample.memory.used_mib,
        "dcgm_fb_used",
    ),
    Counter(
        "DCGM_FI_DEV_FB_RESERVED",
        "gauge",
        "MiB",
        "Device memory that the driver keeps, in MiB.",
        lambda reading: reading.sample.memory.reserved_mib,
    ),
    Counter(
        "DCGM_FI_DEV_NVLINK_BANDWIDTH_TOTAL",
        "counter",
        "MB",
        "Data sent and received over all NVLinks, in megabytes.",
        _nvlink_megabytes,
        "dcgm_nvlink_bandwidth_total",
    ),
    Counter(
        "DCGM_FI_DEV_VGPU_LICENSE_STATUS",
        "gauge",
        "",
        "Whether a virtual GPU holds its licence: 1 for yes.",
        lambda reading: reading.sample.vgpu_license,
    ),
    Counter(
        "DCGM_FI_DEV_UNCORRECTABLE_REMAPPED_ROWS",
        "counter",
        "",
        "Rows of memory that were replaced after an error that could not be corrected.",
        lambda reading: reading.sample.remaps.uncorrectable,
    ),
    Counter(
        "DCGM_FI_DEV_CORRECTABLE_REMAPPED_ROWS",
        "counter",
        "",
        "Rows of memory that were replaced after errors that were corrected.",
        lambda reading: reading.sample.remaps.correctable,
    ),
    Counter(
        "DCGM_FI_DEV_ROW_REMAP_FAILURE",
        "gauge",
        "",
        "Whether a broken row of memory could not be replaced: 1 for yes.",
        lambda reading: reading.sample.remaps.failed,
    ),
    Counter(
        "DCGM_FI_PROF_GR_ENGINE_ACTIVE",
        "gauge",
        "ratio",
        "Part of the time in which the compute or graphics engine was active, 0 to 1.",
        lambda reading: reading.sample.activity.graphics_engine_ratio,
        "dcgm_fi_prof_gr_engine_active",
    ),
    Counter(
        "DCGM_FI_PROF_PIPE_TENSOR_ACTIVE",
        "gauge",
        "ratio",
        "Part of the cycles in which the tensor cores were active, 0 to 1.",
        lambda reading: reading.sample.activity.tensor_ratio,
        "dcgm_fi_prof_pipe_tensor_active",
    ),
    Counter(
        "DCGM_FI_PROF_DRAM_ACTIVE",
        "gauge",
        "ratio",
        "Part of the cycles in which device memory sent or received data, 0 to 1.",
        lambda reading: reading.sample.activity.dram_ratio,
        "dcgm_fi_prof_dram_active",
    ),
    Counter(
        "DCGM_FI_PROF_PCIE_TX_BYTES",
        "gauge",
        "B/s",
        "Bytes sent over PCI Express, headers included, per second.",
        lambda reading: reading.sample.activity.pcie_sent_bytes_s,
        "dcgm_fi_prof_pcie_tx_bytes",
    ),
    Counter(
        "DCGM_FI_PROF_PCIE_RX_BYTES",
        "gauge",
        "B/s",
        "Bytes received over PCI Express, headers included, per second.",
        lambda reading: reading.sample.activity.pcie_received_bytes_s,
        "dcgm_fi_prof_pcie_rx_bytes",
    ),
)

FURTHER: tuple[Counter, ...] = (
    Counter("DCGM_FI_DEV_FB_TOTAL", "gauge", "MiB", "Device memory, in MiB.", _total_mib),
    Counter(
        "DCGM_FI_DEV_FB_USED_PERCENT",
        "gauge",
        "ratio",
        "Part of the memory that programs can have which they use, 0 to 1.",
        _used_part,
    ),
    Counter(
        "DCGM_FI_DEV_ECC_DBE_VOL_TOTAL",
        "counter",
        "",
        "Memory errors that could not be corrected, since the driver was loaded.",
        lambda reading: reading.sample.uncorrected_errors,
        "dcgm_ecc_dbe_volatile_total",
    ),
    Counter(
        "DCGM_FI_DEV_ROW_REMAP_PENDING",
        "gauge",
        "",
        "Whether a row of memory will be replaced at the next reset: 1 for yes.",
        lambda reading: reading.sample.remaps.pending,
    ),
    Counter(
        "DCGM_FI_DEV_CLOCKS_EVENT_REASONS",
        "gauge",
        "",
        "Why the clocks are lowered, as bits: 1 idle, 4 power, 8 hardware, 32 and 64 temperature.",
        _clock_event_bits,
        "DCGM_FI_DEV_CLOCK_THROTTLE_REASONS",
    ),
)
"""Those beside the default ones that a file may ask for."""

INFO_LABELS: tuple[InfoLabel, ...] = (
    InfoLabel(
        "DCGM_FI_DRIVER_VERSION",
        "Version of the driver.",
        lambda _, driver: None if driver is None else driver.version,
    ),
    InfoLabel(
        "DCGM_FI_NVML_VERSION",
        "Version of the driver's library.",
        lambda _, driver: None if driver is None else driver.vendor_library_version,
    ),
    InfoLabel("DCGM_FI_DEV_NAME", "Name of the card.", lambda gpu, _: gpu.facts.product),
    InfoLabel("DCGM_FI_DEV_BRAND", "Brand of the card.", lambda gpu, _: gpu.facts.brand),
    InfoLabel("DCGM_FI_DEV_SERIAL", "Serial number of the card.", lambda gpu, _: gpu.facts.serial),
)

SERVED: Mapping[str, Counter] = {
    name: counter for counter in (*DEFAULT, *FURTHER) for name in (counter.name, counter.older_name) if name
}
"""Every counter by its name and by its older one."""

SERVED_LABELS: Mapping[str, InfoLabel] = {label.name: label for label in INFO_LABELS}
DEFAULT_LABELS = (SERVED_LABELS["DCGM_FI_DRIVER_VERSION"],)
