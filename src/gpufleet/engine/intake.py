"""Taking events in: each kind of event changes the books, none decides anything.

An event that is bad raises an ``InputError`` before it changed anything; the engine reports it
and goes on with the next. Events that say what is known already change nothing, because watches
deliver twice.
"""

import itertools
from collections.abc import Callable

import msgspec

from gpufleet.engine import event
from gpufleet.engine.admit.resources import PRICE_MILLI_MAX
from gpufleet.engine.arrays import journal
from gpufleet.engine.arrays.layout import PodState
from gpufleet.engine.defragment.automatic import Automatic
from gpufleet.engine.errors import EventError
from gpufleet.engine.lifecycle.books import Books
from gpufleet.engine.lifecycle.nominations import Nominations
from gpufleet.engine.preempt.overtime import Overtime
from gpufleet.engine.reserve.book import Reservations
from gpufleet.engine.state.bounds import check_range, check_shape
from gpufleet.engine.state.members import Members
from gpufleet.model.gang import Gang
from gpufleet.model.identifiers import PodUid
from gpufleet.model.node import Node
from gpufleet.model.pod import Pod

ENTRY_COUNT_MAX = 1_000_000_000
"""Fragmentation is a sum of counts times thousandths of GPUs, in 64 bits."""


class Intake:
    """Applies events to the books."""

    def __init__(
        self,
        books: Books,
        nominations: Nominations,
        overtime: Overtime,
        reservations: Reservations,
        moving: Automatic,
    ) -> None:
        self.books = books
        self.nominations = nominations
        self.overtime = overtime
        self.reservations = reservations
        self.moving = moving
        self.at_us = 0
        self._handlers: dict[type[event.Event], Callable[..., None]] = {
            event.NodeSet: self._node_set,
            event.NodeRemoved: self._node_removed,
            event.DeviceSet: self._device_set,
            event.PodAdded: self._pod_added,
            event.PodBound: self._pod_bound,
            event.BindRefused: self._bind_refused,
            event.PodCheckpointed: self._pod_checkpointed,
            event.EvictionRefused: self._eviction_refused,
            event.PodRemoved: self._pod_removed,
            event.GangSet: self._gang_set,
            event.GangRemoved: self._gang_removed,
            event.QueueSet: self._queue_set,
            event.QueueRemoved: self._queue_removed,
            event.PricesSet: self._prices_set,
            event.TopologySet: self._topology_set,
            event.DisruptionBudgetSet: self._budget_set,
            event.DisruptionBudgetRemoved: self._budget_removed,
            event.NamespaceSet: self._namespace_set,
            event.NamespaceRemoved: self._namespace_removed,
            event.TargetWorkloadSet: self._target_workload_set,
            event.LessonLearned: self._lesson_learned,
            event.PastUseRecalled: self._past_use_recalled,
            event.ReservationsRecalled: self.reservations.recall,
            event.DefragmentationSet: self._defragmentation_set,
        }

    def take(self, happened: event.Event, at_us: int) -> None:
        """Apply one event that happened at (or was heard of by) this engine time."""
        self.at_us = at_us
        self._handlers[type(happened)](happened)
        self.books.neighbours.follow_moves()

    def _node_set(self, happened: event.NodeSet) -> None:
        books, node = self.books, happened.node
        row = books.fleet.row_by_name.get(node.name)
        books.fleet.check(node)
        if row is not None:
            known = books.fleet.node_at(row)
            if known == node:
                return
            self.nominations.cancel_on(row)
            if same_amounts(known, node):
                books.fleet.relabel(row, node)
                self._node_judged_anew(row)
                return
        row = books.pods.put_node(node)
        self._node_judged_anew(row)

    def _node_judged_anew(self, row: int) -> None:
        books = self.books
        books.shapes.node_added(row)
        books.domains.put(row)
        books.policy.fleet_changed()
        journal.touch(books.store.tables, row)
        books.room_freed = True

    def _node_removed(self, happened: event.NodeRemoved) -> None:
        row = self.books.fleet.row_by_name.get(happened.name)
        if row is None:
            return
        self.nominations.cancel_on(row)
        self.books.pods.lose_node(happened.name)
        self.books.domains.remove(row)
        self.books.policy.fleet_changed()
        if self.books.neighbours.is_active:
            # A domain may be gone, and with it what kept others out.
            self.books.room_freed = True

    def _device_set(self, happened: event.DeviceSet) -> None:
        row = self.books.fleet.row_by_name.get(happened.node)
        if row is None:
            raise EventError("no such node", field="node", value=str(happened.node))
        node = self.books.fleet.node_at(row)
        if all(device.id != happened.device.id for device in node.devices):
            raise EventError(
                "no such device on this node",
                field=f"node {node.name}: device",
                value=str(happened.device.id),
                expected="one of the node's devices",
            )
        devices = tuple(
            happened.device if device.id == happened.device.id else device for device in node.devices
        )
        self._node_set(event.NodeSet(msgspec.structs.replace(node, devices=devices)))

    def _pod_added(self, happened: event.PodAdded) -> None:
        books, pod = self.books, happened.pod
        known = books.pods.row_by_uid.get(pod.uid)
        if known is not None:
            self._describe_anew(known, pod)
            return
        row = self._new_pod(pod)
        books.policy.arrived(pod.shape)
        books.enqueue(row)
        self.moving.stand_ins.take_over(row)

    def _new_pod(self, pod: Pod) -> int:
        books = self.books
        row = books.pods.add(pod)
        books.sequence_by_row[row] = books.waiting.next_sequence()
        books.neighbours.add(row)
        return row

    def _describe_anew(self, row: int, pod: Pod) -> None:
        """A known pod has another content: it keeps its turn if it waits, and its place if it has one."""
        books = self.books
        known = books.pods.pod_at(row)
        if known == pod:
            return
        check_shape(pod.shape)
        self.nominations.cancel_of(row)
        if known.shape != pod.shape:
            self.nominations.cancel_on(books.pods.node_row(row))
        state = books.pods.state(row)
        stays = known.gang is not None and known.gang == pod.gang
        if not stays:
            books.withdraw(row)
        books.neighbours.redescribe(row)
        books.pods.describe(row, pod)
        books.neighbours.add(row)
        books.neighbours.follow(row)
        if state is PodState.WAITING:
            books.enqueue(row)
        elif state in {PodState.ASSUMED, PodState.BOUND}:
            self._regard_end(row)
            self.overtime.regard(row)
            # What it held, or what others saw in it, may have been in somebody's way.
            books.room_freed = True
            books.placed(row)
            if pod.gang is not None:
                books.regard_gang(pod.gang)

    def _regard_end(self, row: int) -> None:
        """Whether a pod that has a place was told to end."""
        pod, departures = self.books.pods.pod_at(row), self.books.departures
        if pod.leaving:
            self.books.budgets.seen_to_end(pod)
            departures.is_told(pod.uid)
            self.books.prospects += 1
        elif pod.uid in departures.told:
            self.nominations.cancel_waiting_for(pod.uid)
            departures.stays(pod.uid)
        if self.books.regard_end(row) and departures.is_departing(pod.uid):
            self._end_nomination_of_gang(row)

    def _pod_bound(self, happened: event.PodBound) -> None:
        books, pod = self.books, happened.pod
        row = books.pods.row_by_uid.get(pod.uid)
        if row is None:
            row = self._new_pod(pod)
        else:
            self.nominations.cancel_of(row)
            self._describe_anew(row, pod)
        self._note_start(row, happened.started_at_us)
        if pod.seats:
            self.reservations.guests.seated(pod)
        node_row = books.fleet.row_by_name.get(happened.node)
        booked = books.pods.node_row(row)
        devices = happened.devices
        if booked is not None:
            held = books.pods.device_ids(row)
            if booked == node_row:
                devices = devices or held
                if devices == held and not books.pods.stands_elsewhere(row):
                    books.pods.mark(row, PodState.BOUND)
                    return
            self.nominations.cancel_waiting_for(pod.uid)
            books.pods.unbook(row, PodState.BOUND)
            books.room_freed = True
        elif books.pods.lost_node_of(pod.uid) not in {None, happened.node} and books.neighbours.is_active:
            # Nothing of the fleet, but perhaps the volumes chosen with the place that it had.
            books.room_freed = True
        books.waiting.withdraw(row)
        self.nominations.cancel_on(node_row)
        devices = devices or books.pods.ids_on_lost_node(pod.uid, happened.node)
        books.pods.leave_lost_node(pod.uid)
        if node_row is None:
            books.pods.mark(row, PodState.BOUND)
            books.pods.book_on_lost_node(row, happened.node, devices)
        else:
            books.pods.book(row, node_row, devices, PodState.BOUND)
        books.placed(row)
        self._regard_end(row)
        if pod.gang is not None:
            books.regard_gang(pod.gang)

    def _note_start(self, row: int, started_at_us: int | None) -> None:
        """When a pod began to run; where nobody says it, when it was first heard that it does."""
        self.overtime.regard(row)
        started = self.books.pods.started_at_us
        if started_at_us is not None:
            started[row] = started_at_us
        elif row not in started:
            started[row] = self.at_us

    def _bind_refused(self, happened: event.BindRefused) -> None:
        books = self.books
        row = books.pods.row_by_uid.get(happened.uid)
        if row is None or books.pods.state(row) is not PodState.ASSUMED:
            return
        if books.pods.node_row(row) is not None:
            books.pods.unbook(row, PodState.BACKOFF)
        books.pods.leave_lost_node(happened.uid)
        books.pods.mark(row, PodState.BACKOFF)
        books.departures.gone(happened.uid)
        self.reservations.guests.leave(happened.uid)
        self._end_nomination_of_gang(row)
        books.unplaced(row)
        books.back_off(row, self.at_us)

    def _pod_checkpointed(self, happened: event.PodCheckpointed) -> None:
        row = self.books.pods.row_by_uid.get(happened.uid)
        if row is not None:
            self.books.pods.checkpointed_at_us[row] = happened.at_us

    def _eviction_refused(self, happened: event.EvictionRefused) -> None:
        if happened.uid in self.books.departures.evicted:
            self.nominations.cancel_waiting_for(happened.uid)
            self.books.departures.refuse(happened.uid, happened.until_us)
            self.books.takings.stays(happened.uid)
            row = self.books.pods.row_by_uid[happened.uid]
            gang = self.books.pods.pod_at(row).gang
            if self.books.regard_end(row) and gang is not None:
                self.books.regard_gang(gang)
            self.books.budgets.refund(self.books.pods.pod_at(row))
            self.overtime.regard(row)

    def _pod_removed(self, happened: event.PodRemoved) -> None:
        self._forget(happened.uid)

    def _forget(self, uid: PodUid) -> None:
        row = self.books.pods.row_by_uid.get(uid)
        if row is not None:
            if self.books.learned.queues:
                self._learn_from(row)
            self.nominations.cancel_of(row)
            self._end_nomination_of_gang(row)
            self.books.budgets.seen_to_end(self.books.pods.pod_at(row))
            self.books.departures.gone(uid)
            self.overtime.forget(uid)
            self.reservations.guests.leave(uid)
            ran = self.books.pods.node_row(row) is not None
            self.books.takings.leave(uid, self.books.queue_of(row), ran=ran)
            self.books.leave(row)
            self.books.neighbours.forget(row)
            queue_row = self.books.queues.queue_row(row)
            self.books.pods.remove(uid)
            self.books.queues.forget(queue_row)

    def _learn_from(self, row: int) -> None:
        """A pod is gone: how long it ran, if it was heard to run."""
        books = self.books
        pod, queue = books.pods.pod_at(row), books.queue_of(row)
        if books.learned.learns(queue, pod) and row in books.pods.started_at_us:
            ran_us = self.at_us - books.pods.started_at_us.get(row, self.at_us)
            books.learned.ended(queue, pod, ran_us, told=books.departures.is_departing(pod.uid))

    def _gang_set(self, happened: event.GangSet) -> None:
        books, gang = self.books, happened.gang
        if gang.min_members < 1:
            raise EventError(
                "a gang of nobody",
                field=f"gang {gang.name}: min_members",
                value=gang.min_members,
                expected="1 or more",
            )
        for role, minimum in gang.role_minimums:
            check_range(minimum, 0, ENTRY_COUNT_MAX, f"gang {gang.name}: role_minimums: {role}")
        check_slices(gang)
        members = books.gangs.members(gang.name)
        self._end_nomination(members)
        if members.gang is not None:
            books.withdraw_gang(members.gang)
        members.describe(gang)
        self._assign_queues(members)
        books.regard_gang(gang.name)

    def _gang_removed(self, happened: event.GangRemoved) -> None:
        books = self.books
        members = books.gangs.by_name.get(happened.name)
        if members is None or members.gang is None:
            return
        self._end_nomination(members)
        books.withdraw_gang(members.gang)
        members.describe(None)
        self._assign_queues(members)
        books.regard_gang(happened.name)
        books.gangs.drop_if_empty(happened.name)

    def _assign_queues(self, members: Members) -> None:
        """The queue of a gang may be another one, and holds for its pods."""
        for row in (*members.waiting, *members.with_places):
            self.books.assign_queue(row)
            self.overtime.regard(row)

    def _end_nomination_of_gang(self, row: int) -> None:
        """A gang loses a member: places that are kept for others of it may not make its minimum any more."""
        gang = self.books.pods.pod_at(row).gang
        if gang is not None and gang in self.books.gangs.by_name:
            self._end_nomination(self.books.gangs.members(gang))

    def _end_nomination(self, members: Members) -> None:
        for row in list(members.nominated):
            self.nominations.cancel_of(row)

    def _queue_set(self, happened: event.QueueSet) -> None:
        self.books.queues.set(happened.queue, self.books.waiting.last_sequence)
        self.books.waiting.queues[happened.queue.name] = happened.queue
        self.books.learned.regard(happened.queue)
        self.books.takings.begin_anew()
        self.books.prospects += 1

    def _queue_removed(self, happened: event.QueueRemoved) -> None:
        self.books.queues.remove(happened.name)
        self.books.waiting.queues.pop(happened.name, None)
        self.books.learned.forget(happened.name)
        self.books.takings.begin_anew()
        # What it kept from starting may start now.
        self.books.room_freed = True

    def _defragmentation_set(self, happened: event.DefragmentationSet) -> None:
        self.moving.set_rules(happened, self.at_us)

    def _prices_set(self, happened: event.PricesSet) -> None:
        for model, price_milli in happened.prices:
            check_range(price_milli, 0, PRICE_MILLI_MAX, f"prices: {model}")
        self.books.fleet.set_prices(dict(happened.prices))
        self.books.queues.tree.is_stale = True

    def _topology_set(self, happened: event.TopologySet) -> None:
        for members in self.books.gangs.by_name.values():
            self._end_nomination(members)
        self.books.domains.set_topology(happened.topology)
        self.books.room_freed = True

    def _budget_set(self, happened: event.DisruptionBudgetSet) -> None:
        books = self.books
        evicted = (books.pods.pod_at(books.pods.row_by_uid[uid]) for uid in books.departures.evicted)
        books.budgets.set(happened.budget, evicted)
        books.prospects += 1

    def _budget_removed(self, happened: event.DisruptionBudgetRemoved) -> None:
        self.books.budgets.remove(happened.namespace, happened.name)
        self.books.prospects += 1

    def _namespace_set(self, happened: event.NamespaceSet) -> None:
        self.books.neighbours.set_namespace(happened.name, happened.labels)
        self.books.queues.doors.set_namespace(happened.name, happened.labels)
        self.books.room_freed = True

    def _namespace_removed(self, happened: event.NamespaceRemoved) -> None:
        self._namespace_set(event.NamespaceSet(happened.name))

    def _target_workload_set(self, happened: event.TargetWorkloadSet) -> None:
        for number, (shape, count) in enumerate(happened.entries):
            check_shape(shape)
            check_range(count, 1, ENTRY_COUNT_MAX, f"entries[{number}].count")
        self.books.policy.set_target(happened.entries)
        self.books.shapes.rank_anew()

    def _lesson_learned(self, happened: event.LessonLearned) -> None:
        if self.books.policy.take_lesson(happened.lesson):
            self.books.shapes.rank_anew()

    def _past_use_recalled(self, happened: event.PastUseRecalled) -> None:
        self.books.past_use.recall(happened, self.at_us)


def check_slices(gang: Gang) -> None:
    """Refuse slices that cannot be, or that tear apart those which they divide."""
    field = f"gang {gang.name}: slices"
    for wider, narrower in itertools.pairwise((None, *gang.slices)):
        if narrower is None:
            continue
        check_range(narrower.size, 1, ENTRY_COUNT_MAX, field)
        if wider is not None and wider.size % narrower.size:
            raise EventError(
                "slices that do not divide the wider ones",
                field=field,
                value=narrower.size,
                expected=f"a divisor of {wider.size}",
            )


def same_amounts(known: Node, node: Node) -> bool:
    """True if only labels, taints or the cordon differ."""
    return known.allocatable == node.allocatable and known.devices == node.devices
