"""Measured pods and workloads for tests, as short as the rule that they check; a step is a minute."""

from collections.abc import Mapping
from typing import Any

from gpufleet.operator.parking.activity import Activity, Judgement, MeasuredPod, Signal, Steps
from gpufleet.operator.parking.parking_step import SeenWorkload, WorkloadKey
from gpufleet.operator.parking.rule import IdleRule
from gpufleet.operator.parking.stamp import ParkingPhase, ParkingStamp

MINUTE_US = 60 * 10**6
HOUR_US = 60 * MINUTE_US
NOW_US = 1_800_000_000 * 10**6
MIB = 2**20
QUIET: Mapping[Signal, float] = {
    Signal.GPU: 0.0,
    Signal.GPU_MEMORY: 4096.0 * MIB,
    Signal.CPU: 0.02,
    Signal.NETWORK: 300.0,
}
RULE = IdleRule(HOUR_US, 15 * MINUTE_US)


def minutes(count: int) -> Steps:
    """The last minutes before now."""
    return Steps(NOW_US // 10**6, 60, count)


def minute(**signals: float | None) -> dict[Signal, float | None]:
    """One quiet minute, but for these signals; None for one that is not known."""
    return {**QUIET, **{Signal[name]: value for name, value in signals.items()}}


def measured(*steps: dict[Signal, float | None], started_us: int = 0, name: str = "pod-0") -> MeasuredPod:
    """A pod of these minutes, the newest last."""
    keys = {signal for step in steps for signal in step}
    return MeasuredPod(name, started_us, {key: [step.get(key) for step in steps] for key in keys})


def quiet(count: int) -> list[dict[Signal, float | None]]:
    """So many quiet minutes."""
    return [minute()] * count


UNKNOWN: dict[Signal, float | None] = {}
IDLE = Judgement(Activity.IDLE, NOW_US - HOUR_US)
BUSY = Judgement(Activity.WORKING, reason="pod-0: GPU use")
NOT_KNOWN = Judgement(Activity.UNKNOWN, reason="pod-0: GPU use is not known")


def workload(name: str = "lab", **fields: Any) -> SeenWorkload:
    """A workload that a rule concerns: one replica that runs, idle for an hour."""
    unit = fields.pop("unit", name)
    defaults: dict[str, Any] = {"rule": RULE, "replicas": 1, "is_ready": True, "gpus": 1, "judgement": IDLE}
    return SeenWorkload(WorkloadKey("Deployment", "team", name), unit, **{**defaults, **fields})


def warned(park_at_us: int = NOW_US, **fields: Any) -> ParkingStamp:
    """The stamp of a warning."""
    return ParkingStamp(ParkingPhase.WARNED, NOW_US - 15 * MINUTE_US, park_at_us, NOW_US - HOUR_US, **fields)


def parked(**fields: Any) -> ParkingStamp:
    """The stamp of parked work."""
    return ParkingStamp(ParkingPhase.PARKED, NOW_US - HOUR_US, **fields)
