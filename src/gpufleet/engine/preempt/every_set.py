"""The cheapest set of victims, where there are few candidates: every set is tried, the cheapest first.

The other searches find a set of which no part would do, and not always the cheapest. With few candidates
all sets together cost about as much as one of those searches: only those are tried that hold at least as
much as is short. Where many sets are refused, the other searches take over.
"""

from collections.abc import Iterator, Sequence

import numpy as np

from gpufleet.engine.arrays import layout
from gpufleet.engine.arrays.array_types import BoolArray, Int64Array
from gpufleet.engine.lifecycle.engine_state import EngineState
from gpufleet.engine.place.choose.placement import NO_NODES
from gpufleet.engine.preempt.by_node import room_wanted
from gpufleet.engine.preempt.candidates import Candidates, Cost, Unit, cost_of
from gpufleet.engine.preempt.capacity_bound import held, suitable, things_short
from gpufleet.engine.preempt.leaving import FAR_TOO_MUCH, GPU
from gpufleet.engine.preempt.proof import Placements, Proof
from gpufleet.engine.preempt.quota_shortage import short_quota

UNITS_MAX = 10
"""With more candidates than this there are more than a thousand sets."""
PLACED_MAX = 2048
"""So many pods are placed at most for all proofs together: fewer sets may be tried for a large gang."""
PROOFS_MAX = 256
"""After so many refused sets the search is given up (``is_cut``): most sets hold enough, and none is just."""

NOTHING_LACKS = (np.zeros(0, np.int64), np.zeros((0, 0), np.int64))


class EverySet:
    """A search for one workload. ``departing`` are rows of pods that end anyway.

    ``short`` says what each node lacks for a pod that some of its victims must make room for where it goes
    (``FutureRoom``); None for any other workload. ``has_room``: it is a pod that lacks quota alone.
    """

    def __init__(
        self,
        proof: Proof,
        state: EngineState,
        departing: Int64Array,
        found: Candidates,
        short: Int64Array | None,
        *,
        has_room: bool = False,
    ) -> None:
        self.proof = proof
        self.workload = proof.unplaced.workload
        self.state = state
        self.departing = departing
        self.found = found
        self.short = short
        self.has_room = has_room
        self.is_cut = False
        self._node_by_row: dict[int, int] = {}

    @property
    def is_small(self) -> bool:
        """True if all sets can be tried."""
        units, placed = len(self.found.singles.rows) + len(self.found.gangs), self.workload.least
        return units <= UNITS_MAX and (1 << units) * placed <= PLACED_MAX

    def find(self) -> tuple[list[Unit], Placements] | None:
        """The cheapest set, and where the workload goes; None if no set would do (or ``is_cut``)."""
        units = self.found.in_order()
        self._node_by_row = nodes_of(self.state, units)
        ordered = sorted(self._sets(units), key=self._in_turn)
        with self.proof.without_leaving(self.departing):
            # If not even all of them make room, no set does: one proof instead of a thousand.
            if not ordered or (len(ordered) > 1 and not self._proven(units, judged=False)):
                return None
            for chosen in ordered[:PROOFS_MAX]:
                placements = self._proven(chosen)
                if placements:
                    return list(chosen), placements
        self.is_cut = len(ordered) > PROOFS_MAX
        return None

    def _in_turn(self, chosen: tuple[Unit, ...]) -> tuple[Cost, list[int], tuple[Unit, ...]]:
        """By what sets are sorted: by their cost, and equals in the order of their pods."""
        cost = cost_of(chosen, for_gang=not self.workload.is_single)
        return cost, [unit.order for unit in chosen], chosen

    def _sets(self, units: Sequence[Unit]) -> Iterator[tuple[Unit, ...]]:
        """Sets that may go together and give back enough. With a gang go no members of it."""
        budgets, pods = self.state.budgets, self.state.pods
        for places in self._enough(units):
            chosen = tuple(units[place] for place in places)
            rows = [row for unit in chosen for row in unit.rows]
            # A gang and a member of it share rows; such a set would count the room of that member twice.
            if len(set(rows)) < len(rows) or not self.found.keep_minimums(chosen):
                continue
            if not budgets.any_is_known or budgets.allow(map(pods.pod_at, rows)):
                yield chosen

    def _enough(self, units: Sequence[Unit]) -> Iterator[list[int]]:
        """The places of units that together give back at least what is short."""
        among = np.arange(len(units))
        # The bits of every number from 1 on: each set of units but the empty one, once.
        sets: Int64Array = (np.arange(1, 1 << len(units))[:, np.newaxis] >> among) & 1
        asks_all_nodes = self.short is None and not self.has_room
        together = self._room(units) if asks_all_nodes else NOTHING_LACKS
        for lacks, gives in (self._quota(units), together):
            if len(lacks):
                # The product sums up what the units of each set give back, for all sets at once.
                sets = sets[(sets @ gives.T >= lacks).all(axis=1)]
        if self.short is not None:
            sets = sets[self._on_one_node(sets, units, self.short)]
        return (np.flatnonzero(one).tolist() for one in sets)

    def _quota(self, units: Sequence[Unit]) -> tuple[Int64Array, Int64Array]:
        """What a pod lacks of quota, and how much of it each unit gives back; of a gang nothing is known."""
        if not self.workload.is_single:
            return NOTHING_LACKS
        rows = np.array([row for unit in units for row in unit.rows], np.int64)
        lacks, gives = short_quota(self.state.store.tables, self.proof.unplaced.row, rows)
        return (lacks, sums_by_unit(gives, units)) if len(lacks) else NOTHING_LACKS

    def _room(self, units: Sequence[Unit]) -> tuple[Int64Array, Int64Array]:
        """What all nodes together lack of each thing that is asked for, and how much each unit leaves."""
        shapes: Int64Array = self.state.store.tables.pods[layout.POD_SHAPE, self.workload.rows]
        suits: BoolArray = suitable(self.state, np.unique(shapes).tolist())
        short = list(things_short(self.state, shapes, self.workload.least, suits))
        if not short:
            return NOTHING_LACKS
        rows = np.array([row for unit in units for row in unit.rows], np.int64)
        lacks = [one.needed - one.free - held(self.state, one, self.departing, suits).sum() for one in short]
        gives = np.zeros((len(short), len(rows)), np.int64)
        for number, one in enumerate(short):
            gives[number] = held(self.state, one, rows, suits)
        return np.array(lacks, np.int64), sums_by_unit(gives, units)

    def _on_one_node(self, sets: Int64Array, units: Sequence[Unit], short: Int64Array) -> BoolArray:
        """For each set whether it holds as much of everything as is short on some node."""
        tables = self.state.store.tables
        rows = np.array([row for unit in units for row in unit.rows], np.int64)
        nodes, column = np.unique(tables.pods[layout.POD_NODE, rows], return_inverse=True)
        number = np.repeat(np.arange(len(units)), [len(unit.rows) for unit in units])
        shape = int(tables.pods[layout.POD_SHAPE, self.proof.unplaced.row])
        enough: BoolArray = np.ones((len(sets), len(nodes)), np.bool_)
        for amounts, lacks in room_wanted(tables, shape, rows, short):
            by_unit = np.zeros((len(units), len(nodes)), np.int64)
            # Unlike ``+=`` this adds up where a unit has several pods on one node.
            np.add.at(by_unit, (number, column), amounts)
            enough &= np.greater_equal(sets @ by_unit, lacks[nodes])
        welcome = np.flatnonzero(short[nodes, GPU] < FAR_TOO_MUCH)
        found: BoolArray = np.logical_or.reduce(enough[:, welcome], axis=1)
        return found

    def _proven(self, units: Sequence[Unit], *, judged: bool = True) -> Placements:
        rows = list(dict.fromkeys([row for unit in units for row in unit.rows]))
        nodes = NO_NODES
        if self.short is not None:
            nodes = np.unique([self._node_by_row[row] for row in rows])
        with self.proof.without_leaving(self.departing):
            return self.proof.fits_without(rows, nodes, judged=judged)


def nodes_of(state: EngineState, units: Sequence[Unit]) -> dict[int, int]:
    """By the rows of all pods of these units the row of the node on which each is."""
    rows = [row for unit in units for row in unit.rows]
    nodes: list[int] = state.store.tables.pods[layout.POD_NODE, rows].tolist()
    return dict(zip(rows, nodes, strict=True))


def sums_by_unit(gives: Int64Array, units: Sequence[Unit]) -> Int64Array:
    """For each thing the sums over the rows of each unit."""
    # Every unit has a row, so no two starts are equal, which ``reduceat`` would read as one.
    starts = np.cumsum([0, *(len(unit.rows) for unit in units)])[:-1]
    found: Int64Array = np.add.reduceat(gives, starts, axis=1)
    return found
