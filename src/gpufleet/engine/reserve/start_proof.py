"""Proves before the turns of a step which work cannot start, in whatever order it is asked.

Reservations are put aside so that their holders take their turn with all other work. Most often that comes
to nothing: each holder takes its former place again, and all others are refused as before. What does not fit
even if nothing were reserved, and a holder that would not fit without its guests either, cannot start in this
step: places are taken in a step, and none falls free but by evictions. So it is not tried (``hopeless``).
Where that is so for all that waits, sums tell that no victims can be found, and no work is due to reserve a
place, the turns would change nothing: then no place is put aside, and no work that waits is woken.

The proof is short, and so knows single pods alone: with gangs, with pods that have rules about each other,
and while pods leave or nodes are described anew, nothing is proven. Comes after ``reservations``, and before
``cycle``.
"""

from gpufleet.engine.arrays import layout
from gpufleet.engine.lifecycle.changes import Change
from gpufleet.engine.lifecycle.engine_state import EngineState
from gpufleet.engine.lifecycle.nominations import placement_of
from gpufleet.engine.preempt.victims import UnplacedWorkload, VictimSearch
from gpufleet.engine.queueing.available import is_kept_out_by_handle
from gpufleet.engine.queueing.line import Line
from gpufleet.engine.reserve.reservations import HeldReservation, Reservations
from gpufleet.engine.reserve.restoring import PutAside

LINES_MAX = 256
"""So many lines are looked at for one proof at most: with more of them, what it saves costs as much."""
FOLLOWED = (
    Change.POD_LEFT,
    Change.POD_PLACED,
    Change.POD_LEAVES,
    Change.EVICTED,
    Change.ROOM_OFFERED,
)
"""By these no place that is kept becomes a bad one."""
OTHERS = tuple(change for change in Change if change not in FOLLOWED)


class StartProof:
    """Asks once a step, before any work has its turn."""

    def __init__(self, state: EngineState, victims: VictimSearch, reservations: Reservations) -> None:
        self.state = state
        self.victims = victims
        self.reservations = reservations
        self._others = state.changes.interest_in(OTHERS)
        self._placed = state.changes.interest_in([Change.POD_PLACED])
        self._good_as_of: tuple[int, ...] = ()

    def holds(self, held: list[HeldReservation], at_us: int) -> bool:
        """True if the turns of this step would change nothing but what is said of new work.

        What cannot start is noted with the reservations in any case.
        """
        # Taken here: places that are kept are looked at anew now unless this holds.
        if self._others.take() or not self._is_plain(held):
            return False
        waiting = self.state.waiting
        # A list, because a line without work is closed.
        lines = [line for line in list(waiting.lines.values()) if waiting.trim(line)]
        holders = [row for one in held for row in one.nomination.rows]
        rows = [*(line.waiting[0][-1] for line in lines), *holders]
        hopeless = self._without_room(rows, holders, at_us)
        self.reservations.hopeless = hopeless
        count = self.state.changes.victims.count
        is_news = self.state.changes.room.is_pending or any(one.victim_changes != count for one in held)
        # All are asked: when a line may ask again is noted for each.
        due = [line for line in lines if self._may_reserve(line, at_us, is_news=is_news)]
        if due or not hopeless.issuperset(rows):
            return False
        if not self.victims.finds_none_beside(rows, holders, self.state):
            return False
        return self._keep_their_places(held, at_us)

    def _is_plain(self, held: list[HeldReservation]) -> bool:
        state = self.state
        departures = state.departures
        if departures.announced or departures.evicted or departures.refused_until_us:
            return False
        # Places that are kept for other reasons may count on what is reserved being put aside.
        if len(departures.nominations) > len(held) or not all(one.nomination.waits_for for one in held):
            return False
        if state.gangs.by_name or state.neighbours.is_watchful or state.fleet.draining_rows:
            return False
        return len(state.waiting.lines) <= LINES_MAX

    def _without_room(self, rows: list[int], holders: list[int], at_us: int) -> frozenset[int]:
        """Those of these pods that fit nowhere while nothing is reserved, nor without their guests."""
        with self.state.trial() as trial:
            trial.release_all(holders)
            lacking = self._lacking(rows)
        promised, pod_at = self.reservations.guests, self.state.pods.pod_at
        if not promised.promises:
            return lacking
        # Work that held a place before has its guests still.
        guests = {row: promised.rows_of(pod_at(row).workload, at_us) for row in rows}
        gone = dict.fromkeys(row for theirs in guests.values() for row in theirs)
        hosts = [row for row in rows if guests[row]]
        if not gone:
            return lacking
        with self.state.trial() as trial:
            trial.release_all([*holders, *gone])
            return lacking.difference(hosts).union(lacking & self._lacking(hosts))

    def _lacking(self, rows: list[int]) -> frozenset[int]:
        """Those of these pods that lack quota or room, whatever else may keep them out."""
        state, has_room = self.state, dict[int, bool]()
        lacking = []
        for row in rows:
            if is_kept_out_by_handle(state.store.handle, row):
                lacking.append(row)
                continue
            shape = state.store.tables.pods.item(layout.POD_SHAPE, row)
            if shape not in has_room:
                has_room[shape] = state.fits_somewhere(shape)
            if not has_room[shape]:
                lacking.append(row)
        return frozenset(lacking)

    def _keep_their_places(self, held: list[HeldReservation], at_us: int) -> bool:
        """True if each holder would take its former place again, in whatever order they ask.

        What ends only helps, so it is looked at again only after a pod was placed.
        """
        as_of = (self._placed.count, *(one.nomination.number for one in held))
        if as_of != self._good_as_of:
            if not self._fall_free_together(held, at_us):
                return False
            self._good_as_of = as_of
        return True

    def _fall_free_together(self, held: list[HeldReservation], at_us: int) -> bool:
        """True if each place falls free with all the others kept."""
        state, row_by_uid = self.state, self.state.pods.row_by_uid
        for one in held:
            rows = one.nomination.rows
            placements = tuple(placement_of(state, row) for row in rows)
            running = [row_by_uid[uid] for uid in one.nomination.waits_for]
            former = PutAside(one.since_us, placements, tuple(running))
            unplaced = UnplacedWorkload(state.workloads.of(rows[0]), at_us)
            with state.trial() as trial:
                trial.release_all(rows)
                if not self.reservations.is_still_good(former, running, unplaced):
                    return False
        return True

    def _may_reserve(self, line: Line, at_us: int, *, is_news: bool) -> bool:
        """True if the first workload of a line could hold a reservation, if it had its turn before others.

        ``is_news``: something has happened, so it may ask again some time after it found none. That is noted.
        """
        waiting = self.state.waiting
        queue = waiting.queues.get(line.key.queue)
        if queue is None or queue.reserve_after_us is None or line.key.late:
            return False
        head = line.head()
        if head.created_at_us + queue.reserve_after_us > at_us:
            return False
        reserved = waiting.reserved_heads.get(queue.name)
        if reserved is not None and reserved < head:
            return False
        return self.reservations.may_try_again(line.key, at_us, is_noted=is_news)
