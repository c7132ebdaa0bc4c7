"""Work behind a reservation may run on the reserved nodes if it ends before the holder can start.

It is placed as if the reservations that it does not delay were not there, and these are booked again on top
of it, where they were. Without a known end nobody can say that it ends in time: it stays off, so that the
reserved nodes empty however much small work there is; unless it may be interrupted (``guests``). Work of
which it is only learned how long it runs is let in as a guest too, if it is expected to end before.
"""

from typing import NamedTuple

from gpufleet.engine.arrays.layout import PodState
from gpufleet.engine.arrays.placing import place
from gpufleet.engine.lifecycle.books import Books
from gpufleet.engine.lifecycle.nominations import chosen_by, placement_of
from gpufleet.engine.preempt.victims import Asking
from gpufleet.engine.reserve.book import Held, Reservations
from gpufleet.engine.reserve.planning import placed_now, rows_of


class Passage(NamedTuple):
    """A reservation that does not keep a workload off: because that ends ``within_us``, or as its guest."""

    held: Held
    within_us: int | None

    @property
    def as_guest(self) -> bool:
        """True for work that ends for the holder's sake whenever that can start."""
        return self.within_us is None


class Backfill:
    """Places work that is in no holder's way."""

    def __init__(self, books: Books, reservations: Reservations) -> None:
        self.books = books
        self.reservations = reservations

    def place(self, asking: Asking) -> list[int]:
        """Place a workload where others will start later; the rows placed, none if it may not or cannot."""
        not_delayed = self._not_delayed_by(asking)
        if not not_delayed:
            return []
        books = self.books
        kept = [placement_of(books, row) for one in not_delayed for row in one.held.nomination.rows]
        with books.trial() as without:
            without.release_all([at.row for at in kept])
            with books.trial() as trial:
                placed = placed_now(books, asking, trial)
                if not placed:
                    return []
                trial.keep()
            books.pods.make_journal_room(len(kept), books.store.tables.pod_devices.shape[1])
            for at in kept:
                place(books.store.tables, at.row, at.node, chosen_by(at), int(PodState.NOMINATED))
                books.neighbours.follow(at.row)
                books.neighbours.choose_again(at.row, at.choice)
            without.keep()
        for one in not_delayed:
            self._make_wait(one, placed, asking.at_us)
        return placed

    def _not_delayed_by(self, asking: Asking) -> list[Passage]:
        """The reservations whose holders can start when they could without the workload."""
        held = self.reservations.held()
        if not held:
            return []
        at_us, ends, guests = asking.at_us, self.reservations.ends, self.reservations.guests
        known = [ends.end_if_started_us(row, at_us) for row in rows_of(asking)]
        end_us = None if None in known else max(end for end in known if end is not None)
        learned_us = self._learned_end_us(asking)
        found = []
        for one in held:
            may_come = guests.may_come(asking, one.holder, one.nomination)
            in_time = self._ends_before(one, end_us, at_us)
            within_us = None if end_us is None or not in_time else end_us - at_us
            if may_come and (learned_us == at_us or self._ends_before(one, learned_us, at_us)):
                found.append(Passage(one, None if learned_us == at_us else within_us))
            elif in_time:
                found.append(Passage(one, within_us))
        return found

    def _learned_end_us(self, asking: Asking) -> int | None:
        """When a guest is expected to have ended, None if nobody knows.

        Now for work that may be interrupted at any time: when it would end does not matter.
        """
        books, end_us = self.books, asking.at_us
        for row in rows_of(asking):
            pod = books.pods.pod_at(row)
            if not pod.interruptible:
                length_us = books.learned.bound_us(books.queue_of(row), pod)
                if length_us is None:
                    return None
                end_us = max(end_us, asking.at_us + length_us)
        return end_us

    def _ends_before(self, one: Held, end_us: int | None, at_us: int) -> bool:
        return end_us is not None and self.reservations.is_free_until(one, end_us, at_us)

    def _make_wait(self, through: Passage, placed: list[int], at_us: int) -> None:
        """A holder waits for the work that was let in before it too, for guests wherever they are: what they
        hold may be quota. Who said when it ends becomes a guest then.
        """
        pods, one = self.books.pods, through.held
        nodes = {pods.node_row(row) for row in one.nomination.rows}
        for row in placed:
            in_its_way = pods.node_row(row) in nodes or self.books.queue_of(row) == one.queue
            if through.as_guest or in_its_way:
                self.books.departures.wait_also(one.nomination, pods.pod_at(row).uid)
        if through.as_guest or self.reservations.guests.end_for(one.nomination):
            uids = [pods.pod_at(row).uid for row in placed]
            self.reservations.let_in(one, uids, through.within_us, at_us)
