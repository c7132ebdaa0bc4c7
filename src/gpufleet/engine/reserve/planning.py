"""Where a workload can start first: running work is taken away in the order of its expected ends.

Known ends come first, so the first that fits is also the earliest. Only if all of these together do not
make room, work without a known end is taken away too, node by node, those nodes first that have the least of
it: the place is then one that falls free for certain as soon as the work that runs there now has ended.
Everything is tried on the journal and taken back.
"""

from typing import NamedTuple

import numpy as np

from gpufleet.engine.arrays import layout
from gpufleet.engine.arrays.layout import PodState
from gpufleet.engine.lifecycle.books import Books
from gpufleet.engine.lifecycle.nominations import Placement, placement_of
from gpufleet.engine.place.choose.trial import Trial
from gpufleet.engine.preempt.victims import Asking
from gpufleet.engine.reserve.ends import ExpectedEnds

RELEASES_MAX = 20_000
"""How many running pods are looked at for one reservation."""
HAS_PLACE = (int(PodState.ASSUMED), int(PodState.BOUND))


class FuturePlace(NamedTuple):
    """Where a workload goes, and the rows of the running pods that must have ended by then."""

    placements: tuple[Placement, ...]
    waits_for: tuple[int, ...]


class Planner:
    """Finds the place where a workload starts first."""

    def __init__(self, books: Books, ends: ExpectedEnds) -> None:
        self.books = books
        self.ends = ends

    def find(self, asking: Asking, guests: list[int], *, own_queue_only: bool) -> FuturePlace | None:
        """The earliest place; None if no end of running work would make one.

        ``guests`` go when the workload can start. ``own_queue_only``: what it lacks is quota, and for that it
        waits, but for them, for work of its own queue only.
        """
        others = self._in_order(asking, own_queue_only=own_queue_only)
        rows = list(dict.fromkeys([*guests, *others]))[:RELEASES_MAX]
        if not rows or not self.place_without(asking, rows):
            return None
        rows = rows[: self._enough(asking, rows)]
        placements = self.place_without(asking, rows)
        nodes = {one.node for one in placements}
        near = [row for row in rows if self.books.pods.node_row(row) in nodes]
        again = self.place_without(asking, near) if len(near) < len(rows) else ()
        if again and {one.node for one in again} <= nodes:
            return FuturePlace(again, tuple(near))
        return FuturePlace(placements, tuple(rows))

    def _enough(self, asking: Asking, rows: list[int]) -> int:
        """How many of them must end, the first ones first."""
        enough = 1
        while enough < len(rows) and not self.place_without(asking, rows[:enough]):
            enough *= 2
        few, enough = enough // 2, min(enough, len(rows))
        while enough - few > 1:
            middle = (few + enough) // 2
            if self.place_without(asking, rows[:middle]):
                enough = middle
            else:
                few = middle
        return enough

    def place_without(self, asking: Asking, gone: list[int]) -> tuple[Placement, ...]:
        """Where the workload goes without these pods, nothing if it does not fit even then."""
        books = self.books
        with books.trial() as without:
            without.release_all(gone)
            with books.trial() as trial:
                return tuple(placement_of(books, row) for row in placed_now(books, asking, trial))

    def _in_order(self, asking: Asking, *, own_queue_only: bool) -> list[int]:
        """The running pods whose end may make room, those that are expected to end first first."""
        at_us, pods = asking.at_us, self.books.pods
        ending: list[tuple[int, str, int]] = []
        endless: dict[int, list[tuple[int, str, int]]] = {}
        for row in self._candidates(asking, own_queue_only=own_queue_only):
            uid = pods.pod_at(row).uid
            end_us = self.ends.end_us(row, at_us)
            if self.books.departures.is_departing(uid):
                end_us = at_us
            if end_us is not None:
                ending.append((end_us, uid, row))
            else:
                node = int(self.books.store.tables.pods[layout.POD_NODE, row])
                endless.setdefault(node, []).append((-self.ends.age_us(row, at_us), uid, row))
        name = self.books.fleet.node_at
        nodes = sorted(endless, key=lambda node: (len(endless[node]), name(node).name))
        rows = [row for _, _, row in sorted(ending)]
        return rows + [row for node in nodes for _, _, row in sorted(endless[node])]

    def _candidates(self, asking: Asking, *, own_queue_only: bool) -> list[int]:
        books = self.books
        cells = books.store.tables.pods[:, : len(books.pods.pods)]
        here = np.isin(cells[layout.POD_STATE], HAS_PLACE) & (cells[layout.POD_NODE] != layout.NOT_SET)
        if own_queue_only:
            here &= cells[layout.POD_QUEUE] == cells[layout.POD_QUEUE, asking.row]
        rows = np.flatnonzero(here)
        welcome = np.zeros(books.fleet.row_count, np.bool_)
        for shape in dict.fromkeys(int(cells[layout.POD_SHAPE, row]) for row in rows_of(asking)):
            slot = books.shapes.slot(shape)
            welcome |= books.shapes.rankings.refused[slot, : len(welcome)] == 0
        if own_queue_only:
            welcome[:] = True
        found: list[int] = rows[welcome[cells[layout.POD_NODE, rows]]].tolist()
        return found


def rows_of(asking: Asking) -> list[int]:
    """The pods that ask."""
    return [asking.row] if asking.members is None else list(asking.members.waiting)


def placed_now(books: Books, asking: Asking, trial: Trial) -> list[int]:
    """Place a workload inside a trial; the rows placed, none if it does not fit."""
    if asking.members is not None:
        return books.gangs.place(asking.members, trial, surplus=False)
    return [asking.row] if trial.place_pod(books.pods.pod_at(asking.row).uid) else []
