"""The health of one GPU: a pure function of what was seen of it, over time.

A GPU leaves service at the first evidence against it and comes back on evidence for it: the driver asks for
no recovery any more, readings are answered, and it has been quiet for a while. Each time it comes and goes
that while doubles, so that a GPU that flaps stays out. A GPU without readings is ``UNKNOWN``, which is
neither healthy nor sick; absent readings prove nothing in either direction.

Times are seconds of a clock that never jumps, handed in by the caller.
"""

import enum
from typing import assert_never

import msgspec

from gpufleet.devices.xid import XidAction, xid

QUIET_FIRST_S = 30.0
"""How long a GPU must be quiet after its first failure before it comes back."""

QUIET_MOST_S = 3600.0
"""The quiet time doubles with each flap up to this."""

FLAPS_FORGOTTEN_S = 6 * 3600.0
"""A GPU that has been in service for so long begins anew."""


class Verdict(enum.Enum):
    """Whether new work may be placed on a GPU."""

    HEALTHY = "healthy"
    UNHEALTHY = "unhealthy"
    UNKNOWN = "unknown"


class Recovery(enum.Enum):
    """What the driver says a GPU needs in order to recover (NVML field 230)."""

    NONE = "none"
    RESET = "reset"
    REBOOT = "reboot"
    DRAIN_P2P = "drain peer-to-peer work"
    DRAIN_AND_RESET = "drain and reset"
    IMEX = "recover IMEX"


class XidSeen(msgspec.Struct, frozen=True):
    """The driver reported an Xid for this GPU."""

    code: int


class Reading(msgspec.Struct, frozen=True):
    """The GPU answered. What it did not tell is None.

    ``resets`` is a count that grows when the GPU was reset, or found again after a restart of the
    machine or the driver.
    """

    recovery: Recovery | None = None
    remap_failed: bool | None = None
    resets: int = 0


class NoAnswer(msgspec.Struct, frozen=True):
    """A call did not come back in time, or the library cannot say anything at the moment."""

    problem: str


class Missing(msgspec.Struct, frozen=True):
    """The driver no longer lists the GPU, or calls it lost."""


class HistoryLost(msgspec.Struct, frozen=True):
    """What was against the GPU before is not known any more."""

    problem: str


Evidence = XidSeen | Reading | NoAnswer | Missing | HistoryLost


class Fault(msgspec.Struct, frozen=True):
    """Something against the GPU, until what ``action`` says has happened.

    One that ``lasts`` is seen at every look until it is over, and quiet begins then; another was an event.
    """

    reason: str
    action: XidAction
    resets: int
    lasts: bool = False


class Health(msgspec.Struct, frozen=True):
    """What is known of one GPU. Begin with ``Health()``; ``step`` gives the next."""

    faults: tuple[Fault, ...] = ()
    silent: str = ""
    """Why there is no answer at the moment; empty where there is one."""
    recovery: Recovery | None = None
    resets: int = 0
    out_since_s: float | None = None
    last_evidence_s: float = 0.0
    flaps: int = 0
    back_since_s: float | None = None

    @property
    def verdict(self) -> Verdict:
        """Whether it may get new work."""
        if self.out_since_s is not None:
            return Verdict.UNHEALTHY
        return Verdict.UNKNOWN if self.silent else Verdict.HEALTHY

    @property
    def reason(self) -> str:
        """Why it is out of service or unknown; empty for a healthy GPU."""
        if self.faults:
            return "; ".join(dict.fromkeys(fault.reason for fault in self.faults))
        if self.out_since_s is not None:
            return f"it recovered and has to be quiet for {self.quiet_s:.0f} s"
        return self.silent

    @property
    def quiet_s(self) -> float:
        """How long it must be quiet before it comes back."""
        return float(min(QUIET_MOST_S, QUIET_FIRST_S * 2 ** max(0, self.flaps - 1)))


def step(health: Health, evidence: Evidence, now_s: float) -> Health:
    """What is known after one more piece of evidence."""
    match evidence:
        case XidSeen(code):
            return _xid_seen(health, code, now_s)
        case Missing():
            gone = Fault("the driver does not find it any more", XidAction.GONE, health.resets, lasts=True)
            return _with_fault(health, gone, now_s)
        case HistoryLost(problem):
            return _with_fault(health, Fault(problem, XidAction.QUIET, health.resets), now_s)
        case NoAnswer(problem):
            # Silence is no fault: it makes the GPU unknown and leaves what was against it as it is.
            return msgspec.structs.replace(health, silent=problem)
        case Reading():
            return _read(health, evidence, now_s)
        case _:
            assert_never(evidence)


def _xid_seen(health: Health, code: int, now_s: float) -> Health:
    row = xid(code)
    if row.action in (XidAction.NOTHING, XidAction.POD):
        return health
    return _with_fault(health, Fault(f"Xid {code}: {row.meaning}", row.action, health.resets), now_s)


def _with_fault(health: Health, fault: Fault, now_s: float) -> Health:
    # Evidence once, when it begins: counted at every look, there would be no quiet after it.
    if fault.lasts and fault in health.faults:
        return health
    faults = health.faults if fault in health.faults else (*health.faults, fault)
    changed = msgspec.structs.replace(health, faults=faults, last_evidence_s=now_s)
    if health.out_since_s is not None:
        return changed
    # A GPU that comes and goes is kept out longer each time; one that was well for hours begins anew.
    rested = health.back_since_s is None or now_s - health.back_since_s >= FLAPS_FORGOTTEN_S
    return msgspec.structs.replace(
        changed, out_since_s=now_s, back_since_s=None, flaps=1 if rested else health.flaps + 1
    )


def _read(health: Health, reading: Reading, now_s: float) -> Health:
    """An answer: faults that it disproves go, what it complains of itself comes, and time may be up."""
    answered = msgspec.structs.replace(
        health, silent="", recovery=reading.recovery, resets=max(health.resets, reading.resets)
    )
    for fault in _complaints(reading, answered.resets):
        answered = _with_fault(answered, fault, now_s)
    left = tuple(fault for fault in answered.faults if not _is_over(fault, reading, answered, now_s))
    # A fault that lasted ends now, so its quiet time begins now and not when it began.
    ended = any(fault.lasts for fault in answered.faults if fault not in left)
    bad_until_s = now_s if ended else answered.last_evidence_s
    answered = msgspec.structs.replace(answered, faults=left, last_evidence_s=bad_until_s)
    if left or answered.out_since_s is None or now_s - answered.last_evidence_s < answered.quiet_s:
        return answered
    return msgspec.structs.replace(answered, out_since_s=None, back_since_s=now_s)


def _complaints(reading: Reading, resets: int) -> list[Fault]:
    """What the GPU says against itself."""
    found = []
    if reading.recovery not in (None, Recovery.NONE):
        action = XidAction.GONE if reading.recovery is Recovery.REBOOT else XidAction.RESET
        found.append(Fault(f"the driver asks: {reading.recovery.value}", action, resets, lasts=True))
    if reading.remap_failed:
        remap = "a broken row of its memory could not be remapped"
        found.append(Fault(remap, XidAction.RESET, resets, lasts=True))
    return found


def _is_over(fault: Fault, reading: Reading, health: Health, now_s: float) -> bool:
    """Whether what the fault waits for has happened."""
    if fault in _complaints(reading, fault.resets):
        return False
    was_reset = health.resets > fault.resets
    match fault.action:
        case XidAction.GONE:
            return was_reset
        case XidAction.RESET:
            # A driver that knows no recovery actions says None, which clears nothing.
            return was_reset or reading.recovery is Recovery.NONE
        case _:
            return now_s - health.last_evidence_s >= health.quiet_s
