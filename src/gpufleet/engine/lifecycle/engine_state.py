"""All state of the engine, in one place that intake and cycle share.

``intake`` changes it by events, ``cycle`` by decisions. The parts keep themselves consistent;
what runs across several of them (a pod leaves its line, its gang and its node) is here.
"""

from collections.abc import Iterable

from gpufleet.engine.arrays import journal, layout
from gpufleet.engine.arrays.eviction_columns import PlacedInStep
from gpufleet.engine.arrays.layout import PodState
from gpufleet.engine.arrays.tables import TableStore
from gpufleet.engine.event import ImmunePods, ImmunityRecalled
from gpufleet.engine.learn.run_times import LearnedRunTimes, stem
from gpufleet.engine.lifecycle.bind_pauses import BindPauses
from gpufleet.engine.lifecycle.budgets import Budgets
from gpufleet.engine.lifecycle.changes import Change, Changes
from gpufleet.engine.lifecycle.departures import Departures
from gpufleet.engine.lifecycle.eviction_immunity import EvictionImmunity
from gpufleet.engine.place.choose.placement import NO_NODES, place_pod_by_handle
from gpufleet.engine.place.choose.policy_state import PolicyState
from gpufleet.engine.place.choose.ranking import best_node_by_handle
from gpufleet.engine.place.choose.related_places import RelatedPlaces
from gpufleet.engine.place.choose.trial import Trial
from gpufleet.engine.place.gangs.gang_places import GangPlaces
from gpufleet.engine.place.gangs.gangs import Gangs
from gpufleet.engine.place.relations.neighbours import Neighbours
from gpufleet.engine.place.workloads.workload import Workload
from gpufleet.engine.place.workloads.workloads import Workloads
from gpufleet.engine.policy import Policy
from gpufleet.engine.queueing.future_quota import FutureQuota
from gpufleet.engine.queueing.gate import Gate
from gpufleet.engine.queueing.leaving_use import LeavingUse
from gpufleet.engine.queueing.line import Line, LineKey, run_time_class
from gpufleet.engine.queueing.past_use import PastUse
from gpufleet.engine.queueing.queue_charges import QueueCharges
from gpufleet.engine.queueing.turns import Turns
from gpufleet.engine.queueing.waiting import WaitingLines
from gpufleet.engine.state.domains import Domains
from gpufleet.engine.state.fleet import Fleet
from gpufleet.engine.state.gang_members import Members
from gpufleet.engine.state.pods import PodTable
from gpufleet.engine.state.shapes import ShapeTable
from gpufleet.model.gang import Gang
from gpufleet.model.identifiers import GangName, PodUid, QueueName
from gpufleet.model.pod import Pod

SURPLUS_FROM_US = 1 << 61
"""Later than any engine time: work of one priority goes by age, and what gangs would like besides their
minimum goes after all of it.
"""
NO_ARRIVAL = 0
"""In place of the number of an arrival, where a row has no pod. Arrivals are counted from 1."""


class EngineState:
    """The fleet, the pods, the waiting work, and the policy."""

    def __init__(self, policy: Policy, seed: int) -> None:
        self.store = TableStore()
        self.fleet = Fleet(self.store)
        self.shapes = ShapeTable(self.store, self.fleet)
        self.pods = PodTable(self.store, self.fleet, self.shapes)
        self.queues = QueueCharges(self.store, self.fleet, self.shapes, self.pods)
        self.domains = Domains(self.fleet)
        self.waiting = WaitingLines()
        self.policy = PolicyState(policy, seed, self.fleet)
        self.neighbours = Neighbours(self.store, self.fleet, self.shapes, self.pods)
        self.gate = Gate(self.store, self.fleet, self.shapes, self.queues)
        # The gate belongs to an earlier stage, so what it needs of this one is handed to it as functions.
        self.gate.sequence_of = self.sequence_of
        self.gate.created_of = self.created_of
        self.gate.members_of = self.members_of
        self.future_quota = FutureQuota(self.store, self.pods, self.gate)
        self.related = RelatedPlaces(
            self.store, self.shapes, self.pods, self.policy, self.neighbours, self.gate
        )
        places = GangPlaces(self.store, self.shapes, self.pods, self.domains, self.neighbours)
        self.gangs = Gangs(places, self.gate)
        self.workloads = Workloads(self.pods, self.gangs)
        self.past_use = PastUse(self.store, self.queues.tree, self.queues.resources)
        self.departures = Departures(self.pods)
        leaving = LeavingUse(self.store, self.departures.rows)
        tree, members = self.queues.tree, self.gangs.by_name
        self.turns = Turns(self.store, self.waiting, members, tree, self.past_use, leaving)
        self.gate.nominated_rows = self.departures.by_row.keys
        self.budgets = Budgets()
        self.learned = LearnedRunTimes()
        self.eviction_immunity = EvictionImmunity()
        self.replacements: dict[int, None] = {}
        self.changes = Changes()
        self._evictions_counted = 0
        self.steps, self.stepped_at_us = 0, 0
        self.has_valuation = False
        self.placed_in_step = PlacedInStep(self.pods.eviction_columns)
        # A list, not a dictionary: it has a number for each pod that is known, 180,000 of a large fleet.
        self.sequence_by_row: list[int] = []
        self.only_room_decides = False  # set at the end of a step (``Cycle.only_room_decides``)
        self.newcomer: int | None = None
        self.refused_newcomer: int | None = None
        # Dictionaries without values stand for sets in order, so that every run tells in one order.
        self.short_gangs: dict[GangName, None] = {}
        self.unknown_gangs: dict[GangName, None] = {}
        self.pauses = BindPauses()

    def begin_step(self, at_us: int) -> None:
        """A step begins: what earlier steps placed may be evicted.

        A valuation comes in a step of its own, in the instant of the step that asked for it. Both together
        are one decision: what the first has placed is not evicted by the second.
        """
        self.steps += 1
        if not (self.has_valuation and at_us == self.stepped_at_us):
            self.placed_in_step.clear()
        self.has_valuation, self.stepped_at_us = False, at_us

    def trial(self) -> Trial:
        """A trial on the state as it is."""
        return Trial(self.store, self.shapes, self.pods, self.policy, self.related)

    def fits_somewhere(self, shape_row: int) -> bool:
        """True if some node has room for a shape, whatever its neighbours there are."""
        slot = self.shapes.slot(shape_row)
        found = best_node_by_handle(self.store.handle, self.shapes.rankings_handle, self.policy.handle, slot)
        return found != layout.NOT_SET

    def judge_node_anew(self, row: int) -> None:
        """What a node says of itself has changed, or what is said of it: shapes may fit there or not."""
        self.shapes.node_added(row)
        self.domains.put(row)
        self.policy.fleet_changed()
        # Rankings are brought up to date with what was touched, when they are asked next.
        journal.touch(self.store.tables, row)
        self.changes.note(Change.NODE)

    def set_apart_late(self, line: Line) -> None:
        """The first pod of a line came when its queue was draining, those behind it perhaps before."""
        self.waiting.move_first(line, line.key._replace(late=True))

    def set_apart_refused(self, line: Line) -> None:
        """The namespace of the first pod of a line may not use its queue; those behind it perhaps may."""
        namespace = self.pods.pod_at(line.waiting[0][-1]).namespace
        self.waiting.move_first(line, line.key._replace(refused=namespace))

    def number_arrival(self, row: int) -> None:
        """A pod has come: its row, the first that is free, gets the number of its arrival."""
        sequence, sequences = self.waiting.next_sequence(), self.sequence_by_row
        if row == len(sequences):
            sequences.append(sequence)
        else:
            sequences[row] = sequence

    def members_of(self, row: int) -> Iterable[int]:
        """The pods that start together with one that waits, itself among them."""
        members = self.workloads.members_of(row)
        return (row,) if members is None else (row, *members.waiting)

    def keep_out(
        self, line: Line, workload: Workload, *, holds_back: bool = True, lacks_room: bool = False
    ) -> None:
        """The first workload of a line waits for quota, and, if it lacks that too, for room."""
        # In a draining queue, late work holds back none that was there before; and in no queue does work
        # that may not use it hold back work that may.
        holds_back = holds_back and not (line.key.late or line.key.refused)
        self.waiting.park(line, holds_back=holds_back, lacks_room=lacks_room)
        asked, protected = workload.asked_and_protected(self.gate)
        self.waiting.kept_out.put(line, self.queues.queue_row(workload.row), asked, protected)
        line.refused_first = line.waiting[0]

    def wake_kept_out(self, *, every_line: bool) -> None:
        """Lines whose queue may have more since usage fell take their turn, or all that queues keep out."""
        # Taken also where every line is woken: what is taken notes the usage that was seen.
        fitting = self.waiting.kept_out.take_fitting(self.store)
        if every_line:
            for line in list(self.waiting.kept_out.keys()):
                self.waiting.wake(line.key)
            return
        self.waiting.call(fitting)

    def lacks_quota(self, workload: Workload) -> bool:
        """True if its queue has less left than a workload needs at least."""
        queue_row = self.queues.queue_row(workload.row)
        return self.gate.is_short(queue_row, *workload.asked_and_protected(self.gate))

    def welcome(self, row: int) -> None:
        """A pod has come. The last to come before the step decides need not stand in a line if it would be
        the only one that can be served (``place_newcomer``).
        """
        pod = self.pods.pod_at(row)
        # Where queues are described or run times learned, more than room decides whose turn it is.
        if pod.gang is None and not (pod.leaving or self.queues.is_active or self.learned.queues):
            self.newcomer = row
        else:
            self.enqueue(row)

    def enqueue_newcomer(self) -> None:
        """The pod that came last takes its turn like every other."""
        if self.newcomer is not None:
            row, self.newcomer = self.newcomer, None
            self.enqueue(row)

    def place_newcomer(self) -> list[int]:
        """Book the pod that came last on its best node if nothing else can be served and only room decides.

        Its row, or nothing where it takes its turn: whatever line it would stand in, it is the next. If it
        fitted nowhere it is the ``refused_newcomer`` until its turn, which no other work has before.
        """
        row, self.refused_newcomer = self.newcomer, None
        if row is None:
            return []
        shape_row = self.store.tables.pods.item(layout.POD_SHAPE, row)
        gpu = self.pods.pod_at(row).shape.gpu
        waiting, is_alone = self.waiting, self.only_room_decides
        if not (is_alone or waiting.has_turns or shape_row in waiting.parked_by_shape):
            is_alone = not (self.gate.is_choosy or self.neighbours.is_watchful)
        if is_alone and not gpu.model_order:
            self.pods.make_journal_room(1, gpu.count)
            slot = self.shapes.slot(shape_row)
            handles = (self.store.handle, self.shapes.rankings_handle, self.policy.handle)
            if place_pod_by_handle(*handles, slot, row, NO_NODES) != layout.NOT_SET:
                self.newcomer = None
                return [row]
            self.refused_newcomer = row
        self.enqueue_newcomer()
        return []

    def enqueue(self, row: int) -> None:
        """A pod takes its turn, alone or with its gang; one that was told to end starts no more."""
        self.only_room_decides = False
        pod = self.pods.pod_at(row)
        self.assign_queue(row)
        if pod.leaving:
            self.withdraw(row)
            return
        if pod.gang is not None:
            self.gangs.members(pod.gang).wait(row, pod.role)
            self.update_gang(pod.gang)
            return
        self.waiting.put(self.line_of(row), row, pod.created_at_us, pod.name, self.sequence_by_row[row])

    def queue_of(self, row: int) -> QueueName:
        """The queue of a pod: where it is charged if it has a place, else the one that it names."""
        charged = self.queues.queue_row(row)
        if charged != layout.NOT_SET and self.pods.node_row(row) is not None:
            return self.queues.tree.name_at(charged)
        return self.named_queue(row)

    def named_queue(self, row: int) -> QueueName:
        """The queue that a pod names; that of its gang holds for its members."""
        return self.workloads.ranked(row).queue

    def sequence_of(self, row: int) -> int:
        """When a pod came, or its gang: the number of the arrival. What has started was there before."""
        pod = self.pods.pod_at(row)
        if pod.gang is None:
            return self.sequence_by_row[row]
        members = self.gangs.members(pod.gang)
        return 0 if members.started else members.sequence or self.waiting.last_sequence + 1

    def created_of(self, row: int) -> int:
        """When a pod was made, or its gang. What has started was there before."""
        members = self.workloads.members_of(row)
        has_started = members is not None and members.gang is not None and members.started
        return 0 if has_started else self.workloads.ranked(row).created_at_us

    def assign_queue(self, row: int) -> None:
        """A pod is charged to its queue, if any queue is described."""
        if self.queues.is_active:
            pod = self.pods.pod_at(row)
            self.queues.assign(row, pod.queue if pod.gang is None else self.named_queue(row))

    def line_of(self, row: int) -> LineKey:
        """The line in which a pod without a gang waits, or would wait.

        That of its shape, or, where pods that look like it were set apart, theirs.
        """
        pod, shape = self.pods.pod_at(row), self.store.tables.pods.item(layout.POD_SHAPE, row)
        # Past its own ``__new__``, which takes four times as long: every pod that comes asks for its line.
        fields = pod.queue, pod.priority, shape, None, (), False, "", pod.preempts, not pod.preemptible, 0, ""
        key = tuple.__new__(LineKey, fields)
        if pod.run_time_us is not None or pod.run_time_max_us is not None or pod.interruptible:
            key = key._replace(run_time_class=run_time_class(pod))
        if self.learned.queues and self.learned.learns(pod.queue, pod):
            key = key._replace(template=stem(pod.name or pod.uid))
        if self.neighbours.is_active:
            apart = key._replace(apart=self.neighbours.seen_labels(row))
            if apart in self.waiting.lines:
                return apart
        return key

    def set_apart(self, line: Line) -> None:
        """The first pod of a line is kept out by others' anti-affinity alone, which does not hold for
        those behind it that look different: it waits in a line of its own kind.
        """
        seen_labels = self.neighbours.seen_labels(line.waiting[0][-1])
        self.waiting.move_first(line, line.key._replace(apart=seen_labels))

    def update_gang(self, name: GangName) -> None:
        """A gang's members changed: if enough of them wait it takes (or takes again) its turn."""
        members = self.gangs.members(name)
        gang = members.gang
        if members.nominated:
            if gang is not None:
                self.withdraw_gang(gang)
            return
        if gang is None:
            if members.waiting and not members.reported_unknown:
                self.unknown_gangs[name] = None
            return
        if not members.ready:
            self.withdraw_gang(gang)
            if members.waiting and not members.reported_short:
                self.short_gangs[name] = None
            return
        key = gang_key(gang)
        if key in self.waiting.lines:
            self.give_turn(members, self.waiting.lines[key])
            self.waiting.wake(key)
            return
        if members.sequence == 0:
            # The number is kept while the gang lives, so that it loses its turn by no change of a member.
            members.sequence = self.waiting.next_sequence()
        # Negative, so that it is no row of a pod: these stand for single pods in their lines.
        self.waiting.put(key, -members.sequence, turn_us(members), gang.short_name, members.sequence)

    def update_gang_of(self, row: int) -> None:
        """``update_gang`` for the gang of a pod, if it has one."""
        if (gang := self.pods.pod_at(row).gang) is not None:
            self.update_gang(gang)

    def stands_in_line(self, members: Members) -> bool:
        """True for a gang that takes turns, or is parked."""
        return members.gang is not None and gang_key(members.gang) in self.waiting.lines

    def give_turn(self, members: Members, line: Line) -> None:
        """A gang stands in its line by its age while it lacks members, and behind all that do after that."""
        if self.waiting.trim(line):
            self.waiting.retime(line, turn_us(members))

    def take_short_gangs(self) -> list[Members]:
        """Gangs of which too few members have come and that have not been told so yet."""
        short = [self.gangs.members(name) for name in self.short_gangs if name in self.gangs.by_name]
        self.short_gangs.clear()
        # One that is not described any more is told as such.
        still = [members for members in short if members.gang is not None and members.waiting]
        return [members for members in still if not members.nominated and not members.ready]

    def take_unknown_gangs(self) -> list[tuple[GangName, Members]]:
        """Gangs that pods name and that are not described, as far as that was not told yet."""
        unknown = [
            (name, self.gangs.by_name[name]) for name in self.unknown_gangs if name in self.gangs.by_name
        ]
        self.unknown_gangs.clear()
        return [(name, members) for name, members in unknown if members.gang is None and members.waiting]

    def withdraw_gang(self, gang: Gang) -> None:
        """A gang leaves its line: it changed, ended, lacks members, or wants no more."""
        members = self.gangs.members(gang.name)
        if members.sequence == 0:
            return
        self.waiting.withdraw(-members.sequence)

    def count_evictions(self) -> None:
        """A step ends: work that was looked at before may go where pods leave that it told to end."""
        if self.departures.evictions != self._evictions_counted:
            self._evictions_counted = self.departures.evictions
            self.changes.note(Change.EVICTED)

    def placed(self, row: int) -> None:
        """A pod no longer waits: it has a place."""
        pod = self.pods.pod_at(row)
        if self.queues.is_active:
            self.assign_queue(row)
        self.changes.note(Change.POD_PLACED)
        if pod.leaving:
            self.departures.announce(pod.uid)
        self.waiting.take_out(row)
        if pod.gang is not None:
            members = self.gangs.members(pod.gang)
            members.place(row, pod.role, ends=self.departures.is_departing(pod.uid))
        if self.neighbours.is_active:
            self.neighbours.settled(row)

    def nominated(self, row: int) -> None:
        """A pod no longer waits for its turn: a place is kept for it."""
        self.waiting.take_out(row)
        members = self.workloads.members_of(row)
        if members is not None:
            members.nominate(row)

    def lost_nomination(self, row: int) -> None:
        """No place is kept for a pod any more."""
        # A replacement stands in no line: it exists only as long as its move.
        if row in self.replacements:
            return
        members = self.workloads.members_of(row)
        if members is not None:
            members.nominated.pop(row, None)
        self.enqueue(row)

    def recall_immunity(self, happened: ImmunityRecalled) -> None:
        """Which pods, of those that are there, may not be evicted for which queues since before a restart."""
        here = self.pods.row_by_uid
        known = (ImmunePods(one.queue, tuple(filter(here.__contains__, one.pods))) for one in happened.immune)
        self.eviction_immunity.recall(known, self.departures.departing())
        self.changes.note(Change.IMMUNITY_RECALLED)

    def recall_immunity_of(self, uids: Iterable[PodUid], queues: Iterable[QueueName]) -> None:
        """Pods, where they are there, may not be evicted for queues since before a restart."""
        known = filter(self.pods.row_by_uid.__contains__, uids)
        self.eviction_immunity.add(known, frozenset(queues))
        self.changes.note(Change.IMMUNITY_RECALLED)

    def update_end(self, row: int) -> bool:
        """A member of a gang was told to end, or does not end after all; False where that is no news.

        A gang without it may lack others before it can start again.
        """
        pod = self.pods.pod_at(row)
        members = self.workloads.members_of(row)
        ends = self.departures.is_departing(pod.uid)
        if members is None or not members.update_end(row, ends=ends):
            return False
        if members.gang is not None and not members.ready:
            self.withdraw_gang(members.gang)
        elif members.gang is not None and (line := self.waiting.lines.get(gang_key(members.gang))):
            # A gang that lacks members again has the turn of its age at once.
            self.give_turn(members, line)
            self.waiting.wake(line.key)
            self.turns.rejoin(members.gang.queue)
        return True

    def lost_place(self, row: int) -> None:
        """A pod lost its place, for its gang too."""
        self.changes.note(Change.POD_LEFT)
        self._leave_gang(row)

    def leave(self, row: int, pod: Pod) -> None:
        """A pod goes for good: out of its line and its gang."""
        # On a node that went it holds nothing of the fleet, but perhaps a claim.
        holds_claims = self.neighbours.is_active and self.pods.is_on_lost_node(pod.uid)
        if self.pods.node_row(row) is not None or holds_claims:
            self.changes.note(Change.POD_LEFT)
        self.withdraw(row)
        self.sequence_by_row[row] = NO_ARRIVAL
        if self.pauses.refusals:
            self.pauses.forget(pod.uid)

    def withdraw(self, row: int) -> None:
        """A pod leaves its line and its gang."""
        self.waiting.withdraw(row)
        if self.pods.pod_at(row).gang is not None:
            members = self.workloads.members_of(row)
            if members is not None:
                members.waiting.pop(row, None)
            self._leave_gang(row)

    def _leave_gang(self, row: int) -> None:
        """A pod holds no place any more, and its gang, if it has one, may lack it."""
        gang = self.pods.pod_at(row).gang
        if gang is not None:
            self.gangs.members(gang).displace(row)
            self.update_gang(gang)
            self.gangs.drop_if_empty(gang)

    def back_off(self, row: int, at_us: int) -> None:
        """A pod pauses because its bind was refused, longer each time."""
        self.pauses.begin(row, self.sequence_by_row[row], self.pods.pod_at(row).uid, at_us)

    def pause_as_before(self, row: int, at_us: int) -> bool:
        """Whether a pod that has just come still pauses since before a restart; then it does."""
        uid = self.pods.pod_at(row).uid
        pauses = self.pauses.resume(row, self.sequence_by_row[row], uid, at_us)
        if pauses:
            self.assign_queue(row)
            self.pods.mark(row, PodState.BACKOFF)
        return pauses

    def end_backoff(self, at_us: int) -> None:
        """Pods whose pause is over wait again."""
        for row, sequence in self.pauses.take_over(at_us):
            still = self.sequence_by_row[row] == sequence
            if still and self.pods.state(row) is PodState.BACKOFF:
                self.pods.mark(row, PodState.WAITING)
                self.enqueue(row)

    def next_backoff_us(self) -> int | None:
        """When the first pause ends."""
        return self.pauses.next_due_us()


def gang_key(gang: Gang) -> LineKey:
    """The line in which a gang stands."""
    return LineKey(gang.queue, gang.priority, layout.NOT_SET, gang.name)


def turn_us(members: Members) -> int:
    """The age by which a gang takes its turn: its own; behind all others for members beyond its minimum."""
    created_at_us = members.described.created_at_us
    return created_at_us if members.missing else SURPLUS_FROM_US + created_at_us
