"""Trying whether a workload fits once some pods are gone, without a trace."""

from collections.abc import Callable, Sequence

from gpufleet.engine import layout
from gpufleet.engine.books import Books
from gpufleet.engine.nominations import Placement, placement_of
from gpufleet.engine.search import NO_NODES
from gpufleet.engine.tables import Int64Array
from gpufleet.engine.victims import Asking

Placements = tuple[Placement, ...]


class Proof:
    """Proofs for one workload. ``tries`` counts them.

    ``departing`` end anyway; about all others ``is_just``, if it is set, is asked with them gone and the
    workload placed.
    """

    def __init__(self, asking: Asking, books: Books, departing: list[int]) -> None:
        self.asking = asking
        self.books = books
        self.departing = dict.fromkeys(departing)
        self.is_just: Callable[[list[int]], bool] | None = None
        self.tries = 0

    @property
    def is_tied(self) -> bool:
        """True if more than room decides where the workload fits."""
        neighbours, members = self.books.neighbours, self.asking.members
        rows = [self.asking.row] if members is None else members.waiting
        return neighbours.is_watchful and any(map(neighbours.concerns, rows))

    def fits_without(
        self, rows: Sequence[int], nodes: Int64Array = NO_NODES, *, judged: bool = True
    ) -> Placements:
        """Where the workload goes if these pods are gone, on these nodes only if any are given.

        Nothing if it does not fit even then, or, where that is ``judged``, it would not be just.
        """
        books, pods = self.books, self.books.pods
        self.tries += 1
        with books.trial() as without:
            for row in rows:
                without.release(pods.pod_at(row).uid)
            with books.trial() as trial:
                if self.asking.members is not None:
                    placed = books.gangs.place(self.asking.members, trial, surplus=False)
                elif self.is_tied:
                    placed = [self.asking.row] if trial.place_related(self.asking.row, nodes) else []
                else:
                    shape = int(books.store.tables.pods[layout.POD_SHAPE, self.asking.row])
                    placed = [self.asking.row] if trial.place(shape, [self.asking.row], nodes) else []
                if placed and judged and self.is_just is not None:
                    if not self.is_just([row for row in rows if row not in self.departing]):
                        return ()
                return tuple(placement_of(books, row) for row in placed)
