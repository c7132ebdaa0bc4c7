"""Taking events in: each kind of event changes the state, none decides anything.

An event that is bad raises an ``InputError`` before it changed anything; the engine reports it and goes on
with the next. Events that say what is known already change nothing, because watches deliver twice.
"""

from collections.abc import Callable, Iterable

import msgspec

from gpufleet.engine import event
from gpufleet.engine.arrays.layout import PodState
from gpufleet.engine.defragment.automatic import Automatic
from gpufleet.engine.engine_errors import EventError
from gpufleet.engine.instruction import AnyInstruction, Rejected
from gpufleet.engine.lifecycle.changes import Change
from gpufleet.engine.lifecycle.claim_events import claim_handlers
from gpufleet.engine.lifecycle.distrusted_nodes import DistrustedNodes
from gpufleet.engine.lifecycle.engine_state import NO_ARRIVAL, EngineState
from gpufleet.engine.lifecycle.nominations import Nominations
from gpufleet.engine.lifecycle.rule_events import rule_handlers
from gpufleet.engine.lifecycle.violations import Violations
from gpufleet.engine.lifecycle.volume_refusals import VolumeRefusals
from gpufleet.engine.preempt.overtime import Overtime
from gpufleet.engine.reserve.reservations import Reservations, earliest
from gpufleet.engine.state.bounds import check_gang, check_shape
from gpufleet.engine.state.gang_members import Members
from gpufleet.model.identifiers import PodUid
from gpufleet.model.model_errors import InputError
from gpufleet.model.node import Node
from gpufleet.model.pod import Pod


class Intake:
    """Applies events to the state."""

    def __init__(
        self,
        state: EngineState,
        nominations: Nominations,
        overtime: Overtime,
        reservations: Reservations,
        moving: Automatic,
        violations: Violations,
    ) -> None:
        self.state = state
        self.nominations = nominations
        self.overtime = overtime
        self.reservations = reservations
        self.moving = moving
        self.violations = violations
        self.distrusted = DistrustedNodes(state, nominations)
        self.volume_refusals = VolumeRefusals()
        # Both are empty most of the time; ``settle`` and ``next_due_us`` have nothing to do then.
        self.distrust_by_node = self.distrusted.trust.records
        self.refused_by_pod = self.volume_refusals.until_us_by_pod
        self.at_us = 0
        # What happens to a pod of which only room decides may concern no other. The rest does.
        self._handlers_of_pods: dict[type[event.Event], Callable[..., None]] = {
            event.PodAdded: self._pod_added,
            event.PodRemoved: self._pod_removed,
        }
        self._handlers: dict[type[event.Event], Callable[..., None]] = {
            event.NodeSet: self._node_set,
            event.NodeRemoved: self._node_removed,
            event.DeviceSet: self._device_set,
            event.PodBound: self._pod_bound,
            event.BindRefused: self._bind_refused,
            event.BindRefusalRecalled: lambda happened: state.pauses.recall(happened, self.at_us),
            event.PodCheckpointed: lambda happened: state.pods.checkpointed(happened.uid, happened.at_us),
            event.EvictionRefused: self._eviction_refused,
            event.EvictionRefusalRecalled: self._eviction_refusal_recalled,
            event.GangSet: self._gang_set,
            event.GangStartRecalled: self._gang_start_recalled,
            event.GangRemoved: self._gang_removed,
            event.TopologySet: self._topology_set,
            event.DecisionsDeferred: lambda _: state.policy.defer_decisions(),
            event.PastUseRecalled: lambda happened: state.past_use.recall(happened, self.at_us),
            event.ReservationsRecalled: self.reservations.recall,
            event.RunTimesRecalled: self.state.learned.recall,
            event.ImmunityRecalled: state.recall_immunity,
            event.NominationsRecalled: self.nominations.recall,
            event.RoomMade: self.nominations.room_made,
            event.ReplacementsRecalled: self.moving.replacements.recall,
            event.DefragmentationSet: self._defragmentation_set,
            event.MoveAsked: self.moving.asked.ask,
            event.KubeletRejected: lambda happened: self.distrusted.rejected(happened, self.at_us),
            event.DevicesOffered: lambda happened: self.distrusted.offered(happened, self.at_us),
            event.NodeDistrustRecalled: lambda happened: self.distrusted.recall(happened, self.at_us),
            event.ViolationFound: lambda happened: violations.found(happened, self.at_us),
            event.ViolationEnded: violations.ended,
            event.VolumeRefused: self._volume_refused,
            **rule_handlers(state),
            **claim_handlers(state),
        }

    def settle(self, at_us: int) -> None:
        """What was decided until now is over: nodes are trusted again, or tried again for a volume."""
        self.at_us = at_us
        self.distrusted.settle(at_us)
        for uid in self.volume_refusals.end(at_us):
            row = self.state.pods.row_by_uid.get(uid)
            if row is not None:
                pod = self.volume_refusals.narrowed_anew(self.state.pods.pod_at(row))
                self._describe_anew(row, pod)
                self.state.neighbours.follow_moves()
        self.state.store.keep()

    def next_due_us(self) -> int | None:
        """When ``settle`` is wanted even if nothing happens."""
        return earliest((self.distrusted.next_due_us(), self.volume_refusals.next_due_us()))

    def take_instructions(self) -> list[AnyInstruction]:
        """What is to be said of nodes that are left out, and of pods that pause, since the last call."""
        distrusted, refusals, pauses = self.distrusted, self.volume_refusals, self.state.pauses
        if not (distrusted.unreported or refusals.unreported or pauses.unreported):
            return []
        return distrusted.take_instructions() + refusals.take_instructions() + pauses.take_instructions()

    @property
    def is_settled(self) -> bool:
        """True if no node is left out for now, for one pod or for all."""
        pending = self.distrust_by_node or self.refused_by_pod
        return not (pending or self.distrusted.unreported or self.volume_refusals.unreported)

    def take(self, events: Iterable[event.Event], at_us: int) -> list[AnyInstruction]:
        """Apply events that happened at (or were heard of by) this engine time; those that are refused."""
        self.at_us = at_us
        state, of_pods = self.state, self._handlers_of_pods
        pods, keep = state.pods, state.store.keep
        rejected: list[AnyInstruction] = []
        for happened in events:
            if state.newcomer is not None:
                state.enqueue_newcomer()
            kind = type(happened)
            handle = of_pods.get(kind)
            if handle is None:
                handle = self._handlers[kind]
                state.only_room_decides = False
            try:
                handle(happened)
                if pods.moved:
                    state.neighbours.follow_moves()
            except InputError as problem:
                rejected.append(Rejected(kind.__name__, str(problem)))
            # A pod that comes is written where no trial touches anything.
            if state.newcomer is None:
                keep()
        return rejected

    def _node_set(self, happened: event.NodeSet) -> None:
        state, node = self.state, happened.node
        row = state.fleet.row_by_name.get(node.name)
        state.fleet.check(node)
        known = None if row is None else state.fleet.node_at(row)
        if known is None or known.labels != node.labels:
            self.nominations.cancel_in_domains()
        if row is not None and known is not None:
            if known == node:
                return
            # What is in a node's folders changes no place that is kept there.
            if msgspec.structs.replace(known, data=node.data) != node:
                self.nominations.cancel_on(row)
            if same_amounts(known, node):
                state.fleet.relabel(row, node)
                state.judge_node_anew(row)
                return
        row = state.pods.put_node(node)
        state.judge_node_anew(row)

    def _node_removed(self, happened: event.NodeRemoved) -> None:
        self.distrusted.node_removed(happened.name)
        row = self.state.fleet.row_by_name.get(happened.name)
        if row is None:
            return
        self.nominations.cancel_on(row)
        self.nominations.cancel_in_domains()
        self.state.pods.lose_node(happened.name)
        self.state.domains.remove(row)
        self.state.policy.fleet_changed()
        if self.state.neighbours.is_active:
            # A domain may be gone, and with it what kept others out.
            self.state.changes.note(Change.NODE_OF_DOMAINS_REMOVED)

    def _device_set(self, happened: event.DeviceSet) -> None:
        row = self.state.fleet.row_by_name.get(happened.node)
        if row is None:
            raise EventError("no such node", field="node", value=str(happened.node))
        node = self.state.fleet.node_at(row)
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
        state, pod = self.state, happened.pod
        if self.refused_by_pod:
            pod = self.volume_refusals.narrowed(pod)
        known = state.pods.row_by_uid.get(pod.uid)
        if known is not None:
            state.only_room_decides = False
            self._describe_anew(known, pod)
            return
        row = self._new_pod(pod)
        # Asked here: most policies learn nothing, and a call for each pod that comes would be for nothing.
        if state.policy.learns:
            state.policy.mix.arrived(pod.shape)
        if not state.pauses.recalled or not state.pause_as_before(row, self.at_us):
            state.welcome(row)
        if self.moving.replacements.by_row:
            self.moving.replacements.take_over(row)

    def _new_pod(self, pod: Pod) -> int:
        state = self.state
        row = state.pods.add(pod)
        state.number_arrival(row)
        if state.shapes.some_ask:
            state.neighbours.add(row)
            state.only_room_decides &= not state.neighbours.is_active
        return row

    def _describe_anew(self, row: int, pod: Pod) -> None:
        """A known pod has another content: it keeps its turn if it waits, and its place if it has one."""
        state = self.state
        known = state.pods.pod_at(row)
        if known == pod:
            return
        check_shape(pod.shape)
        self.nominations.cancel_of(row)
        if known.shape != pod.shape:
            self.nominations.cancel_on(state.pods.node_row(row))
        pod_state = state.pods.state(row)
        # A member that stays in its gang keeps what it is to the gang; a single pod takes its line anew.
        if known.gang is None or known.gang != pod.gang:
            state.withdraw(row)
        state.neighbours.redescribe(row)
        state.pods.describe(row, pod)
        state.neighbours.add(row)
        state.neighbours.follow(row)
        if pod_state is PodState.WAITING:
            state.enqueue(row)
        elif pod_state in {PodState.ASSUMED, PodState.BOUND}:
            self._update_end(row)
            self.overtime.update(row)
            # What it held, or what other pods saw in it, may have kept another from a place.
            state.changes.note(Change.POD_DESCRIBED_ANEW)
            state.placed(row)
            state.update_gang_of(row)

    def _update_end(self, row: int) -> None:
        """Whether a pod that has a place was told to end."""
        pod, departures = self.state.pods.pod_at(row), self.state.departures
        if pod.leaving:
            self.state.budgets.seen_to_end(pod)
            departures.announce(pod.uid)
            self.state.changes.note(Change.POD_LEAVES)
        elif pod.uid in departures.announced:
            self.nominations.cancel_waiting_for(pod.uid)
            departures.stays(pod.uid)
        if self.state.update_end(row) and departures.is_departing(pod.uid):
            self._end_nomination_of_gang(row)

    def _volume_refused(self, happened: event.VolumeRefused) -> None:
        row = self.state.pods.row_by_uid.get(happened.uid)
        if row is not None and self.state.pods.state(row) is PodState.BOUND:
            return
        self.volume_refusals.refuse(happened, self.at_us)
        # What is recalled after a restart comes before its pod.
        if row is not None:
            self._describe_anew(row, self.volume_refusals.narrowed_anew(self.state.pods.pod_at(row)))

    def _pod_bound(self, happened: event.PodBound) -> None:
        state, pod = self.state, happened.pod
        self.volume_refusals.bound(pod.uid)
        row = state.pods.row_by_uid.get(pod.uid)
        if row is None:
            row = self._new_pod(pod)
        else:
            self.nominations.cancel_of(row)
            self._describe_anew(row, pod)
        self._note_start(row, happened.started_at_us)
        if pod.promises:
            self.reservations.guests.take_promises(pod)
        node_row = state.fleet.row_by_name.get(happened.node)
        booked = state.pods.node_row(row)
        devices = happened.devices
        if booked is not None:
            held = state.pods.device_ids(row)
            if booked == node_row:
                devices = devices or held
                if devices == held and not state.pods.stands_elsewhere(row):
                    state.pods.mark(row, PodState.BOUND)
                    return
            self.nominations.cancel_waiting_for(pod.uid)
            state.pods.unbook(row, PodState.BOUND)
            state.changes.note(Change.POD_LEFT)
        elif state.pods.lost_node_of(pod.uid) not in {None, happened.node} and state.neighbours.is_active:
            # Nothing of the fleet, but perhaps the volumes chosen with the place that it had.
            state.changes.note(Change.POD_LEFT)
        state.waiting.withdraw(row)
        self.nominations.cancel_on(node_row)
        devices = devices or state.pods.ids_on_lost_node(pod.uid, happened.node)
        state.pods.leave_lost_node(pod.uid)
        if node_row is None:
            state.pods.mark(row, PodState.BOUND)
            state.pods.book_on_lost_node(row, happened.node, devices)
        else:
            state.pods.book(row, node_row, devices, PodState.BOUND)
        state.placed(row)
        self._update_end(row)
        state.update_gang_of(row)

    def _note_start(self, row: int, started_at_us: int | None) -> None:
        """When a pod began to run; where that is not said, when it was first heard that it does."""
        self.overtime.update(row)
        started = self.state.pods.started_at_us
        if started_at_us is not None:
            started[row] = started_at_us
        elif row not in started:
            started[row] = self.at_us

    def _bind_refused(self, happened: event.BindRefused) -> None:
        state = self.state
        row = state.pods.row_by_uid.get(happened.uid)
        if row is None or state.pods.state(row) is not PodState.ASSUMED:
            return
        if state.pods.node_row(row) is not None:
            state.pods.unbook(row, PodState.BACKOFF)
        state.pods.leave_lost_node(happened.uid)
        state.pods.mark(row, PodState.BACKOFF)
        state.departures.gone(happened.uid)
        self.reservations.guests.leave(happened.uid)
        self._end_nomination_of_gang(row)
        state.lost_place(row)
        state.back_off(row, self.at_us)

    def _eviction_refused(self, happened: event.EvictionRefused) -> None:
        if happened.uid in self.state.departures.evicted:
            self.nominations.cancel_waiting_for(happened.uid)
            self.state.departures.refuse(happened.uid, happened.until_us)
            self.state.eviction_immunity.stays(happened.uid)
            row = self.state.pods.row_by_uid[happened.uid]
            if self.state.update_end(row):
                self.state.update_gang_of(row)
            self.state.budgets.refund(self.state.pods.pod_at(row))
            self.overtime.update(row)

    def _eviction_refusal_recalled(self, happened: event.EvictionRefusalRecalled) -> None:
        """A refusal from before a restart comes after its pod. It ends where the pod leaves by now."""
        row, departures = self.state.pods.row_by_uid.get(happened.uid), self.state.departures
        runs = row is not None and self.state.pods.state(row) is PodState.BOUND
        if runs and not departures.is_departing(happened.uid):
            departures.recall_refusal(happened.uid, happened.until_us, self.at_us)

    def _pod_removed(self, happened: event.PodRemoved) -> None:
        state, uid = self.state, happened.uid
        row = state.pods.row_by_uid.get(uid)
        if state.only_room_decides and (row is None or state.pods.pod_at(row).gang is None):
            # Nothing else is known of it, and no line lacks the room that it leaves.
            if row is not None:
                state.sequence_by_row[row] = NO_ARRIVAL
                state.pods.remove(uid)
            return
        state.only_room_decides = False
        self._forget(uid)
        if row is not None:
            self._end_pod(row, state.pods.pod_at(row))

    def _forget(self, uid: PodUid) -> None:
        """What is known of pods that may be gone, or have never come."""
        if self.refused_by_pod or self.volume_refusals.unreported:
            self.volume_refusals.forget(uid)
        if self.violations.watches:
            self.violations.forget(uid)

    def _end_pod(self, row: int, pod: Pod) -> None:
        """A pod is gone, and with it all that other work knows of it."""
        state, uid = self.state, pod.uid
        if state.learned.queues:
            self._learn_from(row)
        if state.departures.by_row:
            self.nominations.cancel_of(row)
        members = None if pod.gang is None else state.workloads.members_of(row)
        # A member that was told to end counts no more since then, and its gang does without it already.
        if members is not None and row not in members.ending:
            self._end_nomination_of_gang(row)
        if state.budgets.accounts:
            state.budgets.seen_to_end(pod)
        state.departures.gone(uid)
        if self.overtime.due_us_by_uid:
            self.overtime.forget(uid)
        if self.reservations.guests.promises:
            self.reservations.guests.leave(uid)
        if state.eviction_immunity.is_watching:
            ran = state.pods.node_row(row) is not None
            state.eviction_immunity.leave(uid, state.queue_of(row), ran=ran)
        state.leave(row, pod)
        state.neighbours.forget(row)
        state.queues.remove_pod(row, uid)

    def _learn_from(self, row: int) -> None:
        """A pod is gone: how long it ran, if it was heard to run."""
        state = self.state
        pod, queue = state.pods.pod_at(row), state.queue_of(row)
        if state.learned.learns(queue, pod) and row in state.pods.started_at_us:
            ran_us = self.at_us - state.pods.started_at_us.get(row, self.at_us)
            state.learned.ended(queue, pod, ran_us, ended_by_us=state.departures.is_departing(pod.uid))

    def _gang_set(self, happened: event.GangSet) -> None:
        state, gang = self.state, happened.gang
        check_gang(gang)
        members = state.gangs.members(gang.name)
        self._end_nomination(members)
        if members.gang is not None:
            state.withdraw_gang(members.gang)
        members.describe(gang)
        self._assign_queues(members)
        state.update_gang(gang.name)

    def _gang_start_recalled(self, happened: event.GangStartRecalled) -> None:
        """Of a gang of which no member has a place any more there is nothing to join."""
        members = self.state.gangs.described(happened.gang)
        if members is not None:
            members.recall_start()
            self.state.update_gang(happened.gang)

    def _gang_removed(self, happened: event.GangRemoved) -> None:
        state = self.state
        members = state.gangs.described(happened.name)
        if members is None:
            return
        self._end_nomination(members)
        state.withdraw_gang(members.described)
        members.describe(None)
        self._assign_queues(members)
        state.update_gang(happened.name)
        state.gangs.drop_if_empty(happened.name)

    def _assign_queues(self, members: Members) -> None:
        """The queue of a gang may be another one, and holds for its pods."""
        for row in (*members.waiting, *members.with_places):
            self.state.assign_queue(row)
            self.overtime.update(row)

    def _end_nomination_of_gang(self, row: int) -> None:
        """A gang loses a member: places that are kept for others of it may not make its minimum any more."""
        for other in self.state.workloads.nominated_with(row):
            self.nominations.cancel_of(other)

    def _end_nomination(self, members: Members) -> None:
        for row in list(members.nominated):
            self.nominations.cancel_of(row)

    def _defragmentation_set(self, happened: event.DefragmentationSet) -> None:
        self.moving.set_rules(happened, self.at_us)

    def _topology_set(self, happened: event.TopologySet) -> None:
        for members in self.state.gangs.by_name.values():
            self._end_nomination(members)
        self.state.domains.set_topology(happened.topology)
        self.state.changes.note(Change.TOPOLOGY)


def same_amounts(known: Node, node: Node) -> bool:
    """True if only labels, taints or the cordon differ."""
    return known.allocatable == node.allocatable and known.devices == node.devices
