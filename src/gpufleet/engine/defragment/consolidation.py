"""Moves that make larger gaps: greedy, each the best gain a moved pod among those tried.

A fleet is better the more pods of one, two, four, eight GPUs would fit (``room.worth``). For every pod, every
shared GPU and every node it is worked out what their end alone would gain; the most promising are then
tried in full, with every pod placed again, and the best is kept. That is repeated until nothing gains, or
the budget is spent. Not the optimum: moves that pay only together are found only if they empty one node.
"""

from heapq import nsmallest

import msgspec

from gpufleet.engine.arrays import layout
from gpufleet.engine.defragment.free_capacity import FreeCapacity, free_whole_gpus, room, worth
from gpufleet.engine.defragment.movable import movable, together
from gpufleet.engine.defragment.moves import Move, Relocation, move_each
from gpufleet.engine.lifecycle.engine_state import EngineState
from gpufleet.engine.lifecycle.nominations import placement_of
from gpufleet.engine.place.choose.trial import Trial
from gpufleet.engine.preempt.candidates import Unit
from gpufleet.model.identifiers import QueueName

SEARCHES_A_ROUND = 16
"""How many promising units are tried in full before the best of them is kept."""
TRIES_MAX = 4096
"""A search that tries more than this is cut short, and says so."""


class Defragmentation(msgspec.Struct, frozen=True):
    """Moves in the order in which they can be made, and what is free before and after them.

    ``cut``: not everything was looked at, because that would have taken too long.
    """

    moves: tuple[Move, ...]
    before: FreeCapacity
    after: FreeCapacity
    cut: bool


class Limits(msgspec.Struct, frozen=True):
    """How many pods are moved at most, how much work may end with them (GPU-milliseconds), how many units are
    tried in full, and whose pods are moved (all queues' where none are named).
    """

    moves_max: int
    lost_max: int | None = None
    tried_max: int = TRIES_MAX
    queues: tuple[QueueName, ...] = ()


class Found(msgspec.Struct, frozen=True):
    """A unit that gains, and where its pods go."""

    gain: int
    unit: Unit
    targets: dict[int, int]


class Consolidation:
    """One search. ``relocations`` are what it found, unit by unit, in the order in which they can be made."""

    def __init__(self, state: EngineState, at_us: int, limits: Limits) -> None:
        self.state = state
        self.limits = limits
        self.tried = 0
        self.lost = 0
        self.units = together(state, movable(state, at_us, limits.queues))
        self.relocations: list[tuple[Relocation, ...]] = []
        self.promises: dict[tuple[int, ...], int] = {}
        self.moved: dict[int, None] = {}
        self.moves: list[Move] = []

    def plan(self) -> Defragmentation:
        """The moves, none of them made."""
        before = room(self.state.store.tables)
        with self.state.trial() as trial:
            while self.tried < self.limits.tried_max:
                found = self._best()
                if found is None:
                    break
                self._make(found, trial)
            after = room(self.state.store.tables)
        return Defragmentation(tuple(self.moves), before, after, self.tried >= self.limits.tried_max)

    def _best(self) -> Found | None:
        """The best of the most promising units; those that turn out to gain nothing are dropped."""
        while self.tried < self.limits.tried_max:
            self.units = [unit for unit in self.units if self._is_open(unit)]
            promising = nsmallest(SEARCHES_A_ROUND, self.units, key=self._rank)
            if not promising:
                return None
            found = [one for one in map(self._tried, promising) if one is not None]
            gaining = {one.unit.rows for one in found}
            dropped = {unit.rows for unit in promising} - gaining
            self.units = [unit for unit in self.units if unit.rows not in dropped]
            if found:
                return max(found, key=lambda one: (one.gain / len(one.unit.rows), -one.unit.lost))
        return None

    def _is_open(self, unit: Unit) -> bool:
        """True if the unit is within the budgets, none of it was moved, and its end would gain something."""
        limits = self.limits
        if len(self.moved) + len(unit.rows) > limits.moves_max:
            return False
        if limits.lost_max is not None and self.lost + unit.lost > limits.lost_max:
            return False
        if any(row in self.moved for row in unit.rows):
            return False
        pods = self.state.pods
        if not self.state.budgets.allow(map(pods.pod_at, (*self.moved, *unit.rows))):
            return False
        return self._promise(unit) > 0

    def _rank(self, unit: Unit) -> tuple[float, int, tuple[int, ...]]:
        return (-self._promise(unit) / len(unit.rows), unit.lost, unit.rows)

    def _promise(self, unit: Unit) -> int:
        """What the end of these pods would gain at most, were they placed where they harm no other.

        Whole GPUs take at least their number from wherever they go.
        """
        if unit.rows not in self.promises:
            node = self._source(unit)
            with self.state.trial() as trial:
                before = free_whole_gpus(self.state.store.tables)[node]
                trial.release_all(unit.rows)
                after = free_whole_gpus(self.state.store.tables)[node]
            shapes = (self.state.pods.pod_at(row).shape.gpu for row in unit.rows)
            taken = sum(gpu.count for gpu in shapes if gpu.whole)
            self.promises[unit.rows] = int(worth(after) - worth(before)) - taken
        return self.promises[unit.rows]

    def _source(self, unit: Unit) -> int:
        return int(self.state.store.tables.pods[layout.POD_NODE, unit.rows[0]])

    def _tried(self, unit: Unit) -> Found | None:
        """What the unit gains with all of it placed again; None for nothing."""
        self.tried += 1
        tables = self.state.store.tables
        before = int(worth(free_whole_gpus(tables)).sum())
        with self.state.trial() as trial:
            targets = move_each(self.state, trial, unit.rows)
            gain = int(worth(free_whole_gpus(tables)).sum()) - before
        return None if targets is None or gain <= 0 else Found(gain, unit, targets)

    def _make(self, found: Found, trial: Trial) -> None:
        """The moves stand for the rest of the search."""
        fleet, pods, source = self.state.fleet, self.state.pods, self._source(found.unit)
        with self.state.trial() as attempt:
            targets = move_each(self.state, attempt, found.unit.rows) or {}
            attempt.keep_within(trial)
        lost = found.unit.lost // len(found.unit.rows)
        self.lost += found.unit.lost
        self.relocations.append(
            tuple(Relocation(row, placement_of(self.state, row), lost) for row in targets)
        )
        for row in targets:
            self.moved[row] = None
            source_name, target_name = fleet.node_at(source).name, fleet.node_at(targets[row]).name
            self.moves.append(Move(pods.pod_at(row).uid, source_name, target_name, lost))
        # On other nodes nothing changed, so what units there promise still holds.
        touched = {source, *targets.values()}
        kept = {unit.rows for unit in self.units if self._source(unit) not in touched}
        self.promises = {rows: gain for rows, gain in self.promises.items() if rows in kept}
