"""Which work holds which places until it can start: reservations made, kept, given up, and told.

A reservation is a nomination whose pods wait for work that was not told to end. It is a booking like any
other, charged to its queue, in addition to what still runs there; so no other pod is placed into that room or
takes that quota, and no rule had to be taught. Before anything is decided that could matter to it,
reservations are put aside and their holders wait as before: work of a better right comes first, and a holder
whose turn it is starts if it can. If it cannot, it takes its former place again, as long as that still falls
free when the work it waits for has ended; only otherwise another is looked for.

One workload of a queue holds a reservation at a time, and at most ``HELD_MAX`` in all.
"""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import NamedTuple

from gpufleet.engine.arrays import layout
from gpufleet.engine.event import ReservationsRecalled
from gpufleet.engine.instruction import Reservation, ReservationHint, ReservedPlace
from gpufleet.engine.lifecycle.departures import Nomination
from gpufleet.engine.lifecycle.engine_state import EngineState
from gpufleet.engine.lifecycle.nominations import Nominations, is_welcome, placement_of
from gpufleet.engine.preempt.overtime import Overtime
from gpufleet.engine.preempt.victims import UnplacedWorkload
from gpufleet.engine.queueing.line import CalledLines, Head, Line, LineKey
from gpufleet.engine.reserve.expected_ends import ExpectedEnds
from gpufleet.engine.reserve.guests import Guests, Holder
from gpufleet.engine.reserve.planning import FuturePlace, Planner
from gpufleet.engine.reserve.restoring import PutAside, recalled
from gpufleet.engine.reserve.retry_times import RetryTimes
from gpufleet.model.identifiers import NodeName, PodUid, QueueName

HELD_MAX = 8
"""How many workloads hold reservations at a time."""

TRY_AGAIN_US = 60_000_000
"""How long after a search that found nothing another one is made."""


class AwaitedEnds(NamedTuple):
    """The latest known end of what a holder waits for, None without any, and whether all ends are known."""

    latest_us: int | None
    are_known: bool


UNKNOWN_ENDS = AwaitedEnds(None, are_known=False)
NEVER_US = -1
"""No moment of an engine."""


@dataclass(slots=True)
class HeldReservation:
    """A reservation; ``victim_changes`` is how many changes were counted for victims then.

    ``again_at_us``: from then on its holder may evict others, or more of its guests. ``ends`` are those of
    the work that it waits for, as of a moment, a step and so many pods that it waits for.
    """

    nomination: Nomination
    holder: Holder
    queue: QueueName
    head: Head
    since_us: int
    victim_changes: int
    again_at_us: int | None
    ends: AwaitedEnds = UNKNOWN_ENDS
    ends_as_of: tuple[int, int, int] = (NEVER_US, 0, 0)


class Reservations:
    """All reservations of a fleet.

    ``held_by_holder`` may have some that facts have ended, ``held`` knows which. ``former`` are those that
    this step has put aside. ``nothing_starts``: it was certain when the step began that no work that waits
    can start, so that the places were kept. ``hopeless`` are the pods of which that is certain, as of then.
    """

    def __init__(self, state: EngineState, nominations: Nominations, overtime: Overtime) -> None:
        self.state = state
        self.nominations = nominations
        self.ends = ExpectedEnds(state.pods, overtime)
        self.planner = Planner(state, self.ends)
        self.guests = Guests(state, self.planner, evicts=overtime.evicts)
        self.version = 0
        self.held_by_holder: dict[Holder, HeldReservation] = {}
        self.former: dict[Holder, PutAside] = {}
        self._tried_in_vain_us: dict[LineKey, int] = {}
        self.dues = RetryTimes(state.waiting)
        self._is_settled = False
        self.nothing_starts = False
        self.hopeless: frozenset[int] = frozenset()

    @property
    def are_pending(self) -> bool:
        """True if something is reserved, may be, or was, or pods run where others start later."""
        return bool(self.held_by_holder or self.former or self.dues.heap or self.guests.promises)

    def held(self) -> list[HeldReservation]:
        """The reservations that are in force; facts may have ended some."""
        if not self.held_by_holder:
            return []
        known = self.state.departures.nominations
        # A copy: what is dropped leaves the dict.
        for holder, one in list(self.held_by_holder.items()):
            if one.nomination.number not in known:
                self._drop(holder)
        return list(self.held_by_holder.values())

    def _drop(self, holder: Holder) -> None:
        one = self.held_by_holder.pop(holder)
        self.version += 1
        self._is_settled = False
        self.state.waiting.reserved_heads.pop(one.queue, None)

    # Putting aside.

    def put_aside(
        self, at_us: int, retry_us: int | None, nothing_starts: Callable[[list[HeldReservation], int], bool]
    ) -> bool:
        """Before decisions that may matter to them: holders wait as others do; False if there are none.

        ``retry_us`` is when searches for victims that failed are repeated next. ``nothing_starts`` tells
        whether it is certain that these decisions would come to nothing: then places are kept as they are
        (``start_proof``).
        """
        if not self.held_by_holder and not self.dues.heap:
            return False
        held = self.held()
        is_retried = retry_us is not None and retry_us <= at_us
        matters = bool(held) and self._may_matter(held, at_us, is_retried=is_retried)
        if held and (matters or self._others_come_first(held)):
            self.nothing_starts = nothing_starts(held, at_us)
        # A queue has one holder: as long as that keeps its place, work behind it could hold none.
        self.dues.wake(at_us, behind_holders=matters and not self.nothing_starts)
        if not held or self.nothing_starts or not (matters or self._others_come_first(held)):
            return False
        self._put_aside(held)
        return True

    def _put_aside(self, held: list[HeldReservation]) -> None:
        # Until something of this is not as it was.
        self._is_settled = True
        for one in held:
            rows = one.nomination.rows
            placements = tuple(placement_of(self.state, row) for row in rows)
            row_by_uid = self.state.pods.row_by_uid
            waits_for = tuple(row_by_uid[uid] for uid in one.nomination.waits_for)
            # Kept for this step: the holder asks for the same place first, so that reservations stay.
            self.former[one.holder] = PutAside(one.since_us, placements, waits_for)
            self.held_by_holder.pop(one.holder)
            self.version += 1
            self.state.waiting.reserved_heads.pop(one.queue, None)
            self.nominations.take_back(one.nomination)
            self._let_stand_in_line(rows)

    def cannot_start(self, row: int) -> bool:
        """True for a pod that fits nowhere in this step, whatever is reserved, unless others leave for it."""
        return row in self.hopeless and not self.state.departures.evicted

    def put_aside_after_all(self) -> None:
        """Pods were told to end since it was certain that nothing starts: now it is not."""
        self.nothing_starts = False
        self._put_aside(self.held())

    def keep_as_they_are(self, at_us: int) -> None:
        """It is certain that no holder starts by what has happened until now."""
        count = self.state.changes.victims.count
        for one in self.held_by_holder.values():
            one.victim_changes = count
            # A due that has passed would wake the engine at once, for ever.
            if one.again_at_us is not None and one.again_at_us <= at_us:
                one.again_at_us = self.guests.next_us(one.holder, at_us)
        # What is said of work that waits may be another all the same.
        self.version += 1

    def _may_matter(self, held: list[HeldReservation], at_us: int, *, is_retried: bool) -> bool:
        """True if something has happened by which a holder may start or be asked for its place."""
        state = self.state
        victim_changes = state.changes.victims.count
        if state.changes.room.is_pending or any(one.victim_changes != victim_changes for one in held):
            return True
        if any(one.again_at_us is not None and one.again_at_us <= at_us for one in held):
            return True
        if any(until_us <= at_us for until_us in state.departures.refused_until_us.values()):
            return True
        if len(held) > 1 and (is_retried or not self._stay_as_they_are(held)):
            return True
        return self._others_come_first(held)

    def _stay_as_they_are(self, held: list[HeldReservation]) -> bool:
        """True if several holders that waited again now would get the same places, as time alone went by.

        Each may run behind the others' places once an end that was known is over, and a share that counts the
        past changes whose turn it is.
        """
        if not self._is_settled or self.state.past_use.is_due():
            return False
        row_by_uid = self.state.pods.row_by_uid
        awaited = {row_by_uid[uid] for one in held for uid in one.nomination.waits_for}
        return not any(map(self.ends.has_limit, awaited))

    def _others_come_first(self, held: list[HeldReservation]) -> bool:
        """True if work of another queue, or older work of its own, could take what a holder waits for."""
        waiting = self.state.waiting
        for name in waiting.queues_with_work():
            line = waiting.first(name)
            if line is not None and (len(held) > 1 or name != held[0].queue or line.head() < held[0].head):
                return True
        return False

    def _let_stand_in_line(self, rows: tuple[int, ...]) -> None:
        """A holder takes its turn again, and need not be told once more why it waits."""
        state = self.state
        members = state.workloads.members_of(rows[0])
        if members is not None:
            # The members that had places stand first, so that the same ones get them again.
            members.waiting = {row: members.waiting[row] for row in rows} | members.waiting
            return
        key = state.line_of(rows[0])
        line = state.waiting.lines[key]
        line.take_unreported(state.sequence_by_row[rows[0]])
        if line.parked:
            state.waiting.wake(key)

    def end_round(self) -> bool:
        """Everything was decided; True if places fell free that were reserved before."""
        if not self.former:
            return False
        self._is_settled = False
        nodes = {one.node for former in self.former.values() for one in former.placements}
        self.former.clear()
        pods = self.state.store.tables.pods
        # What is reserved again on a node leaves no room there for others.
        for one in self.held():
            nodes -= {int(pods[layout.POD_NODE, row]) for row in one.nomination.rows}
        return bool(nodes)

    @contextmanager
    def left_out(self) -> Iterator[None]:
        """Meanwhile nothing is reserved, so that only real use is counted."""
        rows = [row for one in self.held() for row in one.nomination.rows]
        if not rows:
            yield
            return
        with self.state.trial() as without:
            without.release_all(rows)
            yield

    # Making.

    def hold(
        self, line: Line, unplaced: UnplacedWorkload, again_at_us: int | None, *, own_queue_only: bool
    ) -> HeldReservation | None:
        """Reserve the place where the first workload of a line will start; None if it may not, or cannot."""
        if not self._may_hold(line, unplaced.at_us) or self.state.gate.bar(unplaced.row) is not None:
            return None
        # A due that has passed would wake the engine at once, for ever.
        if again_at_us is not None and again_at_us <= unplaced.at_us:
            again_at_us = None
        holder = unplaced.workload.name
        former = self.former.pop(holder, None)
        since_us = unplaced.at_us if former is None else former.since_us
        place = None if former is None else self._again(former, unplaced)
        if place is None:
            self._is_settled = False
            guests = self.guests.rows_of(holder, unplaced.at_us)
            place = self.planner.find(unplaced, guests, own_queue_only=own_queue_only)
            since_us = unplaced.at_us
        if place is None:
            self._note_in_vain(line.key, unplaced.at_us)
            return None
        dues = (again_at_us, self.guests.next_us(holder, unplaced.at_us))
        return self._book(line, holder, place, since_us, earliest(dues))

    def let_in(self, one: HeldReservation, uids: list[PodUid], within_us: int | None, at_us: int) -> None:
        """Pods run where this holder will start, as its guests or once they have run for so long."""
        self._is_settled = False
        self.guests.let_in(one.holder, uids, within_us)
        if within_us is not None:
            ends_us = self.guests.next_us(one.holder, at_us)
            one.again_at_us = earliest((one.again_at_us, ends_us))

    def _book(
        self, line: Line, holder: Holder, place: FuturePlace, since_us: int, again_at_us: int | None
    ) -> HeldReservation:
        state = self.state
        head = line.head()
        uids = tuple(state.pods.pod_at(row).uid for row in place.waits_for)
        nomination = self.nominations.nominate(place.placements, uids, reserved=True)
        queue = line.key.queue
        changes = state.changes.victims.count
        one = HeldReservation(nomination, holder, queue, head, since_us, changes, again_at_us)
        self.held_by_holder[holder] = one
        self.version += 1
        state.waiting.reserved_heads[queue] = head
        return one

    def _may_hold(self, line: Line, at_us: int) -> bool:
        queue = self.state.waiting.queues.get(line.key.queue)
        # Late pods came while their queue was draining: it starts none of them, so they hold no place.
        if queue is None or queue.reserve_after_us is None or line.key.late:
            return False
        due_us = line.head().created_at_us + queue.reserve_after_us
        if due_us > at_us:
            self.dues.note(line.key, due_us)
            return False
        held = self.held()
        # One a queue at a time: its work starts by turns, so the next head reserves after this one.
        if len(held) >= HELD_MAX or any(one.queue == queue.name for one in held):
            return False
        return self.may_try_again(line.key, at_us)

    def may_try_again(self, key: LineKey, at_us: int, *, is_noted: bool = True) -> bool:
        """True unless a search for a place came to nothing a moment ago.

        ``is_noted``: it is noted when the next one may come.
        """
        tried_us = self._tried_in_vain_us.get(key)
        if tried_us is None or at_us - tried_us >= TRY_AGAIN_US:
            return True
        if is_noted:
            self.dues.note(key, tried_us + TRY_AGAIN_US)
        return False

    def none_is_near(self, lines: Iterable[Line], settled: Iterable[CalledLines], at_us: int) -> bool:
        """True if nothing is reserved, and none of these lines of described queues has waited for long enough
        to reserve a place. When each of them has is noted then, as ``hold`` does it, and was for ``settled``.
        """
        if self.held_by_holder or self.former or self.guests.has_promises:
            return False
        queues, news = self.state.waiting.queues, []
        for together in settled:
            after_us = queues[together.queue].reserve_after_us
            if after_us is None or together.oldest_us is None:
                continue
            if together.oldest_us + after_us <= at_us:
                return False
        name, after_us = None, None
        for line in lines:
            key = line.key
            if key.queue != name:
                name = key.queue
                after_us = queues[name].reserve_after_us
            if after_us is None or key.late:
                continue
            first = line.waiting[0]
            if first[0] + after_us <= at_us:
                return False
            # What was noted when the same pod was refused still is.
            if first is not line.refused_first:
                news.append((key, first[0] + after_us))
        for key, due_us in news:
            self.dues.note(key, due_us)
        return True

    def _note_in_vain(self, key: LineKey, at_us: int) -> None:
        """No end of running work helps a workload: not to be asked again at once."""
        lines = self.state.waiting.lines
        # Lines that are gone are dropped here, or the table would only grow.
        self._tried_in_vain_us = {one: us for one, us in self._tried_in_vain_us.items() if one in lines}
        self._tried_in_vain_us[key] = at_us

    def next_due_us(self) -> int | None:
        """When there is a reason to look again even if nothing happens."""
        if not self.held_by_holder and not self.dues.heap:
            return None
        return earliest([self.dues.first_us(), *(one.again_at_us for one in self.held_by_holder.values())])

    def _again(self, former: PutAside, unplaced: UnplacedWorkload) -> FuturePlace | None:
        """The former place, if the workload fits there once the work it waited for has ended."""
        pods = self.state.pods
        running = [row for row in former.waits_for if pods.pods[row] and pods.node_row(row) is not None]
        # If it waited for no pod any more it would have started: something else speaks against it.
        good = bool(running) and self.is_still_good(former, running, unplaced)
        return FuturePlace(former.placements, tuple(running)) if good else None

    def is_still_good(self, former: PutAside, running: list[int], unplaced: UnplacedWorkload) -> bool:
        """True if the workload fits in its former place once the work that it waited for has ended."""
        state = self.state
        rows = [one.row for one in former.placements]
        # Members may have come or left since, or a gang may ask for more of them.
        if not set(rows) <= set(unplaced.rows) or len(rows) < unplaced.workload.least:
            return False
        if state.neighbours.is_watchful and any(map(state.neighbours.concerns, rows)):
            return False
        if not all(is_welcome(state, place) for place in former.placements):
            return False
        with state.trial() as trial:
            trial.release_all(running)
            state.pods.make_journal_room(len(rows), state.store.tables.pod_devices.shape[1])
            has_room = all(map(self.nominations.fits_and_is_placed, former.placements))
            return has_room and all(map(state.gate.keeps_quota, rows))

    # What is known of them.

    def start_us(self, one: HeldReservation, at_us: int) -> int | None:
        """When the work that a holder waits for is expected to have ended, None if that is not known."""
        ends = self._ends(one, at_us)
        if not ends.are_known:
            return None
        return at_us if ends.latest_us is None else ends.latest_us

    def is_free_until(self, one: HeldReservation, end_us: int, at_us: int) -> bool:
        """True if the holder cannot start before then, whatever becomes of work whose end is not known."""
        latest_us = self._ends(one, at_us).latest_us
        return latest_us is not None and latest_us >= end_us

    def _ends(self, one: HeldReservation, at_us: int) -> AwaitedEnds:
        """When those that it waits for end by themselves; guests end for its sake.

        Within a step only pods that it waits for in addition change that.
        """
        awaited = one.nomination.waits_for
        as_of = (at_us, self.state.steps, len(awaited))
        if one.ends_as_of != as_of:
            one.ends, one.ends_as_of = self._ends_of(one, at_us), as_of
        return one.ends

    def _ends_of(self, one: HeldReservation, at_us: int) -> AwaitedEnds:
        row_by_uid, are_known = self.state.pods.row_by_uid, True
        latest_us: int | None = None
        for uid in one.nomination.waits_for:
            if self.guests.are_of(one.holder, uid, at_us):
                continue
            end_us = self.ends.end_us(row_by_uid[uid], at_us)
            if end_us is None:
                are_known = False
            elif latest_us is None or end_us > latest_us:
                latest_us = end_us
        return AwaitedEnds(latest_us, are_known)

    def value(self, one: HeldReservation, at_us: int) -> Reservation:
        """A reservation as it is told."""
        places = tuple(self._reserved_place(row) for row in one.nomination.rows)
        name = self.name(one)
        start_us, waits_for = self.start_us(one, at_us), tuple(one.nomination.waits_for)
        return Reservation(one.holder, name, one.queue, one.since_us, start_us, places, waits_for)

    def values(self, at_us: int) -> tuple[Reservation, ...]:
        """All of them as they are told."""
        return tuple(self.value(one, at_us) for one in self.held())

    def name(self, one: HeldReservation) -> str:
        """The holder's name for people."""
        pod = self.state.pods.pod_at(one.nomination.rows[0])
        return pod.gang or pod.name or pod.uid

    def _reserved_place(self, row: int) -> ReservedPlace:
        state = self.state
        node = state.pods.node_row(row)
        name = NodeName("") if node is None else state.fleet.node_at(node).name
        return ReservedPlace(state.pods.pod_at(row).uid, name, state.pods.device_ids(row))

    def hint(self, one: HeldReservation, at_us: int) -> ReservationHint:
        """A reservation as others name it."""
        nodes = {self.state.pods.node_row(row) for row in one.nomination.rows}
        guests = len(self.guests.rows_of(one.holder, at_us))
        start_us = self.start_us(one, at_us)
        return ReservationHint(one.holder, self.name(one), one.queue, len(nodes), start_us, guests)

    def hosts(self, uid: PodUid, at_us: int) -> tuple[ReservationHint, ...]:
        """The reservations whose guest a pod is."""
        held = [one for one in self.held() if self.guests.are_of(one.holder, uid, at_us)]
        return tuple(self.hint(one, at_us) for one in held)

    def of_row(self, row: int) -> HeldReservation | None:
        """The reservation of a pod or of its gang."""
        nomination = self.state.departures.by_row.get(row)
        if nomination is None or not nomination.reserved:
            return None
        return next((one for one in self.held() if one.nomination is nomination), None)

    # After a restart.

    def recall(self, happened: ReservationsRecalled) -> None:
        """What was reserved before a restart is taken again by its holders in their turn."""
        for told in happened.reservations:
            former = recalled(self.state, told)
            if former is not None:
                self.former[told.holder] = former
                self.guests.recall(told.holder, former)


def earliest(moments: Iterable[int | None]) -> int | None:
    """The first of some moments, None where there is none."""
    # A loop, because this is asked in every step: ``min`` of a generator takes twice as long.
    first: int | None = None
    for at_us in moments:
        if at_us is not None and (first is None or at_us < first):
            first = at_us
    return first
