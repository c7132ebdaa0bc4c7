"""Taking back for the queues' sake: what the engine says of victims and of places that are kept, carried out.

All victims of a workload in one step are one plan (``evictions``). The plan of a workload with a nomination
waits until that is written down (``write_ahead``), and pods that are moved wait until their new places are
(``moved_places``). The words that people read are made here:
on the victim for which pod or gang it ends, in which queue and why; on the beneficiary which node is kept for
it and which pods it waits for. What is refused goes back to the engine, which then looks for another way, and
into a condition of the pod that stays, for the next leader and for ``explain``.
"""

import functools
from collections.abc import Callable, Iterable

from gpufleet.cluster.engine_events import EngineEvents
from gpufleet.cluster.engine_time import EngineTime
from gpufleet.cluster.pods.gang_tracker import GangTracker, bound_member
from gpufleet.cluster.pods.pod_entry import Entry, PodStage
from gpufleet.cluster.pods.pod_tracker import PodTracker
from gpufleet.cluster.queues.budget_tracker import BudgetTracker
from gpufleet.engine.event import EvictionRefused
from gpufleet.engine.explanations.sentences import CLAIMS_GIVE_BACK
from gpufleet.engine.instruction import Evict, MovedTo, Nominated, RunTimeLimit, WhyEvicted
from gpufleet.eviction.evictions import Evictions
from gpufleet.eviction.plan import Cause, EvictionPlan, EvictionRefusal, Victim
from gpufleet.kube.codec.durations import written_duration
from gpufleet.model.gang import gang_title
from gpufleet.model.identifiers import GangName, PodUid, QueueName
from gpufleet.model.pod import Pod
from gpufleet.scheduler.condition_writer import ConditionWriter
from gpufleet.scheduler.metrics import Metrics
from gpufleet.scheduler.moved_places import MovedPlaces
from gpufleet.scheduler.queue_metrics import FOR_QUEUES
from gpufleet.scheduler.reporting import Reporter
from gpufleet.scheduler.write_ahead import WriteAhead

NAMED_MAX = 3
"""Messages name so many pods and count the others."""

# The reason of the Event on a victim, in the style of Kubernetes' own ("Preempted").
EVENT_REASONS = {
    WhyEvicted.PREEMPTED: "Preempted",
    WhyEvicted.RECLAIMED: "Reclaimed",
    WhyEvicted.STOPPED: "QueueStopped",
    WhyEvicted.OVERTIME: "RunTimeExceeded",
    WhyEvicted.MOVED: "Moved",
    WhyEvicted.DRAINED: "Drained",
    WhyEvicted.INTERRUPTED: "Interrupted",
    WhyEvicted.OVERDUE: "RunTimePromised",
}
UNTOLD = frozenset(WhyEvicted).difference(FOR_QUEUES)
"""The engine says what is told of these (``ViolationReport``): some pods are warned long before they end."""

WHOLE_GANGS = frozenset({WhyEvicted.OVERTIME, WhyEvicted.DRAINED})
"""Why gangs end as a whole or not at all, though for the sake of no other work."""

OF_GUESTS = frozenset({WhyEvicted.INTERRUPTED, WhyEvicted.OVERDUE})
"""A guest behind a reservation ends for the reservation's sake, whatever disruption budget came since."""
UNSAID = frozenset({Cause.IN_VAIN, Cause.NOT_NEEDED})
"""Causes of which the owner of the beneficiary reads nothing: something else was told, or nothing is lost."""

NOT_KEPT = "no place is kept for it any more; it waits as before"


class EvictionPlanner:
    """Makes plans of evictions, tells people, and reports refusals."""

    def __init__(
        self,
        engine_events: EngineEvents,
        evictions: Evictions,
        reporter: Reporter,
        conditions: ConditionWriter,
        time: EngineTime,
        metrics: Metrics,
        write_ahead: WriteAhead,
        moved_places: MovedPlaces,
    ) -> None:
        self.engine_events = engine_events
        self.pods: PodTracker = engine_events.pods
        self.gangs: GangTracker = engine_events.gangs
        self.budgets: BudgetTracker = engine_events.budgets
        self.evictions = evictions
        self.reporter = reporter
        self.conditions = conditions
        self.time = time
        self.metrics = metrics
        self.write_ahead = write_ahead
        self.moved_places = moved_places
        self._nominated: set[PodUid | GangName] = set()
        self._asked: dict[tuple[bool, PodUid | GangName | None], list[Evict]] = {}
        self._moved_in_step: dict[PodUid, MovedTo] = {}
        self._for_whom: dict[PodUid, PodUid | GangName] = {}
        self._queue: dict[PodUid, QueueName] = {}

    def evict(self, evict: Evict) -> None:
        """The engine wants a pod to end."""
        # A gang that has run for too long, or whose node is emptied, ends as a whole, or stays.
        is_whole = evict.reason in WHOLE_GANGS
        together = self._gang_of(evict.uid) if is_whole else evict.beneficiary
        self._asked.setdefault((is_whole, together), []).append(evict)
        if evict.moved is not None:
            self._moved_in_step[evict.uid] = evict.moved

    def after_step(self) -> None:
        """Have everything carried out that the step asked for."""
        asked, self._asked = self._asked, {}
        nominated, self._nominated = self._nominated, set()
        self._moved_in_step = {}
        for (is_whole, together), evicts in asked.items():
            victims = [self._victim(one) for one in evicts]
            known = tuple(victim for victim in victims if victim is not None)
            # Of a pod that is gone no answer will come.
            for one, victim in zip(evicts, victims, strict=True):
                if victim is not None and one.beneficiary is not None:
                    self._for_whom[one.uid] = one.beneficiary
            plan = EvictionPlan(known, self, together=together is not None)
            # The status has to say for which work the pods end before they do, or a new leader would give
            # their room to other work.
            release: Callable[[EvictionPlan], None] = self.evictions.submit
            if together is not None and not is_whole and together in nominated:
                release = functools.partial(self.write_ahead.hold, holder=together)
            named = {victim.pod.uid for victim in known}
            moved = {one.uid: one.moved.node for one in evicts if one.moved is not None and one.uid in named}
            if moved:
                self.moved_places.hold(plan, moved, release)
            else:
                release(plan)

    def after_round(self) -> None:
        """Look whether pods that were told to end do."""
        self.evictions.after_round()
        self.moved_places.after_round()
        self.write_ahead.after_round()

    def next_due_s(self) -> float | None:
        """When to look again."""
        dues = (self.evictions.next_due_s(), self.moved_places.next_due_s())
        return min((due_s for due_s in dues if due_s is not None), default=None)

    def nominate(self, said: Nominated) -> None:
        """A place is kept for a pod."""
        self._nominated.add(self._gang_of(said.uid) or said.uid)
        self.write_ahead.changed()
        entry = self.pods.waiting(said.uid)
        if entry is not None:
            names = _some(self._name(uid) for uid in said.waits_for)
            until = f"{names} ended{self._moves(said)}" if said.waits_for else CLAIMS_GIVE_BACK
            message = f"node {said.node} is kept for it until {until}"
            self.reporter.nominated(entry.name, said.node, message)

    def _moves(self, said: Nominated) -> str:
        """What is moved for its sake in this step, and what that costs."""
        awaited = set(said.waits_for) if self._moved_in_step else set()
        moved = [(uid, to) for uid, to in self._moved_in_step.items() if uid in awaited]
        if not moved:
            return ""
        lost = lost_words(sum(to.lost for _, to in moved))
        ways = [f"{self._name(uid)} to {to.node}" for uid, to in moved[:NAMED_MAX]]
        more = f" and {len(moved) - NAMED_MAX} more" if len(moved) > NAMED_MAX else ""
        return f"; moved for it: {', '.join(ways)}{more}, which costs {lost} of work"

    def withdraw(self, uid: PodUid) -> None:
        """No place is kept for a pod any more."""
        self.write_ahead.changed()
        entry = self.pods.waiting(uid)
        if entry is not None:
            self.reporter.not_nominated(entry.name, NOT_KEPT)

    def _victim(self, evict: Evict) -> Victim | None:
        """What there is to know of a victim; None where it is gone."""
        entry = self.pods.entries.get(evict.uid)
        if entry is None or entry.meaning is None:
            return None
        why = WhyEvicted(evict.reason)
        note = "" if why in UNTOLD else self._note(entry, evict)
        # A pod that is not placed, or that no budget can select, needs no dry run first.
        guarded = entry.place is PodStage.PLACED and self.budgets.guards(entry.name.namespace)
        self._queue[evict.uid] = entry.meaning.queue
        # Nothing makes such a member anew, so it is deleted and not evicted: its owner has asked for that.
        deleted = why is WhyEvicted.GANG_INCOMPLETE and not bound_member(entry).controlled
        return Victim(entry.name, why.value, note, guarded, why in OF_GUESTS, deleted)

    def _gang_of(self, uid: PodUid) -> GangName | None:
        entry = self.pods.entries.get(uid)
        return None if entry is None or entry.meaning is None else entry.meaning.gang

    def _note(self, entry: Entry, evict: Evict) -> str:
        """The words for a victim's owner: why it ends, and which pod or gang gets its place."""
        queue = "" if entry.meaning is None else entry.meaning.queue
        # From the most special cause to the most general: an eviction may have several of these fields.
        if evict.limit is not None:
            return _overtime(evict.limit, in_gang=self._gang_of(evict.uid) is not None)
        if evict.moved is not None:
            return self._moved(evict, evict.moved)
        if evict.beneficiary is None:
            return f"it ends because queue {queue}, or one above it, is stopped"
        whom, other = self._beneficiary(evict.beneficiary)
        if evict.reason == WhyEvicted.INTERRUPTED:
            return f"it may be interrupted, and {whom} of queue {other} can start where it ran as a guest"
        if evict.reason == WhyEvicted.OVERDUE:
            said_us = None if entry.meaning is None else promised_us(entry.meaning, evict.beneficiary)
            if said_us is None:
                return (
                    f"its gang has run for longer than it said, and {whom} of queue {other} can start there"
                )
            length = f"it said that it runs for at most {written_duration(said_us)}"
            return f"{length} and so came before {whom} of queue {other}, which can start where it runs"
        if evict.reason == WhyEvicted.PREEMPTED and queue not in self.engine_events.queues.known:
            return f"it makes room for {whom}, whose priority is higher"
        if evict.reason == WhyEvicted.PREEMPTED:
            return f"it makes room for {whom}, which goes before it in queue {queue}"
        return f"it makes room for {whom}: queue {other} takes back what queue {queue} borrowed"

    def _moved(self, evict: Evict, to: MovedTo) -> str:
        what_for = "so that what is free lies together"
        if evict.reason == WhyEvicted.DRAINED:
            what_for = "because its node, or that of another of its gang, is drained"
        if evict.beneficiary is not None:
            what_for = f"so that {self._beneficiary(evict.beneficiary)[0]} can start"
        kept = f"node {to.node} keeps a place for the pod that its controller makes instead"
        return f"it is moved {what_for}: {kept}; {lost_words(to.lost)} of work end with it"

    def _beneficiary(self, beneficiary: PodUid | GangName) -> tuple[str, str]:
        """A beneficiary's name with its kind, and its queue."""
        entry = self.pods.entries.get(PodUid(beneficiary))
        if entry is not None and entry.meaning is not None:
            return f"pod {entry.name}", entry.meaning.queue
        record = self.gangs.records.get(GangName(beneficiary))
        engine_gang = None if record is None else record.engine_gang
        return gang_title(beneficiary), "" if engine_gang is None else engine_gang.queue

    def _name(self, uid: PodUid) -> str:
        entry = self.pods.entries.get(uid)
        return str(entry.name) if entry is not None else str(uid)

    def eviction_granted(self, victim: Victim) -> None:
        """A pod was told to end: its owner reads for which pod or gang."""
        self._for_whom.pop(victim.pod.uid, None)
        if victim.reason in UNTOLD:
            self._queue.pop(victim.pod.uid, None)
            return
        self.metrics.queues.evicted(victim.reason, self._queue.pop(victim.pod.uid, QueueName("")))
        self.reporter.evicted(victim.pod, EVENT_REASONS[WhyEvicted(victim.reason)], victim.note)

    def refused(self, refusal: EvictionRefusal) -> None:
        """A pod stays: the engine looks for another way, and the owner of the beneficiary reads why."""
        victim = refusal.victim
        self._queue.pop(victim.pod.uid, None)
        beneficiary = self._for_whom.pop(victim.pod.uid, None)
        # What may be asked for again at once is not written down: it is over before it could be read.
        until_us = self.time.whole_after_us(refusal.for_s) if refusal.for_s else self.time.now_us()
        self.engine_events.refused(EvictionRefused(victim.pod.uid, until_us))
        if refusal.for_s:
            self.conditions.eviction(victim.pod, refusal.cause.value, until_us)
        if beneficiary is None or refusal.cause in UNSAID:
            return
        note = f"pod {victim.pod}, which was to make room for it, stays: {refusal.words}"
        for entry in self._waiting_of(beneficiary):
            self.reporter.warns(entry.name, "EvictionRefused", note)

    def _waiting_of(self, beneficiary: PodUid | GangName) -> list[Entry]:
        """The pod, or one member of the gang, that is to be told."""
        entry = self.pods.waiting(PodUid(beneficiary))
        # One member is told for all: a gang of thousands would get as many Events.
        return [entry] if entry is not None else self.gangs.waiting(GangName(beneficiary))[:1]


def _overtime(limit: RunTimeLimit, *, in_gang: bool) -> str:
    """What a pod is told that has run for too long, or that belongs to such a gang."""
    who = "its gang" if in_gang else "it"
    length = written_duration(limit.run_time_us)
    if limit.queue is None:
        return f"{who} has run for {length}, as long as it may by its own word"
    return f"{who} has run for {length}, the runTimeMax of queue {limit.queue}"


def promised_us(pod: Pod, holder: PodUid | GangName) -> int | None:
    """How long a pod said that it runs when it was let in; None for another of its gang."""
    lengths = (promise.within_us for promise in pod.promises or () if promise.holder == holder)
    return next((length_us for length_us in lengths if length_us is not None), None)


def lost_words(lost: int) -> str:
    """GPU-milliseconds for people."""
    return f"{lost / 60_000:.1f} GPU-minutes"


def _some(names: Iterable[str]) -> str:
    """Some names, and how many more there are, with the verb."""
    every = list(names)
    if len(every) <= 1:
        return f"{every[0]} has" if every else "others have"
    more = len(every) - NAMED_MAX
    listed = ", ".join(every[:NAMED_MAX])
    return f"{listed} and {more} more have" if more > 0 else f"{listed} have"
