"""One moment of a GPU, or of a MIG instance.

Everything is asked for by itself, so that what one GPU or driver does not give is absent and the rest
is there. Which call stands for which value where NVML has several:

- power: the GPU's usage; boards that lack it (some modules with a processor) tell it as a field;
- bytes and errors of NVLink: sums over all links up to its fourth generation (bytes as data without
  protocol); of the fifth, link by link;
- time with lowered clocks: fields that count nanoseconds, of which older drivers have only some;
- uncorrected errors: the total, else the field of double-bit errors.
"""

from collections import Counter

import msgspec

from gpufleet.devices.clock_events import ThrottleReason, clock_events
from gpufleet.devices.health import Recovery
from gpufleet.devices.nvidia.activity import Counters
from gpufleet.devices.nvidia.instances import Instance
from gpufleet.devices.nvidia.nvml import ALL_LINKS, MIB, Field, Handle, Nvml
from gpufleet.devices.nvidia.refusals import Answers
from gpufleet.devices.sample import LinkErrorKind, Memory, Remaps, Sample

# Numbers of NVML's fields (NVML_FI_DEV_*, nvml.h).
MEMORY_CELSIUS = Field(82)
LINK_COUNT = Field(91)
LINK_SENT_KIB, LINK_RECEIVED_KIB = Field(138, ALL_LINKS), Field(139, ALL_LINKS)
POWER_AVERAGE_MW, POWER_INSTANT_MW = Field(185), Field(186)
DOUBLE_BIT_ERRORS = Field(4)
RECOVERY_ACTION = Field(230)
# NVML_FI_DEV_PERF_POLICY_* and NVML_FI_DEV_CLOCKS_EVENT_REASON_*, in nanoseconds.
THROTTLE_NS = {
    Field(74): ThrottleReason.POWER_CAP,
    Field(75): ThrottleReason.THERMAL,
    Field(76): ThrottleReason.SYNC_BOOST,
    Field(77): ThrottleReason.BOARD_LIMIT,
    Field(79): ThrottleReason.RELIABILITY,
    Field(269): ThrottleReason.SW_THERMAL,
    Field(270): ThrottleReason.HW_THERMAL,
    Field(271): ThrottleReason.HW_POWER_BRAKE,
}
# NVML_FI_DEV_NVLINK_*_ERROR_COUNT_TOTAL; checksums of control and of data are counted apart.
LINK_ERRORS = {
    Field(52): LinkErrorKind.REPLAY,
    Field(59): LinkErrorKind.RECOVERY,
    Field(38): LinkErrorKind.CHECKSUM,
    Field(45): LinkErrorKind.CHECKSUM,
}
FIELDS = (
    *THROTTLE_NS,
    *LINK_ERRORS,
    MEMORY_CELSIUS,
    LINK_COUNT,
    LINK_SENT_KIB,
    LINK_RECEIVED_KIB,
    POWER_AVERAGE_MW,
    POWER_INSTANT_MW,
    DOUBLE_BIT_ERRORS,
    RECOVERY_ACTION,
)
# Numbers of NVML's fields NVLINK_COUNT_XMIT_BYTES and RCV_BYTES (nvml.h).
LINK_SENT_BYTES, LINK_RECEIVED_BYTES = 202, 204
# NVLINK_COUNT_LINK_RECOVERY_EVENTS, _RCV_ERRORS and _LOCAL_LINK_INTEGRITY_ERRORS, of the fifth generation.
ERRORS_BY_LINK = {
    215: LinkErrorKind.RECOVERY,
    208: LinkErrorKind.RECEIVED,
    211: LinkErrorKind.INTEGRITY,
}
# NVML's nvmlClockType_t.
SM_CLOCK, MEMORY_CLOCK = 1, 2
# Bounds the questions, whatever number the driver tells.
LINKS_MOST = 72

RECOVERIES = {
    0: Recovery.NONE,
    1: Recovery.RESET,
    2: Recovery.REBOOT,
    3: Recovery.DRAIN_P2P,
    4: Recovery.DRAIN_AND_RESET,
    5: Recovery.IMEX,
    6: Recovery.RESET,
    7: Recovery.REBOOT,
}
"""NVML_GPU_RECOVERY_ACTION_*; 6 resets the bus, 7 restarts the system with its firmware."""


def sample(nvml: Nvml, gpu: Handle, counters: Counters, at_s: float) -> tuple[Sample, bool]:
    """Readings of a GPU, and whether it refuses to answer before it is reset.

    Raises GpuLostError, or DriverError where it answers nothing at all.
    """
    answers = Answers()
    ask = answers.ask
    fields = ask(lambda: nvml.fields(gpu, FIELDS)) or {}
    busy = ask(lambda: nvml.utilization(gpu))
    license_held = ask(lambda: nvml.licensed(gpu))
    nvlink_bytes, nvlink_errors = _nvlink(nvml, gpu, fields, answers)
    found = Sample(
        at_s,
        gpu_busy_pct=None if busy is None else busy.gpu_pct,
        memory_busy_pct=None if busy is None else busy.memory_pct,
        encoder_busy_pct=ask(lambda: nvml.encoder_pct(gpu)),
        decoder_busy_pct=ask(lambda: nvml.decoder_pct(gpu)),
        memory=_memory(nvml, gpu, answers),
        power_w=_power_w(ask(lambda: nvml.power_mw(gpu)), fields),
        energy_mj=ask(lambda: nvml.energy_mj(gpu)),
        gpu_celsius=ask(lambda: nvml.celsius(gpu)),
        memory_celsius=_whole(fields.get(MEMORY_CELSIUS)),
        sm_clock_mhz=ask(lambda: nvml.clock_mhz(gpu, SM_CLOCK)),
        memory_clock_mhz=ask(lambda: nvml.clock_mhz(gpu, MEMORY_CLOCK)),
        clock_events=ask(lambda: clock_events(nvml.clock_events(gpu))),
        throttled_ns={reason: int(fields[field]) for field, reason in THROTTLE_NS.items() if field in fields},
        slowdown_celsius=ask(lambda: nvml.slowdown_celsius(gpu)),
        pcie_replays=ask(lambda: nvml.pcie_replays(gpu)),
        pcie_width=ask(lambda: nvml.pcie_width(gpu)),
        nvlink_bytes=nvlink_bytes,
        nvlink_errors=nvlink_errors,
        remaps=_remaps(nvml, gpu, answers),
        uncorrected_errors=_uncorrected_errors(nvml, gpu, fields, answers),
        vgpu_license=None if license_held is None else int(license_held),
        activity=counters.read(gpu, None, answers),
    )
    answers.check(answered=found != Sample(at_s))
    return msgspec.structs.replace(found, recovery=_recovery(fields, answers)), answers.reset_needed


def sample_instance(nvml: Nvml, gpu: Handle, instance: Instance, counters: Counters, at_s: float) -> Sample:
    """Readings of an instance: the driver tells its memory, and its counters where it has some."""
    answers = Answers()
    found = Sample(
        at_s,
        memory=_memory(nvml, instance.handle, answers),
        activity=counters.read(gpu, instance.gpu_instance, answers),
    )
    answers.check(answered=found != Sample(at_s))
    return found


def _memory(nvml: Nvml, handle: Handle, answers: Answers) -> Memory:
    memory = answers.ask(lambda: nvml.memory(handle))
    if memory is None:
        return Memory()
    return Memory(memory.used // MIB, memory.free // MIB, memory.reserved // MIB)


def _power_w(power_mw: float | None, fields: dict[Field, float]) -> float | None:
    # Generations differ in which of these they tell; the first that is told counts.
    for value in (power_mw, fields.get(POWER_AVERAGE_MW), fields.get(POWER_INSTANT_MW)):
        if value is not None:
            return value / 1000
    return None


def _nvlink(
    nvml: Nvml, gpu: Handle, fields: dict[Field, float], answers: Answers
) -> tuple[int | None, dict[LinkErrorKind, int]]:
    """Bytes over all links, and errors of all links by kind; of a kind that no field tells, none."""
    errors: Counter[LinkErrorKind] = Counter()
    for field, kind in LINK_ERRORS.items():
        if field in fields:
            errors[kind] += int(fields[field])
    sent, received = fields.get(LINK_SENT_KIB), fields.get(LINK_RECEIVED_KIB)
    # Older generations count over all links; newer ones are asked link by link.
    if sent is not None and received is not None:
        return int(sent + received) * 1024, dict(errors)
    links = range(min(LINKS_MOST, int(fields.get(LINK_COUNT, 0))))
    if not links:
        return None, dict(errors)
    numbers = (LINK_SENT_BYTES, LINK_RECEIVED_BYTES, *ERRORS_BY_LINK)
    wanted = tuple(Field(number, link) for number in numbers for link in links)
    by_link = answers.ask(lambda: nvml.fields(gpu, wanted)) or {}
    transferred = [
        int(value)
        for field, value in by_link.items()
        if field.number in (LINK_SENT_BYTES, LINK_RECEIVED_BYTES)
    ]
    for field, value in by_link.items():
        if field.number in ERRORS_BY_LINK:
            errors[ERRORS_BY_LINK[field.number]] += int(value)
    return sum(transferred) if transferred else None, dict(errors)


def _remaps(nvml: Nvml, gpu: Handle, answers: Answers) -> Remaps:
    rows = answers.ask(lambda: nvml.remapped(gpu))
    return (
        Remaps() if rows is None else Remaps(rows.correctable, rows.uncorrectable, rows.pending, rows.failed)
    )


def _uncorrected_errors(nvml: Nvml, gpu: Handle, fields: dict[Field, float], answers: Answers) -> int | None:
    total = answers.ask(lambda: nvml.uncorrected_errors(gpu))
    return _whole(fields.get(DOUBLE_BIT_ERRORS)) if total is None else total


def _recovery(fields: dict[Field, float], answers: Answers) -> Recovery | None:
    """What the driver asks for. A request that we cannot name is taken for a reset, the mildest that
    puts a GPU out of service; a GPU that refuses to answer before it is reset asks for that.
    """
    action = fields.get(RECOVERY_ACTION)
    asked = None if action is None else RECOVERIES.get(int(action), Recovery.RESET)
    if asked in (None, Recovery.NONE) and answers.reset_needed:
        return Recovery.RESET
    return asked


def _whole(value: float | None) -> int | None:
    return None if value is None else int(value)
