"""Work behind a reservation may run on the reserved nodes if it ends before the holder can start.

It is placed as if the reservations that it does not delay were not there, and these are booked again on top
of it, where they were. Without a declared run time nobody knows that it ends in time: it stays off, so
that the reserved nodes empty however much small work there is.
"""

from gpufleet.engine.books import Books
from gpufleet.engine.layout import PodState
from gpufleet.engine.nominations import chosen_by, placement_of
from gpufleet.engine.placing import place
from gpufleet.engine.reservations.book import Held, Reservations
from gpufleet.engine.reservations.planning import placed_now, rows_of
from gpufleet.engine.victims import Asking


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
        kept = [placement_of(books, row) for one in not_delayed for row in one.nomination.rows]
        with books.trial() as without:
            without.release_all([one.row for one in kept])
            with books.trial() as trial:
                placed = placed_now(books, asking, trial)
                if not placed:
                    return []
                trial.keep()
            books.pods.make_journal_room(len(kept), books.store.tables.pod_devices.shape[1])
            for one in kept:
                place(books.store.tables, one.row, one.node, chosen_by(one), int(PodState.NOMINATED))
                books.neighbours.follow(one.row)
                books.neighbours.choose_again(one.row, one.choice)
            without.keep()
        for held in not_delayed:
            self._make_wait(held, placed)
        return placed

    def _not_delayed_by(self, asking: Asking) -> list[Held]:
        """The reservations whose holders cannot start before the workload has ended."""
        at_us, ends = asking.at_us, self.reservations.ends
        held = self.reservations.held()
        if not held:
            return []
        known = [ends.end_if_started_us(row, at_us) for row in rows_of(asking)]
        if None in known:
            return []
        end_us = max(end for end in known if end is not None)
        return [one for one in held if end_us <= self.reservations.free_until_us(one, at_us)]

    def _make_wait(self, one: Held, placed: list[int]) -> None:
        """A holder waits for the work that was let in before it too."""
        pods = self.books.pods
        nodes = {pods.node_row(row) for row in one.nomination.rows}
        for row in placed:
            if pods.node_row(row) in nodes or self.books.queue_of(row) == one.queue:
                self.books.departures.wait_also(one.nomination, pods.pod_at(row).uid)
