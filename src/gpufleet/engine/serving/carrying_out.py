"""Carries out what a cycle decides, and collects what is told of it.

Pods start, places are kept, pods are told to end, and gangs hear why they wait: each is a change of the state
and an instruction, made together here and nowhere else. ``cycle`` returns the instructions.
"""

from collections.abc import Iterable

from gpufleet.engine.arrays import layout
from gpufleet.engine.defragment.replacements import Replacements
from gpufleet.engine.engine_errors import BrokenInvariantError
from gpufleet.engine.explanations.reservation_report import ReservationReport
from gpufleet.engine.explanations.verdicts import gang_refusal
from gpufleet.engine.instruction import AnyInstruction, Bind, Evict, RunTimeLimit, Verdict, WhyEvicted
from gpufleet.engine.lifecycle.engine_state import EngineState
from gpufleet.engine.lifecycle.nominations import Nominations
from gpufleet.engine.place.workloads.workload import WorkloadName
from gpufleet.engine.preempt.victims import EvictionPlan
from gpufleet.engine.reserve.guests import Guests
from gpufleet.engine.state.gang_members import Members
from gpufleet.model.identifiers import GangName, QueueName


class CarryingOut:
    """The decisions of one step at a time, at ``at_us``, and the ``instructions`` that follow from them."""

    def __init__(
        self,
        state: EngineState,
        nominations: Nominations,
        guests: Guests,
        replacements: Replacements,
        report: ReservationReport,
    ) -> None:
        self.state = state
        self.nominations = nominations
        self.guests = guests
        self.replacements = replacements
        self.report = report
        self.at_us = 0
        self.instructions: list[AnyInstruction] = []

    def begin(self, at_us: int, instructions: list[AnyInstruction]) -> None:
        """A step begins in which nothing is decided yet, and this was told."""
        self.at_us = at_us
        self.instructions = instructions

    def take_instructions(self) -> list[AnyInstruction]:
        """What follows from the decisions since this was last asked."""
        taken, self.instructions = self.instructions, []
        return taken

    def bind(self, row: int) -> None:
        """A pod that was booked starts."""
        state = self.state
        pods = state.pods
        node_row = pods.booked(row)
        uid = pods.pod_at(row).uid
        if node_row == layout.NOT_SET:
            raise BrokenInvariantError(f"pod {uid} was placed on no node")
        state.placed_in_step.add(row)
        pods.assumed_at_us[row] = self.at_us
        devices = pods.named_devices(row)
        if devices is None:
            raise BrokenInvariantError(f"pod {uid} got a device without id")
        node = state.fleet.node_at(node_row)
        if state.only_room_decides:
            # It stood in no line, and has nothing but its room.
            self.instructions.append(Bind(uid, node.name, devices))
            return
        state.placed(row)
        # Each is asked only where there is any: most pods chose nothing, took no place over, are no guest.
        neighbours = state.neighbours
        has_choices = bool(neighbours.claims.choice_by_row)
        volumes = neighbours.volumes_of(row) if has_choices else ()
        claims = neighbours.claimed_by(row) if has_choices else ()
        origin = self.replacements.origin(uid) if self.replacements.origins else None
        promises = self.guests.promises_of(uid) if self.guests.promises else ()
        self.instructions.append(Bind(uid, node.name, devices, volumes, origin, promises, claims))

    def bind_nominated(self, rows: Iterable[int]) -> None:
        """Pods start that had a nomination."""
        gangs: dict[GangName | None, int] = {}
        for row in rows:
            self.bind(row)
            gangs.setdefault(self.state.pods.pod_at(row).gang, row)
        for row in gangs.values():
            self.state.update_gang_of(row)

    def take(self, found: EvictionPlan, beneficiary: WorkloadName, queue: QueueName) -> None:
        """The victims of a plan are told to end for a workload of a queue."""
        pods = self.state.pods
        queue_by_victim = {uid: self.state.queue_of(pods.row_by_uid[uid]) for uid in found.victims}
        for uid, theirs in queue_by_victim.items():
            alike = theirs == queue or not self.state.queues.is_active
            why = found.why or (WhyEvicted.PREEMPTED if alike else WhyEvicted.RECLAIMED)
            if why is WhyEvicted.INTERRUPTED and self.guests.is_overdue(beneficiary, uid):
                why = WhyEvicted.OVERDUE
            self.evict(pods.row_by_uid[uid], beneficiary, why)
        # What ends for no claim of a queue makes no pod immune to a queue.
        placed = [] if found.why else [pods.pod_at(one.row).uid for one in found.placements]
        self.state.eviction_immunity.take(queue, placed, queue_by_victim)

    def evict(
        self,
        row: int,
        beneficiary: WorkloadName | None,
        why: WhyEvicted,
        limit: RunTimeLimit | None = None,
    ) -> None:
        """Tell a pod to end."""
        pod = self.state.pods.pod_at(row)
        self.state.departures.evict(pod.uid, for_work=beneficiary is not None)
        self.state.turns.leaving.tell(row)
        if self.state.update_end(row):
            self.nominations.cancel_of_gang(row)
        self.state.budgets.spend(pod)
        self.instructions.append(Evict(pod.uid, beneficiary, why.value, limit))

    def tell_gang(self, members: Members, placeable: int, verdict: Verdict | None, role: str) -> None:
        """Why a gang waits; without a verdict because members have not come."""
        members.reported = members.reported or verdict is not None
        members.reported_short = members.reported_short or verdict is None
        verdict = self.report.complete_gang(verdict, members, self.at_us)
        self.instructions.append(gang_refusal(members, placeable, verdict, role))
