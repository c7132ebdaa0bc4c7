"""Moves that the engine makes by itself: to start work that waits, and by the clock; both within one budget.

A move is decided as a whole: the pod is told to end, its new place is kept for the pod that its controller
makes instead (``replacements``), and the room that it leaves is kept for the workload that is to start. The
new place is really free at that moment, whatever becomes of pods that still leave other nodes.

Moves do not go round in circles. Those that start a workload send no other back to wait, so each lowers the
number of workloads that wait. Those by the clock make ``room.worth`` of the fleet larger. So without new
facts there are only so many of both; and the budget bounds what new facts can cause.
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

from gpufleet.engine.arrays import layout
from gpufleet.engine.defragment.asked_moves import AskedMoves
from gpufleet.engine.defragment.consolidation import Consolidation, Limits
from gpufleet.engine.defragment.for_workload import MovesFor, moves_for
from gpufleet.engine.defragment.movable import movable
from gpufleet.engine.defragment.move_budget import MoveBudget
from gpufleet.engine.defragment.moves import Relocation
from gpufleet.engine.defragment.replacements import Replacements
from gpufleet.engine.event import DefragmentationSet
from gpufleet.engine.instruction import AnyInstruction, Evict, MovedFrom, MovedTo, WhyEvicted
from gpufleet.engine.lifecycle.engine_state import EngineState
from gpufleet.engine.lifecycle.nominations import Nominations, Placement
from gpufleet.engine.place.workloads.workload import WorkloadName
from gpufleet.engine.preempt.victims import UnplacedWorkload
from gpufleet.engine.queueing.line import Line, LineKey
from gpufleet.model.defragmentation import DefragmentationRules

CHECK_EVERY_US = 10_000_000
"""How often waiting work is looked at."""
SEARCHES_A_LOOK = 4
"""How many searches are made at a time at most: others come with the next look, in turn."""
TRIED_IN_FULL = 64
"""How many promising moves are tried in full by the clock, because nothing else is decided meanwhile."""


class LineCheck(NamedTuple):
    """When a line was looked at, and how many changes were counted for victims then."""

    at_us: int
    victim_changes: int


NEVER_LOOKED = LineCheck(-1, -1)
"""Before every time and every count."""


class Automatic:
    """Decides and makes moves, while rules are set."""

    def __init__(self, state: EngineState, nominations: Nominations) -> None:
        self.state = state
        self.nominations = nominations
        self.replacements = Replacements(state, nominations)
        self.asked = AskedMoves(state, nominations, self.replacements)
        self.budget = MoveBudget()
        self.rules: DefragmentationRules | None = None
        self._next_run_us: int | None = None
        self._next_look_us = 0
        self._looked_at: dict[LineKey, LineCheck] = {}
        self._seen = (-1, -1)
        self._ripe_us: int | None = None

    def set_rules(self, happened: DefragmentationSet, at_us: int) -> None:
        """When to move pods from now on; the first run by the clock is an interval from now."""
        self.rules = happened.rules
        self.budget.recall(happened.spent)
        self._looked_at.clear()
        self._seen = (-1, -1)
        self._next_run_us = self._run_after(at_us)

    def _run_after(self, at_us: int) -> int | None:
        if self.rules is None or self.rules.every_us is None:
            return None
        due_us, window = at_us + self.rules.every_us, self.rules.window
        return due_us if window is None else window.next_us(due_us)

    @property
    def may_have_moves(self) -> bool:
        """True if moves are asked for or wanted by rules, or there is news of earlier ones."""
        moved = self.replacements
        return bool(self.rules is not None or self.asked.targets or moved.taken_over or moved.changed)

    def run(self, at_us: int) -> list[AnyInstruction]:
        """Tell which pods have taken a place over, and make the moves for which it is time."""
        instructions: list[AnyInstruction] = []
        for nomination in self.replacements.take_taken_over():
            instructions += self.nominations.instructions_of(nomination)
        if self.asked.targets:
            instructions += self.asked.run(at_us)
        if self.rules is not None:
            instructions += self._by_rules(self.rules, at_us)
        # Last: what was moved just now is told with what was kept before.
        return instructions + self.replacements.take_changed()

    def _by_rules(self, rules: DefragmentationRules, at_us: int) -> list[AnyInstruction]:
        """Make the moves that rules want by now."""
        instructions: list[AnyInstruction] = []
        if rules.start_after_us is not None and at_us >= self._next_look_us:
            instructions += self._start_waiting_work(rules, at_us)
        if self._next_run_us is not None and at_us >= self._next_run_us:
            self._next_run_us = self._run_after(at_us)
            instructions += self._put_together(rules, at_us)
        return instructions

    def next_due_us(self) -> int | None:
        """When there is a reason to look again even if nothing happens."""
        due_us = self.replacements.next_due_us()
        if self.rules is None and not self.asked.targets:
            # As in nearly every step: this is asked in each.
            return due_us
        dues = [due_us, self.asked.next_due_us()]
        if self.rules is not None:
            dues += [self._next_run_us, self._look_due_us()]
        return min((due_us for due_us in dues if due_us is not None), default=None)

    # To start work that waits.

    def _start_waiting_work(self, rules: DefragmentationRules, at_us: int) -> list[AnyInstruction]:
        """Make the moves that start one workload, if there are any."""
        self._next_look_us = at_us + CHECK_EVERY_US
        self._seen = self._marks()
        waiting = self.state.waiting
        self._looked_at = {key: one for key, one in self._looked_at.items() if key in waiting.lines}
        lines = self._waiting_lines(rules)
        self._ripe_us = min((due_us for due_us, _ in lines if due_us > at_us), default=None)
        left = self.budget.left(rules, at_us)
        due = [line for due_us, line in lines if due_us <= at_us and self._is_scattered(line)]
        units = movable(self.state, at_us, rules.queues) if due and left.moves else []
        # Those that were looked at longest ago go first, so that each has its turn.
        due.sort(key=lambda line: (self._looked_at.get(line.key, NEVER_LOOKED).at_us, line.head()))
        if len(due) > SEARCHES_A_LOOK:
            # More lines are due than one look searches, so the next one is due at once.
            self._ripe_us = at_us
        for line in due[:SEARCHES_A_LOOK] if units else ():
            self._looked_at[line.key] = LineCheck(at_us, self.state.changes.victims.count)
            unplaced = UnplacedWorkload(self.state.workloads.first_of(line), at_us)
            found = moves_for(unplaced, self.state, units, left.moves)
            if found is not None and sum(one.lost for one in found.relocations) <= left.lost:
                instructions = self._start(unplaced, found, at_us)
                if instructions:
                    self._ripe_us = at_us
                    return instructions
        return []

    def _start(self, unplaced: UnplacedWorkload, found: MovesFor, at_us: int) -> list[AnyInstruction]:
        """Move these, and keep their room for the workload; nothing where a place is not free yet."""
        state, pods = self.state, self.state.pods
        workload = unplaced.workload
        instructions = self._move(found.relocations, workload.name, workload.title, at_us)
        if not instructions:
            return []
        nodes = {one.node for one in found.placements}
        near = [row for row in found.leave if pods.node_row(row) in nodes] or list(found.leave)
        waits_for = [pods.pod_at(row).uid for row in (*near, *(one.row for one in found.relocations))]
        for one in found.placements:
            state.waiting.withdraw(one.row)
        nomination = self.nominations.nominate(found.placements, tuple(waits_for))
        state.departures.unsettled[nomination.number] = None
        return [*instructions, *self.nominations.instructions_of(nomination)]

    def _waiting_lines(self, rules: DefragmentationRules) -> list[tuple[int, Line]]:
        """Lines that lack room, each with the moment from which it may be started by moves.

        Without those that were looked at since anything changed.
        """
        waiting, victim_changes = self.state.waiting, self.state.changes.victims.count
        by_shape = waiting.parked_by_shape.values()
        found: list[tuple[int, Line]] = []
        for key in [*waiting.parked_gangs, *(key for keys in by_shape for key in keys)]:
            line, looked = waiting.lines[key], self._looked_at.get(key, NEVER_LOOKED)
            if looked.victim_changes != victim_changes and rules.reaches(key.queue) and waiting.trim(line):
                found.append((self._since_us(line) + (rules.start_after_us or 0), line))
        return found

    def _since_us(self, line: Line) -> int:
        return self.state.workloads.first_of(line).ranked.created_at_us

    def _is_scattered(self, line: Line) -> bool:
        """True if there are enough GPUs free for a workload, where it may run at all, though not together."""
        state, tables = self.state, self.state.store.tables
        rows = self._needed(line)
        if not rows:
            return False
        gpus = [state.pods.pod_at(row).shape.gpu for row in rows]
        slot = state.shapes.slot(int(tables.pods[layout.POD_SHAPE, rows[0]]))
        there = tables.nodes[layout.NODE_PRESENT] == 1
        there[: state.fleet.row_count] &= state.shapes.rankings.refused[slot, : state.fleet.row_count] == 0
        free = np.maximum(tables.nodes[layout.NODE_FREE_GPU_MILLI][there], 0).sum()
        return 0 < sum(gpu.total_milli for gpu in gpus) <= int(free)

    def _needed(self, line: Line) -> list[int]:
        """The pods that must fit: the first of a line, or as many as a gang lacks, 0 if it has enough."""
        workload = self.state.workloads.first_of(line)
        return workload.rows[: workload.least] if workload.must_start else []

    def _look_due_us(self) -> int | None:
        waiting = self.state.waiting
        is_on = self.rules is not None and self.rules.start_after_us is not None
        if not is_on or not (waiting.parked_gangs or waiting.parked_by_shape):
            return None
        if self._marks() != self._seen:
            return self._next_look_us
        return None if self._ripe_us is None else max(self._ripe_us, self._next_look_us)

    def _marks(self) -> tuple[int, int]:
        """What changes whenever there is a reason to look again, but for time."""
        return (self.state.changes.victims.count, self.state.waiting.last_sequence)

    # By the clock.

    def _put_together(self, rules: DefragmentationRules, at_us: int) -> list[AnyInstruction]:
        """Move pods so that what is free lies together."""
        left = self.budget.left(rules, at_us)
        if not left.moves:
            return []
        limits = Limits(left.moves, left.lost, TRIED_IN_FULL, rules.queues)
        search = Consolidation(self.state, at_us, limits)
        search.plan()
        instructions: list[AnyInstruction] = []
        for unit in search.relocations:
            more = self._move(unit, None, None, at_us)
            if not more:
                # Those behind it count on what it would have left.
                break
            instructions += more
        return instructions

    # Both.

    def _move(
        self, moves: Sequence[Relocation], beneficiary: WorkloadName | None, name: str | None, at_us: int
    ) -> list[AnyInstruction]:
        """Tell these to end, and keep their new places; nothing where one of these is not really free."""
        state = self.state
        places = [one.place._replace(row=self.replacements.make(one.row)) for one in moves]
        if not self._are_free(places):
            for place in places:
                self.replacements.drop(place.row)
            return []
        instructions: list[AnyInstruction] = []
        for one, place in zip(moves, places, strict=True):
            pod, source = state.pods.pod_at(one.row), state.fleet.node_at(self._node_of(one.row)).name
            state.departures.evict(pod.uid)
            state.budgets.spend(pod)
            self.replacements.keep(place, MovedFrom(pod.name or pod.uid, source, name, at_us, one.lost))
            self.budget.note(at_us, one.lost)
            moved = MovedTo(state.fleet.node_at(place.node).name, one.lost)
            instructions.append(Evict(pod.uid, beneficiary, WhyEvicted.MOVED.value, moved=moved))
        return instructions

    def _node_of(self, row: int) -> int:
        return int(self.state.store.tables.pods[layout.POD_NODE, row])

    def _are_free(self, places: Iterable[Placement]) -> bool:
        """True if there is room for all of these now, with every pod there that is there."""
        state, every = self.state, list(places)
        with state.trial():
            state.pods.make_journal_room(len(every), state.store.tables.pod_devices.shape[1])
            return all(map(self.nominations.fits_and_is_placed, every))
