"""Readings of one GPU, or of one MIG instance, at one moment.

Absent is None and stays absent up to the last metric: a GPU that does not tell its power does not
draw 0 W. Units are in the names; utilisation is in percent as drivers give it, activity in ratios.
"""

import enum

import msgspec

from gpufleet.devices.clock_events import ClockEvent, ThrottleReason
from gpufleet.devices.health import Recovery


class Memory(msgspec.Struct, frozen=True):
    """Device memory."""

    used_mib: int | None = None
    free_mib: int | None = None
    reserved_mib: int | None = None


class Remaps(msgspec.Struct, frozen=True):
    """Rows of memory that were replaced, since the GPU was made."""

    correctable: int | None = None
    uncorrectable: int | None = None
    pending: bool | None = None
    failed: bool | None = None


class LinkErrorKind(enum.Enum):
    """Errors of NVLink that drivers count. The values are labels of metrics.

    Up to the fourth generation: packets sent again, links trained again, wrong checksums. From the fifth on:
    links trained again, packets received with errors, losses of the link's integrity.
    """

    REPLAY = "replay"
    RECOVERY = "recovery"
    CHECKSUM = "checksum"
    RECEIVED = "received"
    INTEGRITY = "integrity"


class Activity(msgspec.Struct, frozen=True):
    """What the hardware's own counters say, between the last sample and this one."""

    graphics_engine_ratio: float | None = None
    tensor_ratio: float | None = None
    dram_ratio: float | None = None
    pcie_sent_bytes_s: float | None = None
    pcie_received_bytes_s: float | None = None


class Sample(msgspec.Struct, frozen=True):
    """All readings of one moment, ``at_s`` of the monotonic clock."""

    at_s: float
    gpu_busy_pct: int | None = None
    memory_busy_pct: int | None = None
    encoder_busy_pct: int | None = None
    decoder_busy_pct: int | None = None
    memory: Memory = Memory()
    power_w: float | None = None
    energy_mj: int | None = None
    gpu_celsius: int | None = None
    memory_celsius: int | None = None
    sm_clock_mhz: int | None = None
    memory_clock_mhz: int | None = None
    clock_events: ClockEvent | None = None
    throttled_ns: dict[ThrottleReason, int] = {}
    """How long clocks were lowered since the driver was loaded, for each reason that the driver counts."""
    slowdown_celsius: int | None = None
    """From this temperature of the chip on the hardware lowers the clocks."""
    pcie_replays: int | None = None
    pcie_width: int | None = None
    """Lanes of PCI Express in use. Some GPUs use fewer while they idle."""
    nvlink_bytes: int | None = None
    nvlink_errors: dict[LinkErrorKind, int] = {}
    """Since the driver was loaded, over all links."""
    remaps: Remaps = Remaps()
    uncorrected_errors: int | None = None
    """Since the driver was loaded."""
    recovery: Recovery | None = None
    resets: int = 0
    """How often the GPU was reset or found again since this process began."""
    vgpu_license: int | None = None
    activity: Activity = Activity()


class ProcessUse(msgspec.Struct, frozen=True):
    """A process of this machine on a GPU, or on one MIG instance of it."""

    pid: int
    memory_mib: int | None = None
    busy_pct: int | None = None
    mig_uuid: str | None = None
