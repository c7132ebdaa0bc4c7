"""Why a GPU's clocks are lower than they could be, as NVIDIA's driver tells it: any of these at once.

The values are NVML's (``nvmlClocksEventReason*``), the names in small letters are those of DCGM. A driver
may have reasons that are newer than this list; they are left out.
"""

import enum


class ClockEvent(enum.Flag):
    """The reasons that hold at one moment."""

    GPU_IDLE = 0x1
    CLOCKS_SETTING = 0x2
    POWER_CAP = 0x4
    HW_SLOWDOWN = 0x8
    SYNC_BOOST = 0x10
    SW_THERMAL = 0x20
    HW_THERMAL = 0x40
    HW_POWER_BRAKE = 0x80
    DISPLAY_CLOCKS = 0x100


class ThrottleReason(enum.Enum):
    """What a driver counts time of lowered clocks for. The values are labels of metrics.

    ``THERMAL`` is all heat together; drivers from 565 on also tell which part lowered the clocks.
    ``POWER_CAP`` is no fault: a GPU at full work spends most of its time at its limit.
    """

    POWER_CAP = "power_cap"
    THERMAL = "thermal"
    SW_THERMAL = "sw_thermal"
    HW_THERMAL = "hw_thermal"
    HW_POWER_BRAKE = "hw_power_brake"
    SYNC_BOOST = "sync_boost"
    BOARD_LIMIT = "board_limit"
    RELIABILITY = "reliability"


NOTHING = ClockEvent(0)
KNOWN = ~NOTHING


def clock_events(bits: int) -> ClockEvent:
    """The reasons among these bits that have a name."""
    return ClockEvent(bits & KNOWN.value)
