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
from gpufleet.engine.lifecycle.engine_state import EngineState
from gpufleet.engine.lifecycle.nominations import Placement, placement_of
from gpufleet.engine.preempt.victims import UnplacedWorkload
from gpufleet.engine.reserve.expected_ends import ExpectedEnds

RELEASES_MAX = 20_000
"""How many running pods are looked at for one reservation."""
HAS_PLACE = (int(PodState.ASSUMED), int(PodState.BOUND))


class FuturePlace(NamedTuple):
    """Where a workload goes, and the rows of the running pods that must have ended by then."""

    placements: tuple[Placement, ...]
    waits_for: tuple[int, ...]


class Planner:
    """Finds the place where a workload starts first."""

    def __init__(self, state: EngineState, ends: ExpectedEnds) -> None:
        self.state = state
        self.ends = ends

    def find(
        self, unplaced: UnplacedWorkload, guests: list[int], *, own_queue_only: bool
    ) -> FuturePlace | None:
        """The earliest place; None if no end of running work would make one.

        ``guests`` go when the workload can start. ``own_queue_only``: what it lacks is quota, and for that it
        waits, but for them, for work of its own queue only.
        """
        others = self._in_order(unplaced, own_queue_only=own_queue_only)
        rows = list(dict.fromkeys([*guests, *others]))[:RELEASES_MAX]
        if not rows or not self.place_without(unplaced, rows):
            return None
        rows = rows[: self._enough(unplaced, rows)]
        placements = self.place_without(unplaced, rows)
        nodes = {one.node for one in placements}
        # What runs elsewhere need not be waited for, unless without its end the work would go elsewhere.
        near = [row for row in rows if self.state.pods.node_row(row) in nodes]
        again = self.place_without(unplaced, near) if len(near) < len(rows) else ()
        if again and {one.node for one in again} <= nodes:
            return FuturePlace(again, tuple(near))
        return FuturePlace(placements, tuple(rows))

    def _enough(self, unplaced: UnplacedWorkload, rows: list[int]) -> int:
        """How many of them must end, the first ones first."""
        enough = 1
        while enough < len(rows) and not self.place_without(unplaced, rows[:enough]):
            # Doubled, then halved in between: a few ends mostly suffice, and each try places the work anew.
            enough *= 2
        few, enough = enough // 2, min(enough, len(rows))
        while enough - few > 1:
            middle = (few + enough) // 2
            if self.place_without(unplaced, rows[:middle]):
                enough = middle
            else:
                few = middle
        return enough

    def place_without(self, unplaced: UnplacedWorkload, gone: list[int]) -> tuple[Placement, ...]:
        """Where the workload goes without these pods, nothing if it does not fit even then."""
        state = self.state
        with state.trial() as without:
            asks = any(map(state.neighbours.asks_for_devices, unplaced.rows))
            without.end_all(gone, ended_claims=state.neighbours.ended_claims() if asks else frozenset())
            with state.trial() as trial:
                return tuple(placement_of(state, row) for row in unplaced.workload.place(trial))

    def _in_order(self, unplaced: UnplacedWorkload, *, own_queue_only: bool) -> list[int]:
        """The running pods whose end may make room, those that are expected to end first first."""
        at_us, pods = unplaced.at_us, self.state.pods
        ending: list[tuple[int, str, int]] = []
        endless: dict[int, list[tuple[int, str, int]]] = {}
        for row in self._candidates(unplaced, own_queue_only=own_queue_only):
            uid = pods.pod_at(row).uid
            end_us = self.ends.end_us(row, at_us)
            # It was told to end, which goes before whatever it says of its run time.
            if self.state.departures.is_departing(uid):
                end_us = at_us
            if end_us is not None:
                ending.append((end_us, uid, row))
            else:
                node = int(self.state.store.tables.pods[layout.POD_NODE, row])
                endless.setdefault(node, []).append((-self.ends.age_us(row, at_us), uid, row))
        name = self.state.fleet.node_at
        # Nodes with the least work without an end first, and names between equals, for the same order in
        # every run.
        nodes = sorted(endless, key=lambda node: (len(endless[node]), name(node).name))
        rows = [row for _, _, row in sorted(ending)]
        return rows + [row for node in nodes for _, _, row in sorted(endless[node])]

    def _candidates(self, unplaced: UnplacedWorkload, *, own_queue_only: bool) -> list[int]:
        state = self.state
        cells = state.store.tables.pods[:, : len(state.pods.pods)]
        here = np.isin(cells[layout.POD_STATE], HAS_PLACE) & (cells[layout.POD_NODE] != layout.NOT_SET)
        if own_queue_only:
            here &= cells[layout.POD_QUEUE] == cells[layout.POD_QUEUE, unplaced.row]
        rows = np.flatnonzero(here)
        welcome = np.zeros(state.fleet.row_count, np.bool_)
        for shape in dict.fromkeys(int(cells[layout.POD_SHAPE, row]) for row in unplaced.rows):
            slot = state.shapes.slot(shape)
            welcome |= state.shapes.rankings.refused[slot, : len(welcome)] == 0
        if own_queue_only:
            # Quota falls free by the end of work wherever that runs.
            welcome[:] = True
        found: list[int] = rows[welcome[cells[layout.POD_NODE, rows]]].tolist()
        return found
