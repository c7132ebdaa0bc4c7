"""What is written next: a pure step from what is seen of workloads to the writes that follow.

Workloads of one gang are one unit: they are warned, parked and woken together, and where one of them may not
be parked none is. Each write is about one workload and whole by itself. After any of them a process may end:
the next one sees the stamps and goes on, with the same deadline. ``patches`` carries the writes out.
"""

import enum
from collections.abc import Iterable, Sequence

import msgspec

from gpufleet.operator.parking.activity import Activity, Judgement
from gpufleet.operator.parking.rule import IdleRule
from gpufleet.operator.parking.stamp import ParkingCause, ParkingPhase, ParkingStamp

UNJUDGED = Judgement(Activity.UNKNOWN, reason="it was not measured")


class WorkloadKey(msgspec.Struct, frozen=True, order=True):
    """A workload by its kind, such as Notebook, its namespace and its name."""

    kind: str
    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.kind} {self.namespace}/{self.name}"


class SeenWorkload(msgspec.Struct, frozen=True):
    """What is known of one workload at one moment.

    ``unit`` is shared by the workloads of one gang. ``problem`` says why it can never be parked, or "".
    ``replicas`` is how many pods it asks for now; None where its kind keeps that itself. ``is_stopped``: it
    asks for no pod. ``is_ready``: all of its pods run. ``wake_asked``: its owner wants it back.
    """

    key: WorkloadKey
    unit: str
    rule: IdleRule | None = None
    problem: str = ""
    keep_until_us: int = 0
    wake_asked: bool = False
    stamp: ParkingStamp | None = None
    replicas: int | None = None
    is_stopped: bool = False
    is_ready: bool = False
    gpus: int = 0
    judgement: Judgement = UNJUDGED

    @property
    def phase(self) -> ParkingPhase | None:
        """The workload's phase; None where it runs and nothing is said of it."""
        return None if self.stamp is None else self.stamp.phase


class ParkingAction(enum.Enum):
    """What one write does; the reason of the Event that tells of it."""

    WARN = "IdleWarning"
    CALM = "NotIdle"
    PARK = "Parked"
    WAKE = "Waking"
    RETURN = "Woken"
    RELEASE = "ScaledByOthers"


class ParkingWrite(msgspec.Struct, frozen=True):
    """One write: the action, the workload, and the stamp that it has then (None: no stamp any more)."""

    action: ParkingAction
    key: WorkloadKey
    stamp: ParkingStamp | None
    reason: str = ""


class ParkingStep(msgspec.Struct, frozen=True):
    """The writes, and the next moment at which another step is due without any change."""

    writes: tuple[ParkingWrite, ...] = ()
    wake_at_us: int | None = None


def parking_step(seen: Iterable[SeenWorkload], now_us: int) -> ParkingStep:
    """What is to be written now."""
    units: dict[str, list[SeenWorkload]] = {}
    for one in seen:
        units.setdefault(one.unit, []).append(one)
    writes = tuple(write for unit in units.values() for write in _unit_writes(unit, now_us))
    written = {one.key for one in writes}
    deadlines = [
        one.stamp.park_at_us
        for unit in units.values()
        for one in unit
        if one.stamp is not None and one.phase is ParkingPhase.WARNED and one.key not in written
    ]
    later = [at_us for at_us in deadlines if at_us > now_us]
    return ParkingStep(writes, min(later, default=None))


def _unit_writes(unit: Sequence[SeenWorkload], now_us: int) -> list[ParkingWrite]:
    released = [one for one in unit if one.phase is ParkingPhase.PARKED and not one.is_stopped]
    parked = [one for one in unit if one.phase is ParkingPhase.PARKED and one.is_stopped]
    waking = [one for one in unit if one.phase is ParkingPhase.WAKING]
    # Before all else: a gang of which one member comes back must not be parked by what the others say.
    if released or waking or any(one.wake_asked for one in parked):
        return _back(unit, released, parked, waking, now_us)
    if parked:
        return _rest_of(unit, parked, now_us)
    return _running(unit, now_us)


def _back(
    unit: Sequence[SeenWorkload],
    released: Sequence[SeenWorkload],
    parked: Sequence[SeenWorkload],
    waking: Sequence[SeenWorkload],
    now_us: int,
) -> list[ParkingWrite]:
    """The unit comes back: what is parked wakes, and what was scaled up by others is left to them."""
    writes = [
        ParkingWrite(ParkingAction.RELEASE, one.key, None, "something else scaled it up") for one in released
    ]
    writes += [ParkingWrite(ParkingAction.WAKE, one.key, woken(one, now_us)) for one in parked]
    # A member that was only warned when the others were woken is no longer about to be parked.
    writes += [
        ParkingWrite(ParkingAction.CALM, one.key, None, "its gang comes back")
        for one in unit
        if one.phase is ParkingPhase.WARNED
    ]
    writes += [
        ParkingWrite(ParkingAction.RETURN, one.key, None)
        for one in waking
        if one.is_ready and not one.is_stopped
    ]
    # Killed between the two parts of a wake that others undid: the workload asks for nothing again.
    writes += [
        ParkingWrite(ParkingAction.RELEASE, one.key, None, "something else scaled it down")
        for one in waking
        if one.is_stopped
    ]
    return writes


def _rest_of(unit: Sequence[SeenWorkload], parked: Sequence[SeenWorkload], now_us: int) -> list[ParkingWrite]:
    """Part of the unit is parked: the rest follows, since a gang without it can do nothing."""
    causes = [one.stamp.cause for one in parked if one.stamp is not None]
    cause = ParkingCause.ASKED if ParkingCause.ASKED in causes else ParkingCause.IDLE
    return [
        ParkingWrite(ParkingAction.PARK, one.key, parked_stamp(one, now_us, cause), "its gang is parked")
        for one in unit
        if one.phase is not ParkingPhase.PARKED and not one.is_stopped and not one.problem
    ]


def _running(unit: Sequence[SeenWorkload], now_us: int) -> list[ParkingWrite]:
    """Nothing of the unit is parked: warn it, calm it, or park it."""
    running = [one for one in unit if not one.is_stopped]
    why_not = _why_not(running, now_us)
    warned = [one for one in unit if one.phase is ParkingPhase.WARNED]
    if why_not or not running:
        reason = why_not or "it asks for no pod any more"
        return [ParkingWrite(ParkingAction.CALM, one.key, None, reason) for one in warned]
    if any(one.judgement.activity is Activity.UNKNOWN for one in running):
        # Nothing begins and nothing ends on what is not known; a warning stands until it is.
        return []
    deadlines = [one.stamp.park_at_us for one in warned if one.stamp is not None]
    # The latest deadline counts for all: a member whose warning is newer has its whole time.
    park_at_us = max(deadlines, default=now_us + max(_warning_us(one) for one in running))
    missing = [one for one in running if one.phase is None]
    if missing:
        return [
            ParkingWrite(ParkingAction.WARN, one.key, _warned(one, now_us, park_at_us)) for one in missing
        ]
    if now_us < park_at_us:
        return []
    return [
        ParkingWrite(ParkingAction.PARK, one.key, parked_stamp(one, now_us, ParkingCause.IDLE))
        for one in running
    ]


def _why_not(running: Sequence[SeenWorkload], now_us: int) -> str:
    """Why the unit is not parked, whatever it does; "" where nothing speaks against it."""
    for one in running:
        if one.problem:
            return one.problem
        if one.rule is None:
            return f"no rule parks {one.key}"
        if now_us < one.keep_until_us:
            return f"{one.key} is kept"
        if one.judgement.activity in {Activity.WORKING, Activity.QUIET}:
            return one.judgement.reason or f"{one.key} has worked since"
    return ""


def _warning_us(one: SeenWorkload) -> int:
    return 0 if one.rule is None else one.rule.warning_us


def _warned(one: SeenWorkload, now_us: int, park_at_us: int) -> ParkingStamp:
    return ParkingStamp(
        ParkingPhase.WARNED, now_us, park_at_us, one.judgement.quiet_since_us, one.replicas, one.gpus
    )


def parked_stamp(one: SeenWorkload, now_us: int, cause: ParkingCause) -> ParkingStamp:
    """The stamp of a workload that is parked now, with as many pods as it has now to come back with."""
    idle_since_us = one.judgement.quiet_since_us or (0 if one.stamp is None else one.stamp.idle_since_us)
    return ParkingStamp(ParkingPhase.PARKED, now_us, 0, idle_since_us, one.replicas, one.gpus, cause)


def woken(one: SeenWorkload, now_us: int) -> ParkingStamp:
    """The stamp of a parked workload that comes back now; it keeps how many pods it comes back with."""
    before = one.stamp or ParkingStamp(ParkingPhase.PARKED, now_us)
    return msgspec.structs.replace(before, phase=ParkingPhase.WAKING, since_us=now_us, park_at_us=0)
