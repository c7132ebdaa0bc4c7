"""One cycle of decisions: whose turn it is, where it goes, and what to say to those who wait.

Queues are taken by their turns (``quota.turns``), inside a queue the heads of its lines. What
fits is booked at once and bound; what does not is parked with its line, or, if the victim search
finds a way, causes evictions. The cycle ends when every line is empty, parked, or behind the
parked head of a strict queue. Who has waited for long holds a reservation (``reservations``).
"""

from gpufleet.engine.admit.waiting import Line, LineKey
from gpufleet.engine.arrays import layout
from gpufleet.engine.arrays.array_types import Int64Array
from gpufleet.engine.defragment.automatic import Automatic
from gpufleet.engine.errors import BrokenInvariantError
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
from gpufleet.engine.lifecycle.books import Books
from gpufleet.engine.lifecycle.nominations import Nominations
from gpufleet.engine.place.choose.ranking import best_node_by_handle
from gpufleet.engine.place.choose.search import NO_NODES, place_pod_by_handle
from gpufleet.engine.preempt.overtime import Overtime
from gpufleet.engine.preempt.second_looks import SecondLooks
from gpufleet.engine.preempt.stopping import closed_nominations, running_in_stopped_queues
from gpufleet.engine.preempt.victims import Asking, NoPlan, NoVictims, Plan, VictimSearch
from gpufleet.engine.reserve.backfill import Backfill
from gpufleet.engine.reserve.book import Reservations
from gpufleet.engine.state.members import Members
from gpufleet.engine.tell.reservations import ReservationTelling
from gpufleet.engine.tell.verdicts import Verdicts, gang_refusal
from gpufleet.model.identifiers import GangName, PodUid, QueueName


class Cycle:
    """Makes the decisions of one step."""

    def __init__(
        self,
        books: Books,
        nominations: Nominations,
        victims: VictimSearch,
        overtime: Overtime,
        reservations: Reservations,
        moving: Automatic,
    ) -> None:
        self.books = books
        self.nominations = nominations
        self.victims = victims
        self.evicts = not isinstance(victims, NoVictims)
        self.overtime = overtime
        self.reservations = reservations
        self.moving = moving
        self.backfill = Backfill(books, reservations)
        self.telling = ReservationTelling(books, reservations)
        self.verdicts = Verdicts(books, reservations, self.telling)
        self.second_looks = SecondLooks(books)
        self.at_us = 0
        self.instructions: list[AnyInstruction] = []
        self._hopeful_gangs: dict[int, dict[LineKey, None]] = {}
        self._again_at_us: int | None = None

    def run(self, at_us: int) -> list[AnyInstruction]:
        """Decide everything that can be decided now."""
        self.instructions = []
        settled = self.books.queues.settle(self.books.named_queue)
        self.at_us = at_us
        self.books.steps += 1
        self.books.placed_in_step.clear()
        self.books.end_backoff(at_us)
        if settled:
            self.overtime.settle()
            for nomination in closed_nominations(self.books):
                self.nominations.cancel(nomination)
        self.moving.stand_ins.tend(at_us)
        self.reservations.put_aside(at_us)
        self._serve_nominated()
        if self.books.room_freed:
            self.books.room_freed = False
            self.books.prospects += 1
            self._wake_who_may_fit()
        if settled or self.books.queues.is_active:
            self._wake_kept_out(everybody=settled)
        self._wake_who_hoped()
        self.second_looks.wake(at_us)
        if self.evicts:
            for row in running_in_stopped_queues(self.books):
                self._evict(row, None, WhyEvicted.STOPPED)
        for row, limit in self.overtime.take(at_us):
            self._evict(row, None, WhyEvicted.OVERTIME, limit)
        self._serve_queues(at_us)
        if self.reservations.end_round():
            self._wake_who_may_fit()
            self._wake_kept_out(everybody=False)
            self._serve_queues(at_us)
        self.instructions += self.moving.run(at_us)
        self.instructions += self.nominations.take_withdrawn()
        self.instructions += self.telling.news(at_us)
        self._tell_who_waits()
        return self.instructions

    def _wake_kept_out(self, *, everybody: bool) -> None:
        """Wake those whose queue may have more since usage fell, or everybody that queues keep out."""
        waiting = self.books.waiting
        fitting = waiting.kept_out.take_fitting(self.books.store)
        for key in waiting.kept_out.all_keys() if everybody else fitting:
            waiting.wake(key)

    def _serve_nominated(self) -> None:
        """Bind who has waited for others to leave, there or on room that is free by now."""
        if self.books.departures.nominations:
            self._bind_nominated(self.nominations.settle())
            if self.books.room_freed:
                self._bind_nominated(self.nominations.move())
        self.books.pods.left_nodes.clear()

    def _bind_nominated(self, rows: list[int]) -> None:
        gangs: dict[GangName, None] = {}
        for row in rows:
            self._bind(row)
            gang = self.books.pods.pod_at(row).gang
            if gang is not None:
                gangs[gang] = None
        for gang in gangs:
            self.books.regard_gang(gang)

    def next_due_us(self) -> int | None:
        """When a step is wanted even if nothing happens."""
        dues = (
            self.books.next_backoff_us(),
            self.second_looks.next_due_us(),
            self.overtime.next_due_us(),
            self.reservations.next_due_us(),
            self.moving.next_due_us(),
        )
        known = [due_us for due_us in dues if due_us is not None]
        return min(known) if known else None

    def _wake_who_may_fit(self) -> None:
        waiting = self.books.waiting
        for shape_row in list(waiting.parked_by_shape):
            self._wake_lines(shape_row)
        for key in list(waiting.parked_gangs):
            waiting.wake(key)

    def _wake_lines(self, shape_row: int) -> bool:
        """Wake the lines of a shape whose first pod may run now; False if there is none."""
        waiting = self.books.waiting
        woken = False
        if shape_row in waiting.parked_by_shape and self._fits_somewhere(shape_row):
            for key in list(waiting.parked_by_shape[shape_row]):
                if not self.books.neighbours.is_watchful or self._may_run(key):
                    waiting.wake(key)
                    woken = True
        return woken

    def _may_run(self, key: LineKey) -> bool:
        """True if the first pod of a line fits among its neighbours.

        Where a line was not set apart, others' anti-affinity does not count: those behind the first
        may look different.
        """
        line = self.books.waiting.lines[key]
        if not self.books.waiting.trim(line):
            return False
        row = line.waiting[0][2]
        return len(self.books.related.feasible(row, others=bool(key.apart))) > 0

    def _wake_who_hoped(self) -> bool:
        """Wake those to whom a pod that was just placed may have opened a place; False for nobody."""
        woken = False
        for shape_row in self.books.neighbours.take_stirred():
            woken |= self._wake_lines(shape_row)
            for key in self._hopeful_gangs.pop(shape_row, ()):
                if key in self.books.waiting.parked_gangs:
                    self.books.waiting.wake(key)
                    woken = True
        return woken

    def _fits_somewhere(self, shape_row: int) -> bool:
        slot = self.books.shapes.slot(shape_row)
        books = self.books
        found = best_node_by_handle(
            books.store.handle, books.shapes.rankings_handle, books.policy.handle, slot
        )
        return found != layout.NOT_SET

    def _serve_queues(self, at_us: int) -> None:
        waiting, turns, stirred = self.books.waiting, self.books.turns, self.books.neighbours.stirred
        turns.begin(at_us)
        while (line := turns.take()) is not None:
            name = line.key.queue
            if waiting.lines.get(line.key) is not line or not waiting.trim(line):
                # The line of a gang whose members were told to end in this step.
                turns.offer(name)
                continue
            served = self._serve_gang(line) if line.key.gang is not None else self._serve_pod(line)
            if stirred and self._wake_who_hoped():
                turns.begin(at_us)
            elif served or not waiting.queue(name).strict:
                turns.offer(name)
            else:
                turns.rest(name)

    def _serve_pod(self, line: Line) -> bool:
        """Place the first pod of a line; otherwise park the line."""
        books = self.books
        row = line.waiting[0][2]
        if books.queues.is_active:
            if not line.key.late and books.gate.is_late(row):
                books.set_apart_late(line)
                return True
            if not line.key.refused and books.gate.is_refused(row):
                books.set_apart_refused(line)
                return True
            if books.gate.keeps_out(row):
                if books.gate.bar(row) is None and self._find_other_ways(line, row, lacks_quota=True):
                    return True
                return self._keep_out(line, row)
        if books.neighbours.is_watchful and books.neighbours.concerns(row):
            return self._serve_related(line, row)
        if self._place(line, row) == layout.NOT_SET:
            return self._seek_or_park(line, row)
        self._bind(row)
        books.waiting.advance(line)
        return True

    def _place(self, line: Line, row: int) -> int:
        """Book the first pod of a line on its best node; the node or NOT_SET."""
        books, gpu = self.books, self.books.pods.pod_at(row).shape.gpu
        books.pods.make_journal_room(1, gpu.count)
        if not (books.gate.is_choosy or gpu.model_order):
            return self._place_on(row, books.shapes.slot(line.key.shape_row), NO_NODES)
        for where in books.gate.in_order(row, NO_NODES):
            node = self._place_on(row, where.slot, where.nodes)
            if node != layout.NOT_SET:
                return node
        return layout.NOT_SET

    def _place_on(self, row: int, slot: int, nodes: Int64Array) -> int:
        """Book a pod on the best of these nodes, NO_NODES standing for all of them."""
        books = self.books
        return place_pod_by_handle(
            books.store.handle, books.shapes.rankings_handle, books.policy.handle, slot, row, nodes
        )

    def _serve_related(self, line: Line, row: int) -> bool:
        """The same for a pod whose place depends on its neighbours."""
        books = self.books
        if books.related.place(row):
            self._bind(row)
            books.waiting.advance(line)
            return True
        barred = not line.key.apart and books.neighbours.is_barred_somewhere(row)
        if barred and len(books.related.feasible(row, others=False)):
            books.set_apart(line)
            return True
        return self._seek_or_park(line, row)

    def _seek_or_park(self, line: Line, row: int) -> bool:
        """A pod fits nowhere: it is nominated if others' end makes room, otherwise its line is parked."""
        if self._find_other_ways(line, row):
            return True
        self._park(line, row)
        return False

    def _find_other_ways(self, line: Line, row: int, *, lacks_quota: bool = False) -> bool:
        """The first pod of a line cannot run where nobody is: it may run where others start later, or once
        others are evicted, or it holds the place where it will start.
        """
        for behind in self.backfill.place(Asking(row, None, self.at_us)):
            self._bind(behind)
            self.books.waiting.advance(line)
            return True
        return self._seek_for_pod(line, row) or self._reserve_for_pod(line, row, lacks_quota=lacks_quota)

    def _reserve_for_pod(self, line: Line, row: int, *, lacks_quota: bool) -> bool:
        """The first pod of a line holds the place where it will start first; False if it holds none."""
        asking = Asking(row, None, self.at_us)
        if self.reservations.hold(line, asking, self._again_at_us, own_queue_only=lacks_quota) is None:
            return False
        if line.untold.pop((self.books.sequence_by_row[row], row), 0) is None:
            self.instructions.append(
                Unschedulable(self.books.pods.pod_at(row).uid, self.verdicts.of(row, self.at_us))
            )
        self.books.waiting.advance(line)
        return True

    def _reserve_for_gang(self, line: Line, members: Members, *, lacks_quota: bool) -> bool:
        """The same for a gang that lacks its minimum."""
        if not members.waiting or not members.missing:
            return False
        asking = Asking(next(iter(members.waiting)), members, self.at_us)
        return self.reservations.hold(line, asking, self._again_at_us, own_queue_only=lacks_quota) is not None

    def _seek_for_pod(self, line: Line, row: int) -> bool:
        """Look for pods whose end makes room, or frees quota, for the first pod of a line."""
        uid = self.books.pods.pod_at(row).uid
        if not self._seek(line.key, Asking(row, None, self.at_us), uid):
            return False
        self.books.waiting.advance(line)
        return True

    def _seek_for_gang(self, line: Line, members: Members, gang: GangName) -> bool:
        """The same for the members that a gang lacks."""
        if not members.waiting or not members.missing:
            return False
        row = next(iter(members.waiting))
        if self.books.gate.is_active and self.books.gate.bar(row) is not None:
            return False
        return self._seek(line.key, Asking(row, members, self.at_us), gang)

    def _seek(self, key: LineKey, asking: Asking, beneficiary: PodUid | GangName) -> bool:
        """Look for pods whose end makes room for a workload; False if there are none."""
        found = self.reservations.guests.plan(asking) or self.victims.find(asking, self.books)
        self._again_at_us = found.again_at_us if isinstance(found, NoPlan) else None
        if not isinstance(found, Plan):
            if found is not None:
                self.second_looks.note(key, found)
            return False
        self._take(found, beneficiary, self.books.queue_of(asking.row))
        nomination = self.nominations.nominate(found.placements, found.waits_for)
        # For a single pod that has a place already, nobody would have to go by right.
        waits = asking.members is None and bool(found.victims) and found.why is None
        if not waits and self.nominations.is_ready(nomination):
            self._bind_nominated(self.nominations.take(nomination))
        else:
            self.instructions += self.nominations.told(nomination)
        return True

    def _take(self, found: Plan, beneficiary: PodUid | GangName, queue: QueueName) -> None:
        """The victims of a plan are told to end for a workload of a queue."""
        pods = self.books.pods
        queue_by_victim = {uid: self.books.queue_of(pods.row_by_uid[uid]) for uid in found.victims}
        for uid, theirs in queue_by_victim.items():
            why = found.why or (WhyEvicted.PREEMPTED if theirs == queue else WhyEvicted.RECLAIMED)
            if why is WhyEvicted.INTERRUPTED and self.reservations.guests.is_overdue(beneficiary, uid):
                why = WhyEvicted.OVERDUE
            self._evict(pods.row_by_uid[uid], beneficiary, why)
        placed = [] if found.why else [pods.pod_at(one.row).uid for one in found.placements]
        self.books.takings.take(queue, placed, queue_by_victim)

    def _evict(
        self,
        row: int,
        beneficiary: PodUid | GangName | None,
        why: WhyEvicted,
        limit: RunTimeLimit | None = None,
    ) -> None:
        """Tell a pod to end."""
        pod = self.books.pods.pod_at(row)
        self.books.departures.evict(pod.uid)
        if self.books.regard_end(row):
            self.nominations.cancel_of_gang(row)
        self.books.budgets.spend(pod)
        self.instructions.append(Evict(pod.uid, beneficiary, why.value, limit))

    def _keep_out(self, line: Line, row: int) -> bool:
        """The queue of a line lets its first pod start nowhere: it waits until that changes."""
        self.books.keep_out(line, row)
        # Who came late to a draining queue, or may not use the queue, is in nobody's way.
        return line.key.late or bool(line.key.refused)

    def _park(self, line: Line, row: int) -> None:
        """A line found no room; where quota rules devices out, more quota would help it too."""
        if self.books.queues.is_active:
            where = self.books.gate.narrowed(row, NO_NODES)
            if where is None or where.is_narrower:
                self.books.keep_out(line, row, lacks_room=True)
                return
        self.books.waiting.park(line)

    def _serve_gang(self, line: Line) -> bool:
        """Start a gang, or park it; surplus members that did not fit stay parked."""
        books = self.books
        if line.key.gang is None:
            raise BrokenInvariantError("a line of pods was served as a gang")
        members = books.gangs.members(line.key.gang)
        if books.gate.is_active and self._gang_is_kept_out(line, members):
            if self._seek_for_gang(line, members, line.key.gang):
                return True
            if self._reserve_for_gang(line, members, lacks_quota=True):
                return True
            return books.gate.is_in_nobodys_way(next(iter(members.waiting)))
        only_minimum = members.missing > 0 and members.may_grow_later and books.waiting.others_wait(line)
        attempt = books.gangs.attempt(members, books.trial(), surplus=not only_minimum)
        first = next(iter(members.waiting), layout.NOT_SET)
        placed = attempt.placed or self.backfill.place(Asking(first, members, self.at_us))
        for row in placed:
            self._bind(row)
        if members.waiting and placed:
            books.give_turn(members, line)
            if only_minimum:  # The others' turn comes first; what is left after them is for growth.
                return True
        if not placed and self._seek_for_gang(line, members, line.key.gang):
            return True
        if members.waiting and not members.told and not placed:
            self._tell_gang(members, attempt.placeable, attempt.verdict, attempt.role)
        if not placed and self._reserve_for_gang(line, members, lacks_quota=False):
            return True
        if members.waiting:
            self._note_hopes(line.key, members)
            if books.gate.is_active:
                books.keep_gang_out(line, members, lacks_room=True)
            else:
                books.waiting.park(line, holds_back=members.missing > 0)
        elif members.gang is not None:
            books.withdraw_gang(members.gang)
        return members.missing == 0

    def _gang_is_kept_out(self, line: Line, members: Members) -> bool:
        """Park a gang whose queue lets it not start, if its owner knows or must only be told which queue."""
        books, rows = self.books, list(members.waiting)
        barred = books.gate.bar(rows[0]) is not None
        if not barred and not (members.told and books.gang_lacks_quota(members)):
            return False
        if not members.told:
            self._tell_gang(members, len(members.placed), self.verdicts.of(rows[0], self.at_us), "")
        books.keep_gang_out(line, members, lacks_room=False)
        return True

    def _note_hopes(self, key: LineKey, members: Members) -> None:
        """A gang is parked: remember by which shapes a pod that comes may wake it."""
        if self.books.neighbours.is_active:
            for row in members.waiting:
                if self.books.neighbours.hopes(row):
                    shape_row = int(self.books.store.tables.pods[layout.POD_SHAPE, row])
                    self._hopeful_gangs.setdefault(shape_row, {})[key] = None

    def _bind(self, row: int) -> None:
        books = self.books
        books.pods.booked(row)
        books.placed(row)
        uid, node_row = books.pods.pod_at(row).uid, books.pods.node_row(row)
        if node_row is None:
            raise BrokenInvariantError(f"pod {uid} was placed on no node")
        books.placed_in_step.add(row)
        books.pods.assumed_at_us[row] = self.at_us
        ids = books.pods.device_ids(row)
        devices = tuple([device for device in ids if device is not None])
        if len(devices) != len(ids):
            raise BrokenInvariantError(f"pod {uid} got a device without id")
        node = books.fleet.node_at(node_row)
        volumes, origin = books.neighbours.volumes_of(row), self.moving.stand_ins.origin(uid)
        seats = self.reservations.guests.seats_of(uid)
        self.instructions.append(Bind(uid, node.name, devices, volumes, origin, seats))

    def _tell_gang(self, members: Members, placeable: int, verdict: Verdict | None, role: str) -> None:
        if members.gang is None:
            return
        members.told = members.told or verdict is not None
        members.told_short = members.told_short or verdict is None
        verdict = self.telling.complete_gang(verdict, members, self.at_us)
        self.instructions.append(gang_refusal(members, members.gang, placeable, verdict, role))

    def _tell_who_waits(self) -> None:
        for members in self.books.take_short_gangs():
            self._tell_gang(members, len(members.placed), None, members.short_role)
        for name, members in self.books.take_unknown_gangs():
            members.told_unknown = True
            self.instructions.append(GangUnknown(name, members.arrived))
        waiting = self.books.waiting
        for key in waiting.take_untold():
            line = waiting.lines.get(key)
            if line is None or line.key.gang is not None:
                continue
            if not line.parked:
                waiting.tell_later(key)
                continue
            for sequence, row in line.untold:
                if waiting.is_waiting(line, sequence, row):
                    pod = self.books.pods.pod_at(row)
                    verdict = self.verdicts.of(row, self.at_us)
                    self.instructions.append(Unschedulable(pod.uid, verdict))
            line.untold.clear()
