"""Pods that must end unless something goes away: a device of another pod, too much memory, a gang in part.

The shell tells each fact once, and when it is gone. Here it is decided in engine time what follows:

- A device conflict ends the pod that came last if it lasts for ``SETTLES_WITHIN_US``. Agents report one after
  another, so what looks like a conflict may be one half of a swap.
- Memory beyond the share is warned of at once, and again while it goes on. Where the rules say so, the pod
  ends after ``WARNED_FOR_US``. Its neighbours on the device are never touched for it.
- A gang that still lacks members at its deadline begins anew: those members end that a controller makes
  again. A gang with its last members on their way to their nodes at that moment is left alone, unless that
  fails.

A bare pod would be lost for good, so it stays, and its owner is told. A pod of which the eviction is refused
is asked for again when the refusal is over.
"""

from collections.abc import Iterator

import msgspec

from gpufleet.engine import event
from gpufleet.engine.arrays.layout import PodState
from gpufleet.engine.instruction import AnyInstruction, Consequence, ViolationReport, WhyEvicted
from gpufleet.engine.lifecycle.engine_state import EngineState
from gpufleet.engine.lifecycle.nominations import Nominations
from gpufleet.model.identifiers import GangName, PodUid
from gpufleet.model.violation import (
    AnyViolation,
    DeviceConflict,
    GangIncomplete,
    GangMember,
    MemoryExceeded,
    subject_of,
)

SETTLES_WITHIN_US = 10_000_000
"""Agents report within seconds, so both halves of a swap are known by then."""

WARNED_FOR_US = 60_000_000
"""A short peak passes, and an owner who reads the warning can still act."""

WARN_AGAIN_US = 600_000_000
"""Events end after an hour: an owner who looks finds one that is fresh."""


class _Watch(msgspec.Struct):
    """A violation, since when it counts, when it was warned of last, whether its time was over in a step, and
    the pods of which the owners have its consequence.
    """

    violation: AnyViolation
    since_us: int
    due_us: int
    warned_at_us: int | None = None
    reported: bool = False
    reported_pods: dict[PodUid, None] = {}


class Violations:
    """Watches violations and says which pods end for them."""

    def __init__(self, state: EngineState, nominations: Nominations) -> None:
        self.state = state
        self.nominations = nominations
        self.watches: dict[tuple[str, str], _Watch] = {}
        self._reports: list[AnyInstruction] = []
        self._incomplete: dict[GangName, None] = {}

    def found(self, happened: event.ViolationFound, at_us: int) -> None:
        """Something is wrong, or is wrong in another way than before; its time goes on then."""
        violation = happened.violation
        subject = subject_of(violation)
        watch = self.watches.get(subject)
        if watch is not None:
            # Its time goes on, so that a violation that changes a little again and again still ends.
            watch.violation = violation
            members = frozenset(one.pod for one in members_of(violation))
            watch.reported_pods = {pod: None for pod in watch.reported_pods if pod in members}
            watch.due_us = min(watch.due_us, max(at_us, watch.since_us + _allowed_us(violation)))
            return
        # The moment may be told by another clock: no violation begins later than now.
        since_us = at_us if happened.since_us is None else min(happened.since_us, at_us)
        due_us = max(at_us, since_us + _allowed_us(violation))
        self.watches[subject] = _Watch(violation, since_us, due_us)

    def ended(self, happened: event.ViolationEnded) -> None:
        """What was wrong is wrong no more."""
        self.watches.pop(subject_of(happened.violation), None)

    def forget(self, uid: PodUid) -> None:
        """The pod is gone, and what was wrong with it."""
        for kind in (DeviceConflict, MemoryExceeded):
            self.watches.pop((kind.__name__, uid), None)

    def short_since_us(self, gang: GangName) -> int | None:
        """Since when the time of a gang runs in which it must be whole; None while it does not."""
        watch = self.watches.get((GangIncomplete.__name__, gang))
        return None if watch is None else watch.since_us

    def take(self, at_us: int, *, of_gangs: bool) -> list[tuple[int, WhyEvicted]]:
        """The rows of pods that are to be told to end now, each with the reason.

        Gangs in part are asked for by themselves, when a step has placed all that it can: it may complete
        them. All others end before, or their gangs would get members of which they have too few then.
        """
        return list(self._take(at_us, of_gangs=of_gangs))

    def _take(self, at_us: int, *, of_gangs: bool) -> Iterator[tuple[int, WhyEvicted]]:
        for watch in self.watches.values():
            violation = watch.violation
            if isinstance(violation, GangIncomplete) is not of_gangs:
                continue
            if isinstance(violation, MemoryExceeded):
                self._warn(watch, violation, at_us)
            if at_us < watch.due_us or self._passes(violation):
                continue
            first, watch.reported = not watch.reported, True
            for member in members_of(violation):
                row = self._row(member.pod)
                ends = member.may_be_ended and _ends(violation)
                # Memory beyond the share that ends no pod was told as a warning already.
                if row is not None and (ends or not isinstance(violation, MemoryExceeded)):
                    self._report(watch, member.pod, ends=ends)
                if ends and row is not None and self._may_be_asked_for(member.pod):
                    yield row, _why(violation)
            if first and isinstance(violation, GangIncomplete):
                self._incomplete[violation.gang] = None

    def _report(self, watch: _Watch, pod: PodUid, *, ends: bool) -> None:
        """Say once to the owner of each pod what follows. A member of a gang may be bound when others have
        been told to end already, and its owner needs the reason as well.
        """
        if pod in watch.reported_pods:
            return
        watch.reported_pods[pod] = None
        consequence = Consequence.ENDS if ends else Consequence.STAYS
        self._reports.append(ViolationReport(pod, watch.violation, consequence))

    def conclude(self) -> list[AnyInstruction]:
        """The members of incomplete gangs were told to end: those that come wait until all that their gang
        lacks can start together. Returns what is to be told to the owners of pods.
        """
        incomplete, self._incomplete = self._incomplete, {}
        for name in incomplete:
            members = self.state.gangs.described(name)
            if members is None:
                continue
            # A copy: a nomination that is cancelled leaves this.
            for row in list(members.nominated):
                self.nominations.cancel_of(row)
            self.state.withdraw_gang(members.described)
            # As if described anew: the gang has not started, so its minimum binds again.
            members.describe(members.gang)
            self.state.update_gang(name)
        reports, self._reports = self._reports, []
        return reports

    def next_due_us(self) -> int | None:
        """When a step is wanted; what comes of a pod that was told to end is heard of anyway."""
        return min((due for watch in self.watches.values() for due in self._dues(watch)), default=None)

    def _dues(self, watch: _Watch) -> Iterator[int]:
        """A warning that is told again asks for no step: the shell takes one every few seconds."""
        violation = watch.violation
        if not _ends(violation):
            return
        if not watch.reported:
            # A gang with members on their way is looked at again when it is heard what came of them.
            if not self._passes(violation):
                yield watch.due_us
            return
        refused = self.state.departures.refused_until_us
        yield from (refused[one.pod] for one in members_of(violation) if one.pod in refused)

    def _warn(self, watch: _Watch, violation: MemoryExceeded, at_us: int) -> None:
        if watch.warned_at_us is not None and at_us < watch.warned_at_us + WARN_AGAIN_US:
            return
        watch.warned_at_us = at_us
        consequence = Consequence.NONE
        if violation.ends:
            consequence = Consequence.ENDS_LATER if violation.may_be_ended else Consequence.STAYS
        self._reports.append(ViolationReport(violation.pod, violation, consequence))

    def _passes(self, violation: AnyViolation) -> bool:
        """True for a gang that has all it needs once those members arrive that are on their way."""
        # Of a gang on a node that goes away those that have places are not those that stay.
        if not isinstance(violation, GangIncomplete) or violation.node is not None:
            return False
        members = self.state.gangs.by_name.get(violation.gang)
        return members is not None and len(members.with_places) >= violation.min_members

    def _row(self, uid: PodUid) -> int | None:
        """The row of a pod that has a place."""
        row = self.state.pods.row_by_uid.get(uid)
        return row if row is not None and self.state.pods.state(row) is PodState.BOUND else None

    def _may_be_asked_for(self, uid: PodUid) -> bool:
        departures = self.state.departures
        return not departures.is_departing(uid) and uid not in departures.refused_until_us


def members_of(violation: AnyViolation) -> tuple[GangMember, ...]:
    """The pods that a violation may end."""
    if isinstance(violation, GangIncomplete):
        return violation.members
    return (GangMember(violation.pod, violation.may_be_ended),)


def _allowed_us(violation: AnyViolation) -> int:
    match violation:
        case DeviceConflict():
            return SETTLES_WITHIN_US
        case MemoryExceeded():
            return WARNED_FOR_US
        case GangIncomplete():
            return violation.allowed_us


def _ends(violation: AnyViolation) -> bool:
    """True unless the rules only warn of it."""
    return not isinstance(violation, MemoryExceeded) or violation.ends


def _why(violation: AnyViolation) -> WhyEvicted:
    match violation:
        case DeviceConflict():
            return WhyEvicted.DEVICE_CONFLICT
        case MemoryExceeded():
            return WhyEvicted.GPU_MEMORY
        case GangIncomplete():
            return WhyEvicted.GANG_INCOMPLETE
