"""Trying whether a workload fits once some pods are gone, without a trace.

Victims are sought in the future, in which pods that leave anyway are not charged any more (``in_future``).
Which pods the workload has to wait for is asked of the present: no pod has gone yet but those that are
named, and what is promised to others is kept (``future_quota``).
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager

from gpufleet.engine.arrays import layout
from gpufleet.engine.arrays.array_types import Int64Array
from gpufleet.engine.arrays.eviction_columns import LEAVING
from gpufleet.engine.lifecycle.engine_state import EngineState
from gpufleet.engine.lifecycle.nominations import Placement, placement_of
from gpufleet.engine.place.choose.placement import NO_NODES
from gpufleet.engine.preempt.candidates import Unit
from gpufleet.engine.preempt.leaving import Leaving
from gpufleet.engine.preempt.victims import UnplacedWorkload
from gpufleet.engine.queueing.future_quota import Charges

Placements = tuple[Placement, ...]


class Proof:
    """Proofs for one workload. ``tries`` counts them.

    About all but pods that leave anyway ``is_just``, if it is set, is asked with them gone and the
    workload placed. ``reclaimable_subsets`` says which of several may justly go together, if that is known.
    ``ended_claims`` are those whose devices fall free without the end of a pod that is there.
    """

    def __init__(self, unplaced: UnplacedWorkload, state: EngineState, leaving: Leaving) -> None:
        self.unplaced = unplaced
        self.state = state
        self.leaving = leaving
        self.is_just: Callable[[list[int]], bool] | None = None
        self.reclaimable_subsets: Callable[[Sequence[Unit]], Iterable[list[Unit]]] = lambda _units: ()
        self.tries = 0
        self._in_future = False
        self._none_leaves = False
        self.charges: Charges | None = None
        self._root = root_of(unplaced, state)
        asks = any(map(state.neighbours.asks_for_devices, unplaced.rows))
        self.asks_for_devices = asks
        self.ended_claims = state.neighbours.ended_claims() if asks else frozenset()

    @property
    def is_tied(self) -> bool:
        """True if more than room decides where the workload fits."""
        neighbours = self.state.neighbours
        return neighbours.is_watchful and any(map(neighbours.concerns, self.unplaced.rows))

    @contextmanager
    def in_future(self) -> Iterator[None]:
        """Meanwhile no pod that leaves, as far as it counts for the workload, is charged."""
        if not len(self.leaving.rows):
            yield
            return
        future = self.state.future_quota
        with self.state.trial():
            self.charges = future.charges()
            leaving = self.leaving
            charged = self.charges.leaving if leaving.is_complete else future.charged_to(leaving.rows)
            future.change(charged, -1, self._root)
            self._in_future = True
            try:
                yield
            finally:
                self._in_future = False

    @contextmanager
    def without_leaving(self, rows: Int64Array) -> Iterator[None]:
        """Meanwhile these, which leave anyway, are gone: each proof releases only what it tries besides.

        Thousands may leave, and a search makes many proofs. Within another it changes nothing.
        """
        if self._none_leaves:
            yield
            return
        with self.state.trial() as gone:
            gone.end_all(rows, uncharged=self._in_future)
            self._none_leaves = True
            try:
                yield
            finally:
                self._none_leaves = False

    def fits_without(
        self, rows: Sequence[int], nodes: Int64Array = NO_NODES, *, judged: bool = True
    ) -> Placements:
        """Where the workload goes if these pods are gone, on these nodes only if any are given.

        Nothing if it does not fit even then, or, where that is ``judged``, it would not be just.
        """
        self.tries += 1
        with self.state.trial() as without:
            without.end_all(rows, uncharged=self._in_future, ended_claims=self.ended_claims)
            with self.state.trial() as trial:
                placed = self.unplaced.workload.place(trial, nodes)
                if placed and judged and not self._spares_the_just(rows):
                    return ()
                return tuple(placement_of(self.state, row) for row in placed)

    def fits_at_once_without(self, rows: Sequence[int], nodes: Int64Array) -> Placements:
        """Where the workload fits as soon as these are gone, with all others still there."""
        state, future = self.state, self.state.future_quota
        # Nothing is promised, so present and future are the same.
        if not state.departures.by_row:
            return self.fits_without(rows, nodes)
        self.tries += 1
        with state.trial() as without:
            without.end_all(rows, ended_claims=self.ended_claims)
            charges = self._charges_without(rows)
            # The workload is placed as if no other had a nomination, and their quota is put back before it is
            # judged.
            future.change(charges.nominated, -1, self._root)
            with state.trial() as trial:
                placed = self.unplaced.workload.place(trial, nodes)
                future.change(charges.nominated, 1, self._root)
                future.change(charges.awaited, -1, self._root)
                if not all(map(state.gate.keeps_quota, placed)):
                    return ()
                if placed and not self._spares_the_just(rows):
                    return ()
                return tuple(placement_of(state, row) for row in placed)

    def _charges_without(self, rows: Sequence[int]) -> Charges:
        """``FutureQuota.charges`` with these released: those of before where none of them leaves."""
        told = self.state.pods.eviction_columns.cells[LEAVING]
        if self.charges is None or any(told[row] for row in rows):
            return self.state.future_quota.charges()
        return self.charges

    def _spares_the_just(self, rows: Sequence[int]) -> bool:
        """True if no pod goes that has a right to stay."""
        told = self.state.pods.eviction_columns.cells[LEAVING]
        # What leaves anyway loses nothing by this workload.
        return self.is_just is None or self.is_just([row for row in rows if not told[row]])


def root_of(unplaced: UnplacedWorkload, state: EngineState) -> int:
    """The root of the tree in which all pods of a workload are charged, or NOT_SET: no other tree's quota
    counts for it.
    """
    tables = state.store.tables
    queues = tables.pods[layout.POD_QUEUE, unplaced.rows]
    if (queues == layout.NOT_SET).any():
        return layout.NOT_SET
    roots = set(tables.queues[layout.QUEUE_ROOT, queues].tolist())
    return roots.pop() if len(roots) == 1 else layout.NOT_SET
