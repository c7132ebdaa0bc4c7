"""Why waiting pods fit nowhere, asked once for all that are alike as long as nothing changes.

``judging`` works a verdict out; here it is remembered by shape, neighbours and queue, and completed with what
reservations have to do with it. ``cycle`` tells it to those who wait, ``scheduler`` to those who ask.
"""

from gpufleet.engine.admit.waiting import Looks
from gpufleet.engine.arrays import layout
from gpufleet.engine.instruction import GangUnschedulable, Verdict
from gpufleet.engine.lifecycle.books import Books
from gpufleet.engine.place.refusal.verdict import judge_each
from gpufleet.engine.reserve.book import Reservations
from gpufleet.engine.state.members import Members
from gpufleet.engine.tell.reservations import ReservationTelling
from gpufleet.model.gang import Gang
from gpufleet.model.identifiers import NodeName
from gpufleet.model.shape import Shape


class Verdicts:
    """Remembers the verdicts on the state as it is."""

    def __init__(self, books: Books, reservations: Reservations, telling: ReservationTelling) -> None:
        self.books = books
        self.reservations = reservations
        self.telling = telling
        self._known: dict[tuple[int, Looks, int, bool, bool, str], tuple[Shape, Verdict]] = {}
        self._as_of = (layout.NOT_SET, layout.NOT_SET, layout.NOT_SET)

    def of(self, row: int, at_us: int) -> Verdict:
        """Why a waiting pod fits nowhere as of now."""
        own = self.reservations.of_row(row)
        if own is None:
            found = self._of_others(row)
        else:
            with self.books.trial() as without:
                without.release_all(list(own.nomination.rows))
                found = self._of_others(row)
        return self.telling.complete(found, row, at_us)

    def _of_others(self, row: int) -> Verdict:
        """The same without a word of reservations."""
        tables, neighbours = self.books.store.tables, self.books.neighbours
        shape_row = int(tables.pods[layout.POD_SHAPE, row])
        at = (int(tables.counters[layout.COUNTER_CHANGES]), neighbours.changes, self.books.queues.changes)
        if at != self._as_of:
            self._known.clear()
            self._as_of = at
        shape = self.books.shapes.shape_at(shape_row)
        looks: Looks = neighbours.looks(row) if neighbours.is_watchful else ()
        key = (shape_row, looks, *self.books.gate.standing(row))
        known = self._known.get(key)
        # A row may have been given to another shape while no node changed.
        if known is not None and known[0] == shape:
            return known[1]
        verdict = self.books.gangs.judging.verdict(row)
        self._known[key] = (shape, verdict)
        return verdict

    def reasons_by_node(self, row: int) -> dict[NodeName, tuple[str, ...]]:
        """The same node by node, which is more than anybody wants to be told of each refused pod."""
        books = self.books
        slot = books.shapes.slot(int(books.store.tables.pods[layout.POD_SHAPE, row]))
        reasons = books.neighbours.reasons_beyond_room(row)
        return judge_each(books.store, books.shapes, slot, reasons)


def gang_refusal(
    members: Members, gang: Gang, placeable: int, verdict: Verdict | None, role: str
) -> GangUnschedulable:
    """Why a gang cannot start: ``placeable`` members would fit, ``verdict`` is on the first other one."""
    return GangUnschedulable(gang.name, gang.min_members, members.arrived, placeable, verdict, role)
