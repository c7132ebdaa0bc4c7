"""Causes of reservations: places that others hold until they can start there, and the pod's own."""

from gpufleet.engine.explanations.causes import RESERVATION, RESERVED
from gpufleet.engine.explanations.reservation_words import guest_words, moment_words, nodes_words
from gpufleet.engine.instruction import ReservationHint, Verdict
from gpufleet.explain.answer import Finding
from gpufleet.kube import keys
from gpufleet.kube.codec.field_path import harmless
from gpufleet.model.gang import short_gang_name


def kept_off(verdict: Verdict) -> Finding | None:
    """A reservation keeps the room for its holder, until that starts; None where none keeps the pod off."""
    other = verdict.kept_off_by
    if other is None:
        return None
    holder = f"{holder_words(other)} of queue {harmless(other.queue)}"
    why = f"it could run now, but {holder} holds a reservation of {nodes_words(other)}, {until_words(other)}"
    wait = "wait until it has started, or until room comes elsewhere"
    guest = f'let it be ended at any time ({keys.INTERRUPTIBLE}: "true"): then it may run there until then'
    if other.start_us is None:
        return Finding(RESERVATION, why, (guest, wait))
    short = f"say how long it runs ({keys.RUN_TIME}: 30m): what ends by then may run there meanwhile"
    return Finding(RESERVATION, why, (short, guest, wait))


def holds(verdict: Verdict, found: Finding, waits_for: str) -> Finding | None:
    """The pod holds a reservation: what it waits for, and what it lacks (``found``); None without one."""
    own = verdict.reserved
    if own is None:
        return None
    why = f"it holds a reservation of {nodes_words(own)}, waits for {waits_for} to end, {until_words(own)}"
    why = "; ".join([why, *guest_words(own)])
    ways = ["it starts there then, or elsewhere when room comes first"]
    if own.start_us is None:
        ways.append(f"let work say how long it runs ({keys.RUN_TIME}): then a start can be foreseen")
    return Finding(RESERVED, f"{why}; {found.why}", (*ways, *found.way_out[:1]))


def until_words(hint: ReservationHint) -> str:
    """When a holder is expected to start."""
    if hint.start_us is None:
        return "and its start is not known: work there does not say how long it runs, or runs longer"
    return f"expected to start {moment_words(hint.start_us)}"


def holder_words(hint: ReservationHint) -> str:
    """The holder of a reservation, in words."""
    if hint.holder == hint.name:
        return f"gang {harmless(short_gang_name(hint.name))}"
    return f"pod {harmless(hint.name)}"
