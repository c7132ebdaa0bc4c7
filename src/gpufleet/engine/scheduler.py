"""The engine: events in, instructions out, through one entry point.

``Engine.step`` takes what happened and the moment, brings the state up to date (``intake``),
decides what can be decided (``cycle``) and returns what the shell shall do. It reads no clock and
draws no random number that is not derived from its seed and its events, so a saved log of steps
(``event_log``) replays to the same bytes.
"""

from collections.abc import Iterable, Iterator
from itertools import islice

from gpufleet.engine.arrays.layout import PodState
from gpufleet.engine.cycle import Cycle
from gpufleet.engine.defragment.automatic import Automatic
from gpufleet.engine.defragment.consolidation import Consolidation, Defragmentation, Limits
from gpufleet.engine.defragment.for_workload import moves_for
from gpufleet.engine.defragment.movable import movable
from gpufleet.engine.defragment.moves import Move, named_moves
from gpufleet.engine.defragment.relocating import Relocating
from gpufleet.engine.engine_errors import BrokenInvariantError, EventError
from gpufleet.engine.event import (
    Event,
    ImmunePods,
    KeptPlaces,
    LearnedRuns,
    PastUseRecalled,
    PodAdded,
    ValuationLearned,
)
from gpufleet.engine.explanations.explanation import Explanation
from gpufleet.engine.explanations.promised_quota import PromisedQuota
from gpufleet.engine.explanations.queue_report import QueueUse, queue_report
from gpufleet.engine.explanations.waiting_order import Queued, line_up
from gpufleet.engine.explanations.why import Why
from gpufleet.engine.instruction import (
    AnyInstruction,
    GangShortage,
    GangUnschedulable,
    Learn,
    Outlook,
    QueueBar,
    RequeueAfter,
    Reservation,
    Verdict,
    WhyBarred,
)
from gpufleet.engine.intake import Intake
from gpufleet.engine.lifecycle.engine_state import EngineState
from gpufleet.engine.lifecycle.nominations import Nominations
from gpufleet.engine.lifecycle.violations import Violations
from gpufleet.engine.node_reasons.object_details import ObjectDetails
from gpufleet.engine.policy import Policy
from gpufleet.engine.preempt.overtime import Overtime
from gpufleet.engine.preempt.victim_search import PreemptionSearch
from gpufleet.engine.preempt.victims import NoVictims, UnplacedWorkload, VictimSearch
from gpufleet.engine.queueing.fair_shares import FairShare, fair_shares
from gpufleet.engine.reserve.reservations import Reservations, earliest
from gpufleet.engine.work_slices import WorkSlice
from gpufleet.model.identifiers import GangName, NodeName, PodUid


class Engine:
    """Decides for one fleet. Not for use by several threads at once.

    ``goes_on``: slices of a step are still to come. ``promised_quota`` is for those who show what
    waits to node autoscalers: no decision depends on it.
    """

    def __init__(
        self,
        policy: Policy,
        *,
        seed: int = 0,
        victims: VictimSearch | None = None,
    ) -> None:
        self.state = EngineState(policy, seed)
        self.nominations = Nominations(self.state)
        search = victims or PreemptionSearch()
        overtime = Overtime(self.state, evicts=not isinstance(search, NoVictims))
        self.overtime = overtime
        self._reservations = Reservations(self.state, self.nominations, overtime)
        moving = Automatic(self.state, self.nominations)
        violations = self._violations = Violations(self.state, self.nominations)
        self._intake = Intake(self.state, self.nominations, overtime, self._reservations, moving, violations)
        self._cycle = Cycle(
            self.state, self.nominations, search, overtime, self._reservations, moving, violations
        )
        self._why = Why(self.state, self._cycle.verdicts)
        self.promised_quota = PromisedQuota(self.state)
        self.at_us = 0
        self.goes_on = False

    def step(self, at_us: int, events: Iterable[Event] = ()) -> list[AnyInstruction]:
        """Take in events at engine time ``at_us`` (microseconds, never going back) and decide.

        A bad event is answered by ``Rejected`` and changes nothing. Raises EventError, before
        anything is taken in, if time goes back.
        """
        self._begin(at_us)
        told = self._intake.take(events, at_us)
        if not self.state.only_room_decides:
            told += self._intake.take_instructions()
        if self._cycle.begin(at_us, told):
            return self._concluded(at_us)
        instructions: list[AnyInstruction] = []
        for part in self._decided(at_us, WorkSlice(None)):
            instructions += part
        return instructions

    def slices(
        self, at_us: int, events: Iterable[Event], work_max: int | None
    ) -> Iterator[list[AnyInstruction]]:
        """One ``step`` that is cut wherever about so much work was done (``work_slices``).

        The slices together are what ``step`` returns. What is asked of the engine between them is answered
        from what is decided so far. The next step can only begin when the last slice was taken.
        """
        self._begin(at_us)
        return self._slices(at_us, iter(events), WorkSlice(work_max))

    def _begin(self, at_us: int) -> None:
        if at_us < self.at_us:
            raise EventError(
                "engine time goes back", field="at_us", value=at_us, expected=f"{self.at_us} or later"
            )
        if self.goes_on:
            raise BrokenInvariantError(f"a step at {at_us} began before the one at {self.at_us} was over")
        self.goes_on = True
        self.at_us = at_us
        intake = self._intake
        if intake.distrust_by_node or intake.refused_by_pod:
            intake.settle(at_us)

    def _slices(self, at_us: int, events: Iterator[Event], work: WorkSlice) -> Iterator[list[AnyInstruction]]:
        told: list[AnyInstruction] = []
        while some := tuple(islice(events, work.events_max)):
            if work.ends():
                yield told
                told = []
            told += self._intake.take(some, at_us)
            work.spend(len(some))
        told += self._intake.take_instructions()
        if self._cycle.begin(at_us, told):
            yield self._concluded(at_us)
        else:
            yield from self._decided(at_us, work)

    def _decided(self, at_us: int, work: WorkSlice) -> Iterator[list[AnyInstruction]]:
        """What a step decides of which not all is decided as it begins, and what it says at its end."""
        yield from self._cycle.run(at_us, work)
        yield self._concluded(at_us)

    def _concluded(self, at_us: int) -> list[AnyInstruction]:
        """What is left to say when all is decided, and when the next step is wanted."""
        state = self.state
        instructions = self._cycle.carrying_out.take_instructions()
        # Where only room decides nothing is due. A step takes some 20 microseconds, of which questions that
        # come to nothing would be several.
        if not state.only_room_decides:
            if state.past_use.is_due():
                with self._reservations.left_out():
                    state.past_use.follow(at_us)
            intake, due_us = self._intake, self._cycle.next_due_us()
            if intake.distrust_by_node or intake.refused_by_pod:
                due_us = earliest((due_us, intake.next_due_us()))
            if due_us is not None:
                instructions.append(RequeueAfter(due_us))
            state.only_room_decides = self._cycle.only_room_decides() and intake.is_settled
        policy = state.policy
        if policy.defers or (policy.learns and policy.valuation_is_due()):
            instructions.append(Learn())
            policy.defers = False
        state.store.keep()
        self.goes_on = False
        return instructions

    def learns_first(self, events: Iterable[Event]) -> bool:
        """True if so many pods come with these events that the policy should learn before it places any.

        The step that takes them in then ends with ``DecisionsDeferred``, and says ``Learn``.
        """
        arrivals = sum(isinstance(happened, PodAdded) for happened in events)
        return self.state.policy.learns_first_from(arrivals)

    def study(self) -> ValuationLearned:
        """What the policy can learn now, as an event for the next step. Changes nothing.

        The only float arithmetic of the engine is in here; its result is in whole numbers.
        """
        return ValuationLearned(self.state.policy.study())

    def past_use(self) -> PastUseRecalled:
        """What queues with a half-life used so far, as the event that tells an engine after a restart."""
        return self.state.past_use.remembered()

    def fair_shares(self) -> tuple[FairShare, ...]:
        """What each queue is owed of each resource, and its dominant share; none while no queue is described.

        What is reserved is wanted and not yet had. Costs the whole tree.
        """
        with self._reservations.left_out():
            return fair_shares(self.state.queues, self.state.turns, self.at_us)

    def explain_gang(self, name: GangName) -> GangUnschedulable | None:
        """Why a gang cannot start now; None if none of its pods waits, or nothing stands in its way.

        Costs as much as trying to place it, which is taken back.
        """
        return self._why.gang(name, self.at_us)

    def cause(self, uid: PodUid) -> str:
        """The cause by which a pod waits, one of ``causes``; "" if the pod is unknown or has its place."""
        return self._why.cause(uid, self.at_us)

    def explanation(self, uid: PodUid, details: ObjectDetails | None = None) -> Explanation | None:
        """Everything that there is to say of why a pod waits; None if it is unknown or has its place.

        ``details`` may know more of the cluster, for the words alone. Of a gang it is said why its next
        member waits. Costs a look at every pod, and for a gang what trying to place it costs.
        """
        return self._why.explanation(uid, self.at_us, details)

    def queue_report(self) -> tuple[QueueUse, ...]:
        """What each queue may have, has, and why its work waits; empty while no queue is described."""
        return queue_report(self.state)

    def queues_barred(self, reasons: Iterable[WhyBarred]) -> tuple[QueueBar, ...]:
        """The queues in which nothing starts for one of these reasons, each with that which bars it."""
        return self.state.queues.tree.bars_for(frozenset(reasons))

    def line_up(self) -> tuple[Queued, ...]:
        """All work that waits, by queue and turn; empty while no queue is described."""
        return line_up(self.state)

    def defragmentation(self, moves_max: int) -> Defragmentation:
        """Moves of running pods that would let larger pods fit; none is made.

        Costs a trial a pod with GPUs.
        """
        return Consolidation(self.state, self.at_us, Limits(moves_max)).plan()

    def relocating(self) -> Relocating:
        """Try where running work would go if nodes were emptied; what is tried is taken back at the end."""
        return Relocating(self.state)

    def moves_for(self, workload: PodUid | GangName, moves_max: int) -> tuple[Move, ...] | None:
        """Moves of running pods after which this waiting pod or gang can start; None if none are found.

        None also for what has a place or is unknown. Nothing is moved.
        """
        unplaced = self._asking(workload)
        if unplaced is None:
            return None
        found = moves_for(unplaced, self.state, movable(self.state, self.at_us), moves_max)
        return None if found is None else named_moves(self.state, found.relocations)

    def _asking(self, workload: PodUid | GangName) -> UnplacedWorkload | None:
        members = self.state.gangs.described(workload)
        if members is not None and members.waiting and members.missing:
            return UnplacedWorkload(self.state.workloads.of_members(members), self.at_us)
        row = self._row_without_place(PodUid(workload))
        if row is None or self.state.pods.pod_at(row).workload != workload or self._reservations.of_row(row):
            return None
        return UnplacedWorkload(self.state.workloads.single(row), self.at_us)

    def reservations(self) -> tuple[Reservation, ...]:
        """The places that work holds, and when each is expected to start; those of the best right first."""
        return self._reservations.values(self.at_us)

    def learned_run_times(self) -> tuple[LearnedRuns, ...]:
        """What was learned of run times, for the engine that comes after this one."""
        return self.state.learned.remembered()

    def immune_pods(self) -> tuple[ImmunePods, ...]:
        """Which pods may not be evicted for which queues, for the engine that comes after this one."""
        return self.state.eviction_immunity.remembered()

    def kept_places(self) -> tuple[KeptPlaces, ...]:
        """The places that are kept until pods have left them, for the engine that comes after this one."""
        return self.nominations.kept()

    def gang_shortage(self, name: GangName) -> GangShortage | None:
        """How a gang stands to its minimum; None if no member of it has a place, or nothing describes it.

        It is for the engine that comes after this one, to which ``GangStartRecalled`` and ``ViolationFound``
        tell it again. Members that end because their gang was short for too long still count: the other
        engine has to know since when, as long as the API server has not heard of their end.
        """
        members, since_us = self.state.gangs.described(name), self._violations.short_since_us(name)
        if members is None:
            return None
        ends_short = since_us is not None and members.ending
        return (
            GangShortage(members.lacking, members.started, since_us) if members.placed or ends_short else None
        )

    def outlook(self, uid: PodUid) -> Outlook | None:
        """What is known of the end of a pod that runs; None if it does not, or is unknown."""
        row = self.state.pods.row_by_uid.get(uid)
        if row is None or self.state.pods.state(row) not in {PodState.ASSUMED, PodState.BOUND}:
            return None
        latest_us, limit = self.overtime.latest(row) or (None, None)
        return Outlook(latest_us, limit, self._reservations.hosts(uid, self.at_us))

    def explain(self, uid: PodUid) -> Verdict | None:
        """Why a waiting pod fits nowhere now; None if it is unknown or has a place."""
        row = self._row_without_place(uid)
        return None if row is None else self._cycle.verdicts.of(row, self.at_us)

    def reasons_by_node(self, uid: PodUid) -> dict[NodeName, tuple[str, ...]] | None:
        """The names of all reasons of each node against a waiting pod, none where it would fit now.

        None if the pod is unknown or has a place.
        """
        row = self._row_without_place(uid)
        return None if row is None else self._cycle.verdicts.reasons_by_node(row)

    def _row_without_place(self, uid: PodUid) -> int | None:
        row = self.state.pods.row_by_uid.get(uid)
        if row is None or self._reservations.of_row(row) is not None:
            return row
        return row if self.state.pods.state(row) in {PodState.WAITING, PodState.BACKOFF} else None
