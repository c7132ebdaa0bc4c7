"""One cycle of decisions: which work is next, where it goes, and what is said of work that waits.

Queues are taken by their turns (``queueing.turns``), inside a queue the heads of its lines. What
fits is booked at once and bound; what does not is parked with its line, or, if the victim search
finds a way, causes evictions. The cycle ends when every line is empty, parked, or behind the
parked head of a strict queue. Work that has waited for long holds a reservation (``reserve``).
"""

from gpufleet.engine.arrays import layout
from gpufleet.engine.arrays.array_types import Int64Array
from gpufleet.engine.defragment.automatic import Automatic
from gpufleet.engine.engine_errors import BrokenInvariantError
from gpufleet.engine.explanations.reservation_report import ReservationReport
from gpufleet.engine.explanations.verdicts import Verdicts, gang_refusal
from gpufleet.engine.instruction import (
    AnyInstruction,
    Bind,
    Evict,
    GangUnknown,
    RunTimeLimit,
    Unschedulable,
    Verdict,
    WhyEvicted,
)
from gpufleet.engine.lifecycle.engine_state import EngineState
from gpufleet.engine.lifecycle.nominations import Nominations
from gpufleet.engine.lifecycle.violations import Violations
from gpufleet.engine.place.choose.placement import NO_NODES, place_pod_by_handle
from gpufleet.engine.preempt.overtime import Overtime
from gpufleet.engine.preempt.recalled_nominations import take_up
from gpufleet.engine.preempt.search_retries import SearchRetries
from gpufleet.engine.preempt.stopping import closed_nominations, running_in_stopped_queues
from gpufleet.engine.preempt.victims import (
    EvictionPlan,
    NoEvictionPlan,
    NoVictims,
    UnplacedWorkload,
    VictimSearch,
)
from gpufleet.engine.queueing.waiting import Line, LineKey
from gpufleet.engine.reserve.backfill import Backfill
from gpufleet.engine.reserve.refused_together import RefusedTogether
from gpufleet.engine.reserve.reservations import Reservations
from gpufleet.engine.state.gang_members import Members
from gpufleet.model.identifiers import GangName, PodUid, QueueName


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
        self.backfill = Backfill(state, reservations)
        self.telling = ReservationReport(state, reservations)
        self.verdicts = Verdicts(state, reservations, self.telling)
        self.search_retries = SearchRetries(state)
        self.refusing = RefusedTogether(state, victims, reservations, self.search_retries)
        self.at_us = 0
        self.instructions: list[AnyInstruction] = []
        self._gangs_by_waiting_shape: dict[int, dict[LineKey, None]] = {}
        self._again_at_us: int | None = None

    def run(self, at_us: int) -> list[AnyInstruction]:
        """Decide everything that can be decided now."""
        self.instructions = []
        settled = self.state.queues.settle(self.state.named_queue)
        self.at_us = at_us
        self.state.begin_step(at_us)
        if self.state.pauses.dues:
            self.state.end_backoff(at_us)
        if settled:
            self.overtime.settle()
            for nomination in closed_nominations(self.state):
                self.nominations.cancel(nomination)
        self.moving.replacements.drop_ended(at_us)
        self.reservations.put_aside(at_us)
        if self.nominations.recalled:
            self._resume_recalled(at_us)
        self._serve_nominated()
        if self.state.room_freed:
            self.state.room_freed = False
            self.state.victim_changes += 1
            self._wake_lines_that_may_fit()
        if settled or self.state.queues.is_active:
            self.state.wake_kept_out(every_line=settled)
        if self.state.neighbours.shapes_to_retry:
            self._wake_shapes_to_retry()
        self.search_retries.wake(at_us)
        if self.evicts and self.state.queues.is_active:
            for row in running_in_stopped_queues(self.state):
                self._evict(row, None, WhyEvicted.STOPPED)
        for row, limit in self.overtime.take(at_us):
            self._evict(row, None, WhyEvicted.OVERTIME, limit)
        if self.violations.watches:
            for row, why in self.violations.take(at_us, of_gangs=False):
                self._evict(row, None, why)
        self._serve_queues(at_us)
        if self.reservations.end_round():
            self._wake_lines_that_may_fit()
            self.state.wake_kept_out(every_line=False)
            self._serve_queues(at_us)
        if self.violations.watches:
            self._take_gangs_back(at_us)
        self.instructions += self.moving.run(at_us)
        self.instructions += [*self.nominations.take_withdrawn(), *self.telling.news(at_us)]
        self._tell_waiting_work()
        self.state.count_evictions()
        return self.instructions

    def _resume_recalled(self, at_us: int) -> None:
        """Before any work has its turn, nominations that were in force before are so again."""
        state, is_guest = self.state, self.reservations.guests.are_of
        for one in take_up(state, self.nominations, self.victims, is_guest, at_us):
            self._take(one.plan, one.holder, state.queue_of(one.placements[0].row))
            self.instructions += self.nominations.resume(one.placements, one.waits_for, one.number)

    def _take_gangs_back(self, at_us: int) -> None:
        """Gangs end that this step could not complete; what begins anew takes its turn."""
        ending = self.violations.take(at_us, of_gangs=True)
        for row, why in ending:
            self._evict(row, None, why)
        self.instructions += self.violations.conclude()
        if ending:
            self._serve_queues(at_us)

    def _serve_nominated(self) -> None:
        """Bind pods that have waited for others to leave, there or on room that is free by now."""
        if self.state.departures.nominations:
            self._bind_nominated(self.nominations.settle())
            if self.state.room_freed:
                self._bind_nominated(self.nominations.move())
            self.instructions += self.nominations.take_prolonged()
        self.state.pods.left_nodes.clear()

    def _bind_nominated(self, rows: list[int]) -> None:
        for row in rows:
            self._bind(row)
        gangs = dict.fromkeys(self.state.pods.pod_at(row).gang for row in rows)
        for gang in filter(None, gangs):
            self.state.update_gang(gang)

    def next_due_us(self) -> int | None:
        """When a step is wanted even if nothing happens."""
        dues = (
            self.state.next_backoff_us() if self.state.pauses.dues else None,
            self.search_retries.next_due_us(),
            self.overtime.next_due_us(),
            self.reservations.next_due_us(),
            self.moving.next_due_us(),
            self.violations.next_due_us() if self.violations.watches else None,
        )
        return min([due_us for due_us in dues if due_us is not None], default=None)

    def _wake_lines_that_may_fit(self) -> None:
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
            for key in self._gangs_by_waiting_shape.pop(shape_row, ()):
                if key in self.state.waiting.parked_gangs:
                    self.state.waiting.wake(key)
                    woken = True
        return woken

    def _serve_queues(self, at_us: int) -> None:
        waiting, turns = self.state.waiting, self.state.turns
        shapes_to_retry = self.state.neighbours.shapes_to_retry
        self._bind_nominated(self.state.place_newcomer())
        turns.begin(at_us)
        while (line := turns.take()) is not None:
            name = line.key.queue
            if line.called:
                self.search_retries.forget(line)
                waiting.wake(line.key)
            if line.closed or not waiting.trim(line):
                # The line of a gang whose members were told to end in this step.
                turns.offer(name)
                continue
            served = self._serve_gang(line) if line.key.gang is not None else self._serve_pod(line)
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
        waiting.end_calls()

    def _serve_pod(self, line: Line) -> bool:
        """Place the first pod of a line; otherwise park the line."""
        state = self.state
        row = line.waiting[0][-1]
        if state.queues.is_active:
            if not line.key.late and state.gate.is_late(row):
                state.set_apart_late(line)
                return True
            if not line.key.refused and state.gate.is_refused(row):
                state.set_apart_refused(line)
                return True
            if state.gate.keeps_out(row):
                if state.gate.bar(row) is None and self._find_other_ways(line, row, lacks_quota=True):
                    return True
                state.keep_out(line, row)
                # Work that came late to a draining queue, or may not use the queue, holds back no other.
                return line.key.late or bool(line.key.refused)
        if state.neighbours.is_watchful and state.neighbours.concerns(row):
            return self._serve_related(line, row)
        if self._place(line, row) == layout.NOT_SET:
            return self._seek_or_park(line, row)
        self._bind(row)
        state.waiting.advance(line)
        return True

    def _place(self, line: Line, row: int) -> int:
        """Book the first pod of a line on its best node; the node or NOT_SET."""
        state, gpu = self.state, self.state.pods.pod_at(row).shape.gpu
        state.pods.make_journal_room(1, gpu.count)
        if not (state.gate.is_choosy or gpu.model_order):
            return self._place_on(row, state.shapes.slot(line.key.shape_row), NO_NODES)
        for where in state.gate.in_order(row, NO_NODES):
            node = self._place_on(row, where.slot, where.nodes)
            if node != layout.NOT_SET:
                return node
        return layout.NOT_SET

    def _place_on(self, row: int, slot: int, nodes: Int64Array) -> int:
        """Book a pod on the best of these nodes, NO_NODES standing for all of them."""
        state = self.state
        return place_pod_by_handle(
            state.store.handle, state.shapes.rankings_handle, state.policy.handle, slot, row, nodes
        )

    def _serve_related(self, line: Line, row: int) -> bool:
        """Place the first pod of a line where its neighbours allow it; otherwise park the line."""
        state = self.state
        if state.related.place(row):
            self._bind(row)
            state.waiting.advance(line)
            return True
        barred = not line.key.apart and state.neighbours.is_barred_somewhere(row)
        if barred and len(state.related.feasible(row, others=False)):
            state.set_apart(line)
            return True
        return self._seek_or_park(line, row)

    def _seek_or_park(self, line: Line, row: int) -> bool:
        """A pod fits nowhere: it is nominated if others' end makes room, otherwise its line is parked."""
        if self._find_other_ways(line, row):
            return True
        self._park(line, row)
        return False

    def _find_other_ways(self, line: Line, row: int, *, lacks_quota: bool = False) -> bool:
        """The first pod of a line fits nowhere as things are: it may run where others start later, or once
        others are evicted, or it holds the place where it will start.
        """
        for behind in self.backfill.place(UnplacedWorkload(row, None, self.at_us)):
            self._bind(behind)
            self.state.waiting.advance(line)
            return True
        return self._seek_for_pod(line, row) or self._reserve_for_pod(line, row, lacks_quota=lacks_quota)

    def _reserve_for_pod(self, line: Line, row: int, *, lacks_quota: bool) -> bool:
        """The first pod of a line holds the place where it will start first; False if it holds none."""
        unplaced = UnplacedWorkload(row, None, self.at_us)
        if self.reservations.hold(line, unplaced, self._again_at_us, own_queue_only=lacks_quota) is None:
            return False
        if line.take_untold(self.state.sequence_by_row[row]):
            self.instructions.append(
                Unschedulable(self.state.pods.pod_at(row).uid, self.verdicts.of(row, self.at_us))
            )
        self.state.waiting.advance(line)
        return True

    def _reserve_for_gang(self, line: Line, members: Members, *, lacks_quota: bool) -> bool:
        """A gang that lacks its minimum holds the place where it will start first; False if it holds none."""
        if not members.waiting or not members.missing:
            return False
        unplaced = UnplacedWorkload(next(iter(members.waiting)), members, self.at_us)
        kept = self.reservations.hold(line, unplaced, self._again_at_us, own_queue_only=lacks_quota)
        return kept is not None

    def _seek_for_pod(self, line: Line, row: int) -> bool:
        """Look for pods whose end makes room, or frees quota, for the first pod of a line."""
        if not self._seek(line, UnplacedWorkload(row, None, self.at_us), self.state.pods.pod_at(row).uid):
            return False
        self.state.waiting.advance(line)
        return True

    def _seek_for_gang(self, line: Line, members: Members, gang: GangName) -> bool:
        """Look for pods whose end makes room, or frees quota, for the members that a gang lacks."""
        if not members.waiting or not members.missing:
            return False
        row = next(iter(members.waiting))
        if self.state.gate.is_active and self.state.gate.bar(row) is not None:
            return False
        return self._seek(line, UnplacedWorkload(row, members, self.at_us), gang)

    def _seek(self, line: Line, unplaced: UnplacedWorkload, beneficiary: PodUid | GangName) -> bool:
        """Look for pods whose end makes room for a workload; False if there are none."""
        found = self.reservations.guests.plan(unplaced) or self.victims.find(unplaced, self.state)
        self._again_at_us = found.again_at_us if isinstance(found, NoEvictionPlan) else None
        if not isinstance(found, EvictionPlan):
            if found is not None:
                self.search_retries.note(line, found)
            return False
        self._take(found, beneficiary, self.state.queue_of(unplaced.row))
        nomination = self.nominations.nominate(found.placements, found.waits_for)
        # A single pod that has a place already needs no victim by right.
        waits = unplaced.members is None and bool(found.victims) and found.why is None
        if not waits and self.nominations.is_ready(nomination):
            self._bind_nominated(self.nominations.take(nomination))
        else:
            self.instructions += self.nominations.told(nomination)
        return True

    def _take(self, found: EvictionPlan, beneficiary: PodUid | GangName, queue: QueueName) -> None:
        """The victims of a plan are told to end for a workload of a queue."""
        pods = self.state.pods
        queue_by_victim = {uid: self.state.queue_of(pods.row_by_uid[uid]) for uid in found.victims}
        for uid, theirs in queue_by_victim.items():
            alike = theirs == queue or not self.state.queues.is_active
            why = found.why or (WhyEvicted.PREEMPTED if alike else WhyEvicted.RECLAIMED)
            if why is WhyEvicted.INTERRUPTED and self.reservations.guests.is_overdue(beneficiary, uid):
                why = WhyEvicted.OVERDUE
            self._evict(pods.row_by_uid[uid], beneficiary, why)
        placed = [] if found.why else [pods.pod_at(one.row).uid for one in found.placements]
        self.state.eviction_immunity.take(queue, placed, queue_by_victim)

    def _evict(
        self,
        row: int,
        beneficiary: PodUid | GangName | None,
        why: WhyEvicted,
        limit: RunTimeLimit | None = None,
    ) -> None:
        """Tell a pod to end."""
        pod = self.state.pods.pod_at(row)
        self.state.departures.evict(pod.uid, for_work=beneficiary is not None)
        if self.state.update_end(row):
            self.nominations.cancel_of_gang(row)
        self.state.budgets.spend(pod)
        self.instructions.append(Evict(pod.uid, beneficiary, why.value, limit))

    def _park(self, line: Line, row: int) -> None:
        """A line found no room; where quota rules devices out, more quota would help it too."""
        if self.state.queues.is_active:
            where = self.state.gate.narrowed(row, NO_NODES)
            if where is None or where.is_narrower:
                self.state.keep_out(line, row, lacks_room=True)
                return
        self.state.waiting.park(line)

    def _serve_gang(self, line: Line) -> bool:
        """Start a gang, or park it; surplus members that did not fit stay parked."""
        state = self.state
        if line.key.gang is None:
            raise BrokenInvariantError("a line of pods was served as a gang")
        members = state.gangs.members(line.key.gang)
        if state.gate.is_active and self._gang_is_kept_out(line, members):
            if self._seek_for_gang(line, members, line.key.gang):
                return True
            if self._reserve_for_gang(line, members, lacks_quota=True):
                return True
            return state.gate.holds_back_nothing(next(iter(members.waiting)))
        only_minimum = members.missing > 0 and members.may_grow_later and state.waiting.others_wait(line)
        attempt = state.gangs.attempt(members, state.trial(), surplus=not only_minimum)
        first = next(iter(members.waiting), layout.NOT_SET)
        placed = attempt.placed or self.backfill.place(UnplacedWorkload(first, members, self.at_us))
        for row in placed:
            self._bind(row)
        if members.waiting and placed:
            state.give_turn(members, line)
            if only_minimum:  # The others' turn comes first; what is left after them is for growth.
                return True
        if not placed and self._seek_for_gang(line, members, line.key.gang):
            return True
        # What is left of a gang that starts is told as well.
        if members.waiting and not members.told and (not placed or (attempt.placed and attempt.verdict)):
            self._tell_gang(members, attempt.placeable, attempt.verdict, attempt.role)
        if not placed and self._reserve_for_gang(line, members, lacks_quota=False):
            return True
        if members.waiting:
            self._note_shapes_that_wait(line.key, members)
            if state.gate.is_active:
                state.keep_gang_out(line, members, lacks_room=True)
            else:
                state.waiting.park(line, holds_back=members.missing > 0)
        elif members.gang is not None:
            state.withdraw_gang(members.gang)
        return members.missing == 0

    def _gang_is_kept_out(self, line: Line, members: Members) -> bool:
        """Park a gang whose queue lets it not start, if its owner knows or must only be told which queue."""
        state, rows = self.state, list(members.waiting)
        barred = state.gate.bar(rows[0]) is not None
        if not barred and not (members.told and state.gang_lacks_quota(members)):
            return False
        if not members.told:
            self._tell_gang(members, len(members.placed), self.verdicts.of(rows[0], self.at_us), "")
        state.keep_gang_out(line, members, lacks_room=False)
        return True

    def _note_shapes_that_wait(self, key: LineKey, members: Members) -> None:
        """A gang is parked: remember by which shapes a pod that comes may wake it."""
        if self.state.neighbours.is_active:
            for row in members.waiting:
                if self.state.neighbours.waits_for_pods(row):
                    shape_row = int(self.state.store.tables.pods[layout.POD_SHAPE, row])
                    self._gangs_by_waiting_shape.setdefault(shape_row, {})[key] = None

    def _bind(self, row: int) -> None:
        state = self.state
        state.pods.booked(row)
        state.placed(row)
        uid, node_row = state.pods.pod_at(row).uid, state.pods.node_row(row)
        if node_row is None:
            raise BrokenInvariantError(f"pod {uid} was placed on no node")
        state.placed_in_step.add(row)
        state.pods.assumed_at_us[row] = self.at_us
        devices = state.pods.named_devices(row)
        if devices is None:
            raise BrokenInvariantError(f"pod {uid} got a device without id")
        node = state.fleet.node_at(node_row)
        volumes, origin = state.neighbours.volumes_of(row), self.moving.replacements.origin(uid)
        promises = self.reservations.guests.promises_of(uid)
        self.instructions.append(Bind(uid, node.name, devices, volumes, origin, promises))

    def _tell_gang(self, members: Members, placeable: int, verdict: Verdict | None, role: str) -> None:
        if members.gang is None:
            return
        members.told = members.told or verdict is not None
        members.told_short = members.told_short or verdict is None
        verdict = self.telling.complete_gang(verdict, members, self.at_us)
        self.instructions.append(gang_refusal(members, members.gang, placeable, verdict, role))

    def _tell_waiting_work(self) -> None:
        state, waiting = self.state, self.state.waiting
        for members in state.take_short_gangs():
            self._tell_gang(members, len(members.placed), None, members.short_role)
        for name, members in state.take_unknown_gangs():
            members.told_unknown = True
            self.instructions.append(GangUnknown(name, members.arrived))
        for key in waiting.take_untold():
            line = waiting.lines.get(key)
            if line is None or line.key.gang is not None:
                continue
            if line.parked:
                self.instructions += self.verdicts.of_untold(line, self.at_us)
                line.untold.clear()
            else:
                waiting.tell_later(key)
