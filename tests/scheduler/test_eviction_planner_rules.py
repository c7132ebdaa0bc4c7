"""Plans of evictions beside a plain account of their rules, and planners that break one of these."""

from random import Random
from types import SimpleNamespace
from typing import Any

import pytest

from gpufleet.cluster.pods.pod_entry import Entry, PodStage
from gpufleet.engine.event import EvictionRefused
from gpufleet.engine.instruction import Evict, Nominated
from gpufleet.eviction.plan import Cause, EvictionPlan, Refusal, Victim
from gpufleet.kube.objects.metadata import PodMetadata
from gpufleet.kube.objects.pod import Pod, PodSpec
from gpufleet.model import pod as model
from gpufleet.model.identifiers import GangName, NodeName, PodUid, QueueName
from gpufleet.model.pod_name import PodName
from gpufleet.model.shape import Shape
from gpufleet.scheduler.eviction_planner import EvictionPlanner
from gpufleet.scheduler.metrics import Metrics
from tests.engine.effort import seeds

NOW_US = 10_500_000
GANG, LONG = GangName("default/g"), GangName("default/long")
WAITING: dict[str, GangName | None] = {"w": None, "x": None, "g0": GANG, "g1": GANG}
RUNNING: dict[str, GangName | None] = {
    **dict.fromkeys(("a", "b", "c", "d", "e"), None),
    "l0": LONG,
    "l1": LONG,
}
HOLDERS: dict[PodUid | GangName, str] = {PodUid("w"): "w", PodUid("x"): "x", GANG: "g0"}
"""Work that pods end for, and the pod that is told of it."""
EVENTS = {
    "preempted": "Preempted",
    "reclaimed": "Reclaimed",
    "stopped": "QueueStopped",
    "overtime": "RunTimeExceeded",
}
SILENT = {Cause.IN_VAIN, Cause.NOT_NEEDED}
KEPT_BY_BUDGETS = "guarded"
Said = tuple[object, ...]


def entry(name: str, gang: GangName | None, place: PodStage) -> Entry:
    """A pod of queue "team"; budgets may keep those named after a vowel."""
    namespace = KEPT_BY_BUDGETS if name in "ae" else "default"
    meaning = model.Pod(PodUid(name), Shape(), queue=QueueName("team"), gang=gang)
    return Entry(PodName(namespace, name, PodUid(name)), Pod(PodMetadata(), PodSpec(())), place, meaning)


class Case:
    """Pods around a planner; ``said`` is all that it says to other parts, in order."""

    def __init__(self, kind: type[EvictionPlanner]) -> None:
        self.kind = kind
        self.said: list[Said] = []
        self.plans: list[EvictionPlan] = []
        self.entries = {PodUid(name): entry(name, gang, PodStage.WAITING) for name, gang in WAITING.items()}
        self.entries |= {PodUid(name): entry(name, gang, PodStage.PLACED) for name, gang in RUNNING.items()}
        self.metrics = Metrics()
        self.planner = self.made()

    def made(self) -> EvictionPlanner:
        """A planner that knows nothing of what was asked before."""
        parts: Any = SimpleNamespace(
            pods=SimpleNamespace(entries=self.entries, waiting=self.waiting),
            gangs=SimpleNamespace(records={}, waiting=lambda _: [self.entries[PodUid(HOLDERS[GANG])]]),
            budgets=SimpleNamespace(guards=lambda namespace: namespace == KEPT_BY_BUDGETS),
            queues=SimpleNamespace(known={"team"}),
            refused=lambda one: self.said.append(("engine", one)),
            submit=lambda plan: self.took("sent", plan),
            hold=lambda plan, holder: self.took("held", plan, holder),
            changed=lambda: None,
            nominated=lambda *_: None,
            evicted=lambda pod, reason, _: self.said.append(("event", pod.uid, reason)),
            warns=lambda pod, reason, _: self.said.append(("warning", pod.uid, reason)),
            eviction=lambda pod, cause, until_us: self.said.append(("condition", pod.uid, cause, until_us)),
            now_us=lambda: NOW_US,
            # The first whole second after 10.5 s.
            whole_after_us=lambda seconds: 11_000_000 + round(seconds) * 1_000_000,
        )
        return self.kind(parts, parts, parts, parts, parts, self.metrics, parts)

    def waiting(self, uid: PodUid) -> Entry | None:
        """A pod that waits."""
        found = self.entries.get(uid)
        return found if found is not None and found.place is PodStage.WAITING else None

    def took(self, how: str, plan: EvictionPlan, *holder: object) -> None:
        """Another part took a plan."""
        if plan.victims:
            self.plans.append(plan)
            victims = tuple((one.pod.uid, one.reason, one.guarded) for one in plan.victims)
            self.said.append((how, plan.together, victims, *holder))

    def heard(self) -> list[Said]:
        """What was said since this was asked last."""
        said, self.said = self.said, []
        return said


def asked_in_a_step(chance: Random, case: Case) -> list[Evict]:
    """What the engine may ask for in one step, each pod once; some of the pods are gone by now."""
    names = chance.sample(list(RUNNING), chance.randint(0, len(RUNNING)))
    asked = []
    for name in names:
        reason, holder = chance.choice(list(EVENTS)), None
        if reason in {"preempted", "reclaimed"}:
            holder = chance.choice(list(HOLDERS))
        asked.append(Evict(PodUid(name), holder, reason))
        if chance.random() < 0.1:
            case.entries.pop(PodUid(name), None)
    return asked


def expected(asked: list[Evict], nominated: set[PodUid | GangName], case: Case) -> list[Said]:
    """One plan for each workload that gains, and for each gang that has run for too long; what ends for
    nothing ends by itself, apart from what ends for its time. Work with a place waits for its record.
    """
    plans: dict[tuple[str, object], list[Evict]] = {}
    for one in asked:
        if one.reason == "overtime":
            found = case.entries.get(one.uid)
            gang = None if found is None else RUNNING[one.uid]
            plans.setdefault(("time", gang), []).append(one)
        else:
            plans.setdefault(("gain", one.beneficiary), []).append(one)
    said: list[Said] = []
    for (why, whole), evicts in plans.items():
        victims = tuple(
            (one.uid, one.reason, one.uid in {"a", "e"}) for one in evicts if one.uid in case.entries
        )
        if victims and why == "gain" and whole in nominated:
            said.append(("held", True, victims, whole))
        elif victims:
            said.append(("sent", whole is not None, victims))
    return said


def check_answer(chance: Random, case: Case, victim: Victim, holder: PodUid | GangName | None) -> None:
    """A pod ends, which its owner reads; or it stays, which the engine hears, and the owner of the work that
    needs its place reads. What is not asked for again at once is a condition too.
    """
    uid = victim.pod.uid
    if chance.random() < 0.5:
        case.planner.told(victim)
        assert case.heard() == [("event", uid, EVENTS[victim.reason])]
        del case.entries[uid]
        return
    cause, for_s = chance.choice(list(Cause)), chance.choice((0.0, 10.0))
    case.planner.refused(Refusal(victim, cause, "words", for_s))
    until_us = 21_000_000 if for_s else NOW_US
    said: list[Said] = [("engine", EvictionRefused(uid, until_us))]
    if for_s:
        said.append(("condition", uid, cause.value, until_us))
    if holder is not None and cause not in SILENT:
        said.append(("warning", HOLDERS[holder], "EvictionRefused"))
    assert case.heard() == said


def play(kind: type[EvictionPlanner], seed: int) -> None:
    """Some steps of one cluster; now and then the leader dies between a decision and its plans."""
    chance, case = Random(seed), Case(kind)
    for _ in range(8):
        for name, gang in RUNNING.items():
            case.entries.setdefault(PodUid(name), entry(name, gang, PodStage.PLACED))
        asked = asked_in_a_step(chance, case)
        nominated = {holder for holder in HOLDERS if chance.random() < 0.5}
        for holder in nominated:
            case.planner.nominate(Nominated(PodUid(HOLDERS[holder]), NodeName("n"), ()))
        wanted = expected(asked, nominated, case)
        if chance.random() < 0.1:
            case.planner, asked, wanted = case.made(), [], []
        for one in asked:
            case.planner.evict(one)
        assert case.heard() == []
        case.planner.after_step()
        assert case.heard() == wanted
        case.planner.after_step()
        assert case.heard() == []
        holders = {one.uid: one.beneficiary for one in asked}
        plans, case.plans = case.plans, []
        for victim in (one for plan in plans for one in plan.victims):
            check_answer(chance, case, victim, holders[victim.pod.uid])


@pytest.mark.parametrize("seed", seeds(150))
def test_plans_and_answers_keep_to_the_rules(seed: int) -> None:
    play(EvictionPlanner, seed)


class AsksTwice(EvictionPlanner):
    """What was asked for stays asked for."""

    def after_step(self) -> None:
        """The end of a step."""
        asked = dict(self._asked)
        super().after_step()
        self._asked = asked


class PlansApart(EvictionPlanner):
    """Each pod ends by itself."""

    def evict(self, evict: Evict) -> None:
        """A pod is to end."""
        self._asked.setdefault((False, evict.uid), []).append(evict)


class LastFirst(EvictionPlanner):
    """The pod that was asked for last ends first."""

    def evict(self, evict: Evict) -> None:
        """A pod is to end."""
        super().evict(evict)
        for evicts in self._asked.values():
            evicts.sort(key=lambda one: one is not evict)


class WaitsForNoRecord(EvictionPlanner):
    """Pods end before it is written down for which work."""

    def after_step(self) -> None:
        """The end of a step."""
        self._nominated.clear()
        super().after_step()


class RemembersNominations(EvictionPlanner):
    """Work that had a place in an earlier step has one for ever."""

    def after_step(self) -> None:
        """The end of a step."""
        nominated = set(self._nominated)
        super().after_step()
        self._nominated = nominated


class OvertimeOneByOne(EvictionPlanner):
    """A gang that has run for too long ends member by member."""

    def _gang_of(self, uid: PodUid) -> GangName | None:
        gang = super()._gang_of(uid)
        return None if gang == LONG else gang


class KnowsNoBudgets(EvictionPlanner):
    """No budget is asked about first."""

    def _victim(self, evict: Evict) -> Victim | None:
        found = super()._victim(evict)
        return None if found is None else Victim(found.pod, found.reason, found.note, guarded=False)


class TellsNoReason(EvictionPlanner):
    """The owner of a pod that ends reads nothing."""

    def told(self, victim: Victim) -> None:
        """A pod ends."""
        self._for_whom.pop(victim.pod.uid, None)


class KeepsRefusals(EvictionPlanner):
    """The engine does not hear that a pod stays."""

    def refused(self, refusal: Refusal) -> None:
        """A pod stays."""
        self._for_whom.pop(refusal.victim.pod.uid, None)


class AsksAgainAtOnce(EvictionPlanner):
    """It is forgotten for how long a pod is not to be asked for."""

    def refused(self, refusal: Refusal) -> None:
        """A pod stays."""
        super().refused(Refusal(refusal.victim, refusal.cause, refusal.words, 0.0))


SPOILT = (
    AsksTwice,
    PlansApart,
    LastFirst,
    WaitsForNoRecord,
    RemembersNominations,
    OvertimeOneByOne,
    KnowsNoBudgets,
    TellsNoReason,
    KeepsRefusals,
    AsksAgainAtOnce,
)


@pytest.mark.parametrize("spoilt", SPOILT, ids=lambda one: one.__name__)
def test_a_planner_that_breaks_a_rule_is_noticed(spoilt: type[EvictionPlanner]) -> None:
    def is_noticed(seed: int) -> bool:
        try:
            play(spoilt, seed)
        except AssertionError:
            return True
        return False

    assert any(map(is_noticed, range(20)))
