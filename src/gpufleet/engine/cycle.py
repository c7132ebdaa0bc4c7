"""One cycle of decisions: which work is next, where it goes, and what is said of work that waits.

Queues are taken by their turns (``queueing.turns``), inside a queue the heads of its lines, which ``serving``
places, parks, or helps in another way. The cycle ends when every line is empty, parked, or behind the parked
head of a strict queue. Before that, lines are woken to which something has opened a way since they were
parked.
"""

from collections.abc import Iterator

from gpufleet.engine.defragment.automatic import Automatic
from gpufleet.engine.explanations.reservation_report import ReservationReport
from gpufleet.engine.explanations.verdicts import Verdicts
from gpufleet.engine.instruction import (
    AnyInstruction,
    GangUnknown,
    WhyEvicted,
)
from gpufleet.engine.lifecycle.changes import Change
from gpufleet.engine.lifecycle.engine_state import EngineState
from gpufleet.engine.lifecycle.nominations import Nominations
from gpufleet.engine.lifecycle.violations import Violations
from gpufleet.engine.preempt.overtime import Overtime
from gpufleet.engine.preempt.recalled_nominations import take_up
from gpufleet.engine.preempt.search_retries import SearchRetries
from gpufleet.engine.preempt.stopping import closed_nominations, running_in_stopped_queues
from gpufleet.engine.preempt.victims import (
    NoVictims,
    VictimSearch,
)
from gpufleet.engine.queueing.line import LineKey
from gpufleet.engine.reserve.refused_together import RefusedTogether
from gpufleet.engine.reserve.reservations import HeldReservation, Reservations, earliest
from gpufleet.engine.reserve.start_proof import StartProof
from gpufleet.engine.serving.carrying_out import CarryingOut
from gpufleet.engine.serving.gangs import GangLines
from gpufleet.engine.serving.other_ways import OtherWays
from gpufleet.engine.serving.pods import PodLines
from gpufleet.engine.work_slices import SEARCH_WORK, WorkSlice

NOTHING_KNOWN: frozenset[int] = frozenset()
"""Of no pod it is certain that it cannot start."""


class Cycle:
    """Makes the decisions of one step."""

    def __init__(
        self,
        state: EngineState,
        nominations: Nominations,
        victims: VictimSearch,
        overtime: Overtime,
        reservations: Reservations,
        moving: Automatic,
        violations: Violations,
    ) -> None:
        self.state = state
        self.nominations = nominations
        self.victims = victims
        self.evicts = not isinstance(victims, NoVictims)
        self.overtime = overtime
        self.reservations = reservations
        self.moving = moving
        self.violations = violations
        self.reservation_report = ReservationReport(state, reservations)
        self.verdicts = Verdicts(state, reservations, self.reservation_report)
        self.search_retries = SearchRetries(state)
        self.start_proof = StartProof(state, victims, reservations)
        self.refusing = RefusedTogether(state, victims, reservations, self.search_retries)
        self.carrying_out = CarryingOut(
            state, nominations, reservations.guests, moving.replacements, self.reservation_report
        )
        other_ways = OtherWays(self.carrying_out, nominations, victims, reservations, self.search_retries)
        self.pods = PodLines(self.carrying_out, other_ways, self.verdicts)
        self.gangs = GangLines(self.carrying_out, other_ways, self.verdicts)

    def begin(self, at_us: int, instructions: list[AnyInstruction]) -> bool:
        """Prepare the decisions of a step, and make the first; True if there can be no other.

        ``instructions`` were told before and come first. Most steps of a fleet without queues are this: a pod
        came, and is placed at once.
        """
        state, carrying_out = self.state, self.carrying_out
        carrying_out.begin(at_us, instructions)
        if state.policy.defers:
            state.enqueue_newcomer()
            return True
        if state.only_room_decides:
            state.begin_step(at_us)
            state.pods.left_nodes.clear()
            # For all pods that come and go in this step: nothing waits that would be told of each.
            state.changes.note(Change.ROOM_OFFERED)
        else:
            self._prepare(at_us)
        if state.newcomer is None:
            state.refused_newcomer = None
        else:
            for row in state.place_newcomer():
                carrying_out.bind(row)
        return state.only_room_decides

    def run(self, at_us: int, work: WorkSlice) -> Iterator[list[AnyInstruction]]:
        """Decide everything else that can be decided now.

        What a slice of work says is given out where it ends; the rest is left with ``carrying_out``.
        """
        state, carrying_out = self.state, self.carrying_out
        if state.waiting.has_turns:
            yield from self._serve_queues(at_us, work)
        # Places that were reserved before and are not again: work that was refused may have them.
        if self.reservations.former and self.reservations.end_round():
            self._wake_lines_that_may_fit()
            state.wake_kept_out(every_line=False)
            state.refused_newcomer = None
            yield from self._serve_queues(at_us, work)
        # After the turns, which may have completed a gang: only one that they could not is taken back.
        if self.violations.watches:
            yield from self._take_gangs_back(at_us, work)
        # After all lines, so that no move takes room from work that waits.
        if self.moving.may_have_moves:
            carrying_out.instructions += self.moving.run(at_us)
        if self.nominations.withdrawn:
            carrying_out.instructions += self.nominations.take_withdrawn()
        if self.reservation_report.may_have_news:
            carrying_out.instructions += self.reservation_report.news(at_us)
        if state.waiting.unreported or state.short_gangs or state.unknown_gangs:
            yield from self._tell_waiting_work(at_us, work)
        state.count_evictions()

    def only_room_decides(self) -> bool:
        """True if nothing waits, is kept, watched or due, so that a pod that comes depends on room alone, and
        a pod that goes concerns no other.

        That holds until another kind of event comes, or a pod that finds no room or asks for more than room.
        """
        state, reservations, nominations = self.state, self.reservations, self.nominations
        waiting, replacements = state.waiting, self.moving.replacements
        # The commonest of these come first: one is enough.
        return not (
            state.queues.is_active
            or waiting.lines
            or state.neighbours.are_pending
            or state.gate.is_choosy
            or state.budgets.accounts
            or waiting.has_turns
            or waiting.unreported
            or state.short_gangs
            or state.unknown_gangs
            or state.queues.tree.is_stale
            or state.learned.queues
            or state.past_use.is_due()
            or state.pauses.are_pending
            or state.departures.are_pending
            or state.eviction_immunity.is_watching
            or nominations.are_pending
            or replacements.are_pending
            or reservations.are_pending
            or self.moving.may_have_moves
            or self.reservation_report.may_have_news
            or self.search_retries.are_due
            or self.overtime.is_watching
            or self.overtime.due_us_by_uid
            or self.violations.watches
        )

    def _prepare(self, at_us: int) -> None:
        """What comes before the turns: they count on queues, kept places and woken lines as they are now.

        Each part with nothing to do is asked by one test and not by a call: there is one step for each pod
        that comes alone, and calls would be most of it.
        """
        state, reservations, nominations = self.state, self.reservations, self.nominations
        reservations.nothing_starts, reservations.hopeless = False, NOTHING_KNOWN
        replacements, queues = self.moving.replacements, state.queues
        # Queues first: all that follows asks which queue a workload belongs to and whether it may start.
        settled = (queues.is_active or queues.tree.is_stale) and queues.settle(state.named_queue)
        state.begin_step(at_us)
        if state.pauses.dues:
            state.end_backoff(at_us)
        if settled:
            self.overtime.settle()
            for nomination in closed_nominations(state):
                nominations.cancel(nomination)
        if replacements.recalled:
            replacements.resume(at_us)
        if replacements.by_row or replacements.origins:
            replacements.drop_ended(at_us)
        # Before work has its turn, so that a holder competes by its turn and not by having been first.
        if reservations.held_by_holder or reservations.dues.heap:
            retry_us = self.search_retries.next_due_us()
            reservations.put_aside(at_us, retry_us, never if settled else self.start_proof.holds)
        if nominations.recalled or nominations.made:
            self._resume_recalled(at_us)
        # Before any line has its turn: pods for which a place is kept go first into what has fallen free.
        if state.departures.nominations:
            self._serve_nominated()
        state.pods.left_nodes.clear()
        nothing_starts = reservations.nothing_starts
        if state.changes.room.take():
            state.changes.note(Change.ROOM_OFFERED)
            if not nothing_starts and (state.waiting.parked_by_shape or state.waiting.parked_gangs):
                self._wake_lines_that_may_fit()
        if settled or (queues.is_active and not nothing_starts):
            state.wake_kept_out(every_line=settled)
        if state.neighbours.shapes_to_retry:
            self._wake_shapes_to_retry()
        self.search_retries.wake(at_us, in_vain=nothing_starts)
        if nothing_starts:
            reservations.keep_as_they_are(at_us)
        if self.overtime.is_watching or self.violations.watches or queues.is_active:
            self._end_unasked(at_us)
            if nothing_starts and state.departures.evicted:
                reservations.put_aside_after_all()

    def _end_unasked(self, at_us: int) -> None:
        """Ends that no workload asked for come before the turns: the turns count on what they leave."""
        state, carrying_out = self.state, self.carrying_out
        if self.evicts and state.queues.is_active:
            for row in running_in_stopped_queues(state):
                carrying_out.evict(row, None, WhyEvicted.STOPPED)
        if self.overtime.is_watching:
            for row, limit in self.overtime.take(at_us):
                carrying_out.evict(row, None, WhyEvicted.OVERTIME, limit)
        if self.violations.watches:
            for row, why in self.violations.take(at_us, of_gangs=False):
                carrying_out.evict(row, None, why)

    def _resume_recalled(self, at_us: int) -> None:
        """Before any work has its turn, nominations that were in force before are so again."""
        state, is_guest = self.state, self.reservations.guests.are_of
        for one in take_up(state, self.nominations, self.victims, is_guest, at_us):
            self.carrying_out.take(one.plan, one.holder, state.queue_of(one.placements[0].row))
            resumed = self.nominations.resume(one.placements, one.waits_for, one.number)
            self.carrying_out.instructions += resumed

    def _take_gangs_back(self, at_us: int, work: WorkSlice) -> Iterator[list[AnyInstruction]]:
        """Gangs end that this step could not complete; what begins anew takes its turn."""
        ending = self.violations.take(at_us, of_gangs=True)
        for row, why in ending:
            self.carrying_out.evict(row, None, why)
        self.carrying_out.instructions += self.violations.conclude()
        if ending:
            self.state.refused_newcomer = None
            yield from self._serve_queues(at_us, work)

    def _serve_nominated(self) -> None:
        """Bind pods that have waited for others to leave, there or on room that is free by now."""
        self.carrying_out.bind_nominated(self.nominations.settle())
        if self.state.changes.room.is_pending:
            self.carrying_out.bind_nominated(self.nominations.move())
        self.carrying_out.instructions += self.nominations.take_prolonged()

    def next_due_us(self) -> int | None:
        """When a step is wanted even if nothing happens."""
        due_us, moving, reservations = self.search_retries.next_due_us(), self.moving, self.reservations
        if moving.rules is not None or moving.asked.targets or moving.replacements.by_row:
            due_us = earliest((due_us, moving.next_due_us()))
        if reservations.held_by_holder or reservations.dues.heap:
            due_us = earliest((due_us, reservations.next_due_us()))
        if self.state.pauses.dues:
            due_us = earliest((due_us, self.state.next_backoff_us()))
        if self.overtime.is_watching:
            due_us = earliest((due_us, self.overtime.next_due_us()))
        if self.violations.watches:
            due_us = earliest((due_us, self.violations.next_due_us()))
        return due_us

    def _wake_lines_that_may_fit(self) -> None:
        # A copy, because a line that is woken leaves the table.
        for shape_row in list(self.state.waiting.parked_by_shape):
            self._wake_lines(shape_row)
        for key in list(self.state.waiting.parked_gangs):
            self.state.waiting.wake(key)

    def _wake_lines(self, shape_row: int) -> bool:
        """Wake the lines of a shape whose first pod may run now; False if there is none."""
        waiting, woken = self.state.waiting, False
        if shape_row in waiting.parked_by_shape and self.state.fits_somewhere(shape_row):
            for key in list(waiting.parked_by_shape[shape_row]):
                if not self.state.neighbours.is_watchful or self._may_run(key):
                    waiting.wake(key)
                    woken = True
        return woken

    def _may_run(self, key: LineKey) -> bool:
        """True if the first pod of a line fits among its neighbours.

        Where a line was not set apart, others' anti-affinity does not count: those behind the first
        may look different.
        """
        line = self.state.waiting.lines[key]
        if not self.state.waiting.trim(line):
            return False
        row = line.waiting[0][-1]
        return len(self.state.related.feasible(row, others=bool(key.apart))) > 0

    def _wake_shapes_to_retry(self) -> bool:
        """Wake lines to which a pod that was just placed may have opened a place; False if there are none."""
        woken = False
        for shape_row in self.state.neighbours.take_shapes_to_retry():
            woken |= self._wake_lines(shape_row)
            woken |= self.gangs.wake_for(shape_row)
        return woken

    def _serve_queues(self, at_us: int, work: WorkSlice) -> Iterator[list[AnyInstruction]]:
        waiting, turns = self.state.waiting, self.state.turns
        shapes_to_retry = self.state.neighbours.shapes_to_retry
        if not waiting.has_turns:
            return
        turns.begin(at_us)
        while (line := turns.take()) is not None:
            searches = self.victims.runs
            name = line.key.queue
            if line.called:
                self.search_retries.forget(line)
                waiting.wake(line.key)
            if line.closed or not waiting.trim(line):
                # The line of a gang whose members were told to end in this step.
                turns.offer(name)
                continue
            gang = line.key.gang
            served = self.pods.serve(line) if gang is None else self.gangs.serve(line, gang)
            if shapes_to_retry and self._wake_shapes_to_retry():
                turns.begin(at_us)
            elif served or not waiting.queue(name).strict:
                turns.offer(name)
            else:
                turns.rest(name)
            # What was decided stays: no trial is open, and thousands may start in one step.
            self.state.store.keep()
            if not served and waiting.called and self.refusing.is_all_that_is_left(line, at_us):
                break
            work.spend(1 + SEARCH_WORK * (self.victims.runs - searches))
            if work.ends():
                yield self.carrying_out.take_instructions()
        waiting.end_calls()

    def _tell_waiting_work(self, at_us: int, work: WorkSlice) -> Iterator[list[AnyInstruction]]:
        state, waiting, instructions = self.state, self.state.waiting, self.carrying_out.instructions
        for members in state.take_short_gangs():
            self.carrying_out.tell_gang(members, len(members.placed), None, members.short_role)
        for name, members in state.take_unknown_gangs():
            members.reported_unknown = True
            instructions.append(GangUnknown(name, members.arrived))
        for key in waiting.take_unreported():
            line = waiting.lines.get(key)
            if line is None or line.key.gang is not None:
                continue
            if line.parked:
                work.spend(len(line.unreported))
                instructions += self.verdicts.of_unreported(line, at_us)
                line.unreported.clear()
                if work.ends():
                    yield self.carrying_out.take_instructions()
                    # What was collected up to here was given out, and there is another list now.
                    instructions = self.carrying_out.instructions
            else:
                waiting.tell_later(key)


def never(_held: list[HeldReservation], _at_us: int) -> bool:
    """Nothing is certain while queues are described anew."""
    return False
