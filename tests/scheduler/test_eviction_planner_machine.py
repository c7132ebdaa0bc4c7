"""The planner over real evictions at random: budgets, lost answers, records and leaders that die, judged by
an account of its own; and planners that break one rule, each of which that account notices.
"""

from collections.abc import Iterable

import msgspec
import pytest

from gpufleet.cluster.pods.pod_entry import Entry
from gpufleet.engine.instruction import Evict, MovedTo, Nominated, RunTimeLimit, WhyEvicted
from gpufleet.eviction.evictions import BEGINS_WITHIN_S, GIVE_UP_S
from gpufleet.eviction.plan import Cause, EvictionRefusal, Victim
from gpufleet.kube.transport import Response
from gpufleet.model.identifiers import GangName, NodeName, PodUid
from gpufleet.scheduler.eviction_planner import EvictionPlanner
from gpufleet.simulation.virtual_loop import VirtualLoop, run
from tests.at_work import at_work
from tests.engine.effort import seeds
from tests.scheduler.eviction_crowd import EVENTS, HOLDERS, LONG, NEVER_KEPT, Asked, Crowd
from tests.simulation.spoilt_way import Lost, Spoilt, too_many

FOR_OTHERS = ("preempted", "reclaimed", "moved", "interrupted", "overdue")

FOR_NOTHING = ("stopped", "overtime", "gang-incomplete", "gpu-memory", "moved")

ANSWERS_WITHIN_S = 2 * GIVE_UP_S
"""By then each eviction that was asked for is answered, or was given up."""

NO_EFFECT = Response(201, {}, b'{"kind": "Status", "status": "Success", "code": 201}')
"""A server that grants an eviction and dies before it is stored."""

# What may happen.


def wanted(crowd: Crowd, uids: Iterable[PodUid]) -> list[tuple[Evict, Asked]]:
    """One step of the engine: some pods, each for some work or for none."""
    chance, found = crowd.chance, []
    plans: dict[object, int] = {}
    for uid in uids:
        holder = chance.choice((None, *HOLDERS))
        reason = chance.choice(FOR_NOTHING if holder is None else FOR_OTHERS)
        gang = crowd.gang_of(uid)
        if gang is not None and chance.random() < 0.5:  # Mostly several of one gang have run for too long.
            holder, reason = None, "overtime"
        limit = RunTimeLimit(1_000_000, None) if reason == "overtime" else None
        moved = MovedTo(NodeName("m"), 60_000) if reason == "moved" else None
        group = ("overtime", gang) if reason == "overtime" else ("gain", holder)
        number = plans.setdefault(group, crowd.plans + len(plans))
        together = holder is not None or (reason == "overtime" and gang is not None)
        found.append(
            (
                Evict(uid, holder, reason, limit, moved),
                Asked(reason, holder, number, together, len(crowd.way.asked)),
            )
        )
    crowd.plans += len(plans)
    return found


def a_step(crowd: Crowd) -> None:
    """The engine wants pods to end; for work with a nomination that waits for its record."""
    free = crowd.free_to_ask()
    step = wanted(crowd, crowd.chance.sample(free, crowd.chance.randint(0, min(4, len(free)))))
    nominated = {holder for holder in HOLDERS if crowd.chance.random() < 0.5}
    for holder in nominated:
        crowd.said.clear()
        waits_for = tuple(one.uid for one, asked in step if asked.holder == holder)
        crowd.planner.nominate(Nominated(PodUid(HOLDERS[holder]), NodeName("n"), waits_for))
        kept = [one for one in crowd.said if one[0] == "kept"]
        assert [one[1:3] for one in kept] == [(HOLDERS[holder], "n")]
        assert ("changed",) in crowd.said
        assert all(str(crowd.entries[one].name) in str(kept[0][3]) for one in waits_for[:3])
    for one, asked in step:
        crowd.asked[one.uid] = asked
        crowd.answers.pop(one.uid, None)
        crowd.planner.evict(one)
    for one, _ in step:
        if crowd.chance.random() < 0.1:
            crowd.end(one.uid)
    before = len(crowd.held)
    crowd.planner.after_step()
    held = {one.holder: [victim.pod.uid for victim in one.plan.victims] for one in crowd.held[before:]}
    for holder in HOLDERS:
        theirs = [one.uid for one, asked in step if asked.holder == holder and one.uid in crowd.entries]
        assert held.get(holder, []) == (theirs if holder in nominated else [])


def a_record(crowd: Crowd) -> None:
    """A nomination is written down, or cannot be, or is needed no more."""
    if not crowd.held:
        return
    plan, _ = crowd.held.pop(crowd.chance.randrange(len(crowd.held)))
    match crowd.chance.randrange(4):
        case 0:
            crowd.evictions.refuse(plan, Cause.NOT_RECORDED, "the status cannot be written")
        case 1:
            for victim in plan.victims:
                plan.asker.refused(
                    EvictionRefusal(victim, Cause.NOT_NEEDED, "no work waits for its place", 0.0)
                )
        case _:
            crowd.evictions.submit(plan)


def a_budget(crowd: Crowd) -> None:
    """The budget lets go of none, some, or many."""
    crowd.set_budget(crowd.chance.choice((0, 1, 3)))


def a_fault(crowd: Crowd) -> None:
    """Some of the next answers are lost, or say that the server is busy, or are followed by nothing."""
    kinds: tuple[Spoilt, ...] = (too_many(3), Lost.REQUEST, Lost.ANSWER, NO_EFFECT)
    crowd.way.spoilt = [crowd.chance.choice(kinds) for _ in range(crowd.chance.randint(1, 3))]


def pods_end(crowd: Crowd) -> None:
    """Pods that were told to end are gone."""
    for uid in [one for one in crowd.running() if crowd.is_leaving(one)]:
        crowd.end(uid)


ACTIONS = (a_step, a_step, a_step, a_record, a_record, a_budget, a_fault, pods_end)


async def settle(crowd: Crowd) -> None:
    """Let every eviction be answered, and those that were granted be looked after."""
    for _ in range(2):
        await crowd.clock.sleep(ANSWERS_WITHIN_S)
        crowd.planner.after_round()
        await crowd.clock.sleep(BEGINS_WITHIN_S)


def check(crowd: Crowd) -> None:
    """All that must hold once nothing is under way."""
    if crowd.broken:
        raise crowd.broken[0]
    waits = {victim.pod.uid for one in crowd.held for victim in one.plan.victims}
    plans: dict[int, list[PodUid]] = {}
    for uid, asked in crowd.asked.items():
        assert (uid in crowd.answers) == (uid not in waits), f"{uid}: {crowd.answers.get(uid)}"
        assert not (uid in waits and crowd.is_leaving(uid)), f"{uid} ended before that was written down"
        if uid in waits:
            continue
        was_told = crowd.answers[uid] == "told"
        assert was_told <= crowd.is_leaving(uid), f"{uid} was told to end, and stays"
        if asked.reason in NEVER_KEPT:
            assert crowd.answers[uid] != Cause.BUDGET.value, f"{uid} was let in to be ended, and stays"
        if asked.reason == WhyEvicted.GANG_INCOMPLETE:
            target = f"/{crowd.entries[uid].name.name}/eviction"
            assert not any(target in path for _, path in crowd.way.asked[asked.since :]), (
                "it is deleted, as its owner asked"
            )
        if asked.together:
            plans.setdefault(asked.plan, []).append(uid)
    for uids in plans.values():
        if any(crowd.answers[uid] == Cause.BUDGET.value for uid in uids):
            assert not [uid for uid in uids if crowd.answers[uid] == "told" and not is_guarded(crowd, uid)]
        if any(crowd.answers[uid] == Cause.IN_VAIN.value for uid in uids):
            assert any(crowd.answers[uid] not in {"told", Cause.IN_VAIN.value} for uid in uids)
    ended = [
        uid for uid, asked in crowd.asked.items() if asked.reason not in {*NEVER_KEPT, "gang-incomplete"}
    ]
    ended = [uid for uid in ended if is_guarded(crowd, uid) and crowd.answers.get(uid) == "told"]
    assert len(ended) <= crowd.budget_lets_go, f"{ended} end, and the budget let go {crowd.budget_lets_go}"
    for uid in [uid for uid in crowd.asked if uid not in waits]:
        del crowd.asked[uid]
    crowd.budget_lets_go = crowd.allowed()
    counted = {reason: crowd.metrics.queues.evictions.labels(reason, "team") for reason in EVENTS}
    assert {reason: one._value.get() for reason, one in counted.items()} == {
        reason: crowd.counted[reason] for reason in EVENTS
    }


def is_guarded(crowd: Crowd, uid: PodUid) -> bool:
    """Whether the budget is about a pod."""
    pod = crowd.on_server(uid)
    return pod is not None and bool(pod["metadata"].get("labels"))


def play(kind: type[EvictionPlanner], seed: int) -> None:
    """Some actions on one cluster; now and then the leader dies between two of them."""

    async def story(loop: VirtualLoop) -> None:
        crowd = Crowd(kind, loop, seed)
        for _ in range(3):
            async with at_work(crowd.evictions.run()):
                for _ in range(8):
                    while len(crowd.free_to_ask()) < 4:
                        crowd.pod(LONG if crowd.chance.random() < 0.5 else None)
                    crowd.chance.choice(ACTIONS)(crowd)
                    await settle(crowd)
                    check(crowd)
                # The leader dies with whatever its last step asked for.
                a_step(crowd)
                await crowd.clock.sleep(crowd.chance.choice((0.0, 0.001, 0.3)))
            crowd.lead()
            crowd.budget_lets_go = crowd.allowed()

    run(story)


@pytest.mark.parametrize("seed", seeds(25))
def test_what_the_planner_asks_for_is_carried_out_answered_and_told(seed: int) -> None:
    play(EvictionPlanner, seed)


class AsksTwice(EvictionPlanner):
    """What was asked for stays asked for."""

    def after_step(self) -> None:
        """The end of a step."""
        asked = dict(self._asked)
        super().after_step()
        self._asked = asked


class WaitsForNoRecord(EvictionPlanner):
    """Pods end before it is written down for which work."""

    def after_step(self) -> None:
        """The end of a step."""
        self._nominated.clear()
        super().after_step()


class EndsPodsApart(EvictionPlanner):
    """The pods of one workload end although one of them stays."""

    def after_step(self) -> None:
        """The end of a step."""
        submit = self.evictions.submit
        self.evictions.submit = lambda plan: submit(msgspec.structs.replace(plan, together=False))  # type: ignore[method-assign]
        super().after_step()
        self.evictions.submit = submit  # type: ignore[method-assign]


def changed(**fields: bool) -> type[EvictionPlanner]:
    """A planner that says something else of each pod that is to end."""

    class Changed(EvictionPlanner):
        def _victim(self, evict: Evict) -> Victim | None:
            found = super()._victim(evict)
            return None if found is None else msgspec.structs.replace(found, **fields)

    return Changed


class WatchesNone(EvictionPlanner):
    """A pod that was granted to end and does not is never asked about."""

    def after_round(self) -> None:
        """The end of a round."""


class KeepsAnswers(EvictionPlanner):
    """The engine does not hear that a pod stays."""

    def refused(self, refusal: EvictionRefusal) -> None:
        """A pod stays."""
        self._for_whom.pop(refusal.victim.pod.uid, None)


class ForgetsUntilWhen(EvictionPlanner):
    """It is forgotten for how long a pod is not to be asked for."""

    def refused(self, refusal: EvictionRefusal) -> None:
        """A pod stays."""
        super().refused(msgspec.structs.replace(refusal, for_s=0.0))


class WarnsOfEverything(EvictionPlanner):
    """An owner reads of pods that stay only because another did."""

    def refused(self, refusal: EvictionRefusal) -> None:
        """A pod stays."""
        holder = self._for_whom.get(refusal.victim.pod.uid)
        super().refused(refusal)
        if holder is not None and refusal.cause is Cause.IN_VAIN:
            self.reporter.warns(self._waiting_of(holder)[0].name, "EvictionRefused", refusal.words)


class WarnsEveryMember(EvictionPlanner):
    """Each member of a gang reads of each pod that stays."""

    def _waiting_of(self, beneficiary: PodUid | GangName) -> list[Entry]:
        entry = self.pods.waiting(PodUid(beneficiary))
        return [entry] if entry is not None else self.gangs.waiting(GangName(beneficiary))


class RemembersOldWork(EvictionPlanner):
    """The work for which a pod was to end once is told of its later refusals."""

    def after_step(self) -> None:
        """The end of a step."""
        before = dict(self._for_whom)
        super().after_step()
        self._for_whom = {**self._for_whom, **before}

    def refused(self, refusal: EvictionRefusal) -> None:
        """A pod stays."""
        holder = self._for_whom.get(refusal.victim.pod.uid)
        super().refused(refusal)
        if holder is not None:
            self._for_whom[refusal.victim.pod.uid] = holder


class CountsNothing(EvictionPlanner):
    """Pods that end are in no metric."""

    def eviction_granted(self, victim: Victim) -> None:
        """A pod ends."""
        self._for_whom.pop(victim.pod.uid, None)
        if victim.reason in EVENTS:
            self.reporter.evicted(victim.pod, EVENTS[victim.reason], victim.note)


class NamesNoWork(EvictionPlanner):
    """Owners do not read for which work their pods end."""

    def _beneficiary(self, beneficiary: PodUid | GangName) -> tuple[str, str]:
        return "other work", super()._beneficiary(beneficiary)[1]


class NamesNoPods(EvictionPlanner):
    """The owner of work with a nomination does not read for which pods it waits."""

    def _name(self, uid: PodUid) -> str:  # noqa: ARG002 - it names none
        return ""


class WritesNoNomination(EvictionPlanner):
    """That a nomination is new is told to no part that writes it down."""

    def nominate(self, said: Nominated) -> None:
        """A place is kept."""
        self._nominated.add(self._gang_of(said.uid) or said.uid)
        entry = self.pods.waiting(said.uid)
        if entry is not None:
            names = ", ".join(map(self._name, said.waits_for))
            self.reporter.nominated(entry.name, said.node, names)


class LastFirst(EvictionPlanner):
    """The pod that was asked for last ends first."""

    def evict(self, evict: Evict) -> None:
        """A pod is to end."""
        super().evict(evict)
        for evicts in self._asked.values():
            evicts.sort(key=lambda one: one is not evict)


class RemembersNominations(EvictionPlanner):
    """Work that had a nomination in an earlier step has one for ever."""

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


class TellsNoReason(EvictionPlanner):
    """The owner of a pod that ends reads nothing."""

    def eviction_granted(self, victim: Victim) -> None:
        """A pod ends."""
        self._for_whom.pop(victim.pod.uid, None)


SPOILT = {
    **{
        kind.__name__: kind
        for kind in (
            *(AsksTwice, WaitsForNoRecord, EndsPodsApart, WatchesNone, KeepsAnswers, ForgetsUntilWhen),
            *(WarnsOfEverything, WarnsEveryMember, RemembersOldWork, CountsNothing, NamesNoWork, NamesNoPods),
            *(WritesNoNomination, LastFirst, RemembersNominations, OvertimeOneByOne, TellsNoReason),
        )
    },
    "asks no budget first": changed(guarded=False),
    "a guest stays for a budget": changed(regardless=False),
    "every pod ends whatever its budget": changed(regardless=True),
    "evicts what is to be deleted": changed(deleted=False),
}


@pytest.mark.parametrize("spoilt", SPOILT.values(), ids=SPOILT)
def test_a_planner_that_breaks_a_rule_is_noticed(spoilt: type[EvictionPlanner]) -> None:
    def is_noticed(seed: int) -> bool:
        try:
            play(spoilt, seed)
        except AssertionError:
            return True
        return False

    assert any(map(is_noticed, range(25)))
