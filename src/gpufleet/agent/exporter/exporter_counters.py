"""The counters of dcgm-exporter that are not DCGM's but its own (``DCGM_EXP_*``), as data.

A file may ask for them (``counters_file``). Each has several series of a GPU, told apart by labels of its
own. Where nothing happened within a window there is one series of 0 without such a label, as there. Health
is told under DCGM's watch over the whole GPU, ``ALL``: ours does not follow DCGM's ten parts of a GPU,
and to call one of those well would be a guess.
"""

from collections.abc import Callable, Mapping, Sequence

import msgspec

from gpufleet.agent.exporter.counters import Reading
from gpufleet.agent.exporter.gpu_events import WINDOW_S
from gpufleet.agent.exporter.text import Kind
from gpufleet.agent.gpus.health_reason import reason_class
from gpufleet.devices.clock_events import ClockEvent
from gpufleet.devices.health import Verdict

Part = tuple[tuple[tuple[str, str], ...], int]
"""Labels of one series beside those of its GPU, and its value."""

# dcgm-exporter says in a label over which time it counts.
WINDOW = ("window_size_in_ms", str(int(WINDOW_S * 1000)))
PASS, FAIL = 0, 20
"""DCGM_HEALTH_RESULT_*; 10, a warning, has no like here."""

ERROR_CODES = {
    "none": "DCGM_FR_OK",
    "xid": "DCGM_FR_XID_ERROR",
    "missing": "DCGM_FR_FALLEN_OFF_BUS",
    "row_remap": "DCGM_FR_ROW_REMAP_FAILURE",
}
"""DCGM's names of errors by our classes of reasons; any other is DCGM_FR_UNKNOWN."""


class ExporterCounter(msgspec.Struct, frozen=True):
    """One counter with all series of a GPU."""

    name: str
    kind: Kind
    help: str
    parts: Callable[[Reading], Sequence[Part]]


def _recent_xids(reading: Reading) -> Sequence[Part]:
    if reading.gpu.health is Verdict.UNKNOWN and not reading.events.recent_xids:
        return ()
    counted = sorted(reading.events.recent_xids.items())
    return [((WINDOW, ("xid", str(code))), count) for code, count in counted] or [((WINDOW,), 0)]


def _all_xids(reading: Reading) -> Sequence[Part]:
    return [((("xid", str(code)),), count) for code, count in sorted(reading.gpu.xids.items())]


def _recent_clock_events(reading: Reading) -> Sequence[Part]:
    counted = reading.events.recent_clock_events
    if counted is None:
        return ()
    return [((WINDOW, label), count) for label, count in _by_name(counted)] or [((WINDOW,), 0)]


def _clock_events_begun(reading: Reading) -> Sequence[Part]:
    return [((label,), count) for label, count in _by_name(reading.events.clock_events_begun or {})]


def _by_name(counted: Mapping[ClockEvent, int]) -> list[tuple[tuple[str, str], int]]:
    return sorted((("clock_event", str(event.name).lower()), count) for event, count in counted.items())


def _health(reading: Reading) -> Sequence[Part]:
    gpu = reading.gpu
    if gpu.health is Verdict.UNKNOWN:
        return ()
    code = ERROR_CODES.get(reason_class(gpu.health, gpu.reason), "DCGM_FR_UNKNOWN")
    labels = (("health_error_code", code), ("health_watch", "ALL"))
    return [(labels, PASS if gpu.health is Verdict.HEALTHY else FAIL)]


EXPORTER_COUNTERS: Mapping[str, ExporterCounter] = {
    one.name: one
    for one in (
        ExporterCounter(
            "DCGM_EXP_XID_ERRORS_COUNT", "gauge", "Xids within the last five minutes.", _recent_xids
        ),
        ExporterCounter("DCGM_EXP_XID_ERRORS_TOTAL", "counter", "Xids since the agent began.", _all_xids),
        ExporterCounter(
            "DCGM_EXP_CLOCK_EVENTS_COUNT",
            "gauge",
            "Samples within the last five minutes that showed lowered clocks, by the reason.",
            _recent_clock_events,
        ),
        ExporterCounter(
            "DCGM_EXP_CLOCK_EVENTS_TOTAL",
            "counter",
            "How often a reason for lowered clocks began since the agent began.",
            _clock_events_begun,
        ),
        ExporterCounter(
            "DCGM_EXP_GPU_HEALTH_STATUS",
            "gauge",
            "Health of the card: 0 for in service, 20 for out of it.",
            _health,
        ),
    )
}

OWN_LABELS = frozenset({WINDOW[0], "xid", "clock_event", "health_watch", "health_error_code"})
"""Labels that only these have."""
