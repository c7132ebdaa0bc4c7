"""Who may be evicted at all, by trying every set of pods: budgets, gangs, protection, minimum run times.

The rule is that of docs/queues.md. Of its own queue, work evicts what has a lower priority; of a queue that
has only borrowed, anything. No pod goes that is protected or ran for less than ``preemptAfter`` or
``reclaimAfter``, no more than each disruption budget allows, and of a gang the members above its minimum or
all of it. Pods that end anyway come first. Whether room is enough is counted in GPUs.

Where some pods of no gang would do, some victims are found. With gangs the search is not exhaustive: which
members are above the minimum is settled before a node is chosen, and budgets let the cheapest go first.
"""

import random
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import chain, combinations

import pytest

from gpufleet.engine import event
from gpufleet.engine.instruction import RequeueAfter
from gpufleet.model.disruption_budget import DisruptionBudget
from gpufleet.model.identifiers import DeviceId, NodeName, PodUid
from gpufleet.model.labels import LabelSelector, Operator, Requirement
from gpufleet.model.queue import PreemptionPolicy
from tests.engine.effort import seeds
from tests.engine.fleet_builder import SECOND_US, Story, evicted, gang, node, placed, pod, shape
from tests.engine.preempt.test_reclaim import queue

GPUS = 4
NODES = ("n0", "n1")
NOW_US = 1000 * SECOND_US


@dataclass(frozen=True)
class Runs:
    """A pod that runs: ``apps`` are the labels by which budgets find it."""

    uid: str
    node: str
    gpus: int
    priority: int
    started_us: int
    is_protected: bool
    gang: str | None
    apps: tuple[str, ...]
    is_ending: bool


@dataclass(frozen=True)
class Case:
    """A full fleet, with the minimum of each gang and what each budget allows.

    ``borrowed``: what runs is another queue's, which owns nothing; else it is the asking pod's own queue's.
    """

    running: tuple[Runs, ...]
    least: dict[str, int]
    allowed: dict[str, int]
    after_us: int
    borrowed: bool

    def may_end(self, one: Runs, priority: int, at_us: int) -> bool:
        """True if a pod may be evicted, as far as it alone is concerned."""
        is_reached = self.borrowed or one.priority < priority
        ran_us = at_us - one.started_us
        return is_reached and not one.is_protected and not one.is_ending and ran_us >= self.after_us

    def is_permitted(self, chosen: Iterable[Runs]) -> bool:
        """True if these may go together."""
        chosen = list(chosen)
        counts = Counter(app for one in chosen for app in one.apps)
        if any(len(one.apps) > 1 for one in chosen):
            # The server evicts no pod that two budgets select.
            return False
        if any(count > self.allowed[app] for app, count in counts.items()):
            return False
        for name in {one.gang for one in chosen if one.gang is not None}:
            members = [one for one in self.running if one.gang == name and not one.is_ending]
            staying = [one for one in members if one not in chosen]
            if staying and len(staying) < self.least[name]:
                return False
        return True

    def keeps_whole(self, fewer: Iterable[Runs], victims: list[Runs]) -> bool:
        """True unless a gang that goes as a whole with the victims goes in part with fewer of them."""
        fewer = set(fewer)
        for name in {one.gang for one in victims if one.gang is not None}:
            going = {one for one in victims if one.gang == name}
            is_whole = going == {one for one in self.running if one.gang == name and not one.is_ending}
            if is_whole and 0 < len(going & fewer) < len(going):
                return False
        return True

    def fits(self, gpus: int, gone: Iterable[Runs] = ()) -> bool:
        """True if some node has so many GPUs once these are gone, and those that end anyway."""
        gone = list(gone)
        used = Counter(dict.fromkeys(NODES, 0))
        for one in self.running:
            used[one.node] += 0 if one in gone or one.is_ending else one.gpus
        return any(GPUS - held >= gpus for held in used.values())

    def sets(self, gpus: int, priority: int, at_us: int) -> Iterator[tuple[Runs, ...]]:
        """Every set of pods that may go, and without which there is room."""
        able = [one for one in self.running if self.may_end(one, priority, at_us)]
        every = chain.from_iterable(combinations(able, size) for size in range(len(able) + 1))
        return (chosen for chosen in every if self.is_permitted(chosen) and self.fits(gpus, chosen))


def random_case(chance: random.Random) -> Case:
    """Nodes that are full, or nearly."""
    gangs = {f"g{number}": chance.randint(0, 2) for number in range(2)}
    running: list[Runs] = []
    for name in NODES:
        free = GPUS - chance.choice((0, 0, 1))
        while free:
            gpus = min(free, chance.choice((1, 1, 1, 2)))
            free -= gpus
            in_gang = chance.choice((None, None, *gangs))
            running.append(
                Runs(
                    uid=f"p{len(running)}",
                    node=name,
                    gpus=gpus,
                    priority=gangs[in_gang] if in_gang else chance.randint(0, 2),
                    started_us=chance.choice((0, 0, NOW_US - 60 * SECOND_US, NOW_US - 59 * SECOND_US)),
                    is_protected=chance.random() < 0.15,
                    gang=in_gang,
                    apps=chance.choice(((), (), ("a",), ("a",), ("b",), ("a", "b"))),
                    is_ending=chance.random() < 0.05,
                )
            )
    sizes = Counter(one.gang for one in running if one.gang)
    least = {name: chance.randint(1, size) for name, size in sizes.items()}
    allowed = {app: chance.randint(0, 3) for app in "ab"}
    after_us = chance.choice((0, 60)) * SECOND_US
    return Case(tuple(running), least, allowed, after_us, borrowed=chance.random() < 0.5)


def told(case: Case) -> Story:
    """The same fleet as an engine knows it."""
    story = Story()
    story.at_us = NOW_US
    policy = PreemptionPolicy(preempt_after_us=case.after_us, reclaim_after_us=case.after_us)
    story.happen(
        queue("all", 0, parent=None),
        queue("team", len(NODES) * GPUS, parent="all", preemption=policy),
        queue("other", 0, parent="all", preemption=policy),
    )
    of_whom = "other" if case.borrowed else "team"
    story.nodes(*(node(name, GPUS) for name in NODES))
    for app, allowed in case.allowed.items():
        selector = LabelSelector((Requirement(app, Operator.EXISTS),))
        story.happen(event.DisruptionBudgetSet(DisruptionBudget(app, "", selector, allowed)))
    gangs = {one.gang: one.priority for one in case.running if one.gang}
    story.gangs(*(gang(name, case.least[name], priority=of, queue=of_whom) for name, of in gangs.items()))
    taken = dict.fromkeys(NODES, 0)
    for one in case.running:
        labels = tuple((app, "yes") for app in one.apps)
        known = pod(
            one.uid,
            shape(one.gpus),
            queue=of_whom,
            priority=one.priority,
            gang=one.gang,
            labels=labels,
            preemptible=not one.is_protected,
            leaving=one.is_ending,
        )
        first = taken[one.node]
        taken[one.node] += one.gpus
        ids = tuple(DeviceId(f"{one.node}/{at}") for at in range(first, first + one.gpus))
        story.happen(event.PodBound(known, NodeName(one.node), ids, one.started_us))
    return story


@pytest.mark.parametrize("seed", seeds(300))
def test_victims_are_a_permitted_set_that_is_enough_and_no_part_of_it_would_be(seed: int) -> None:
    chance = random.Random(seed)
    case = random_case(chance)
    gpus, priority = chance.choice((1, 2, 2, 3, 4)), chance.randint(1, 3)
    story = told(case)
    said = story.arrive(pod("asks", shape(gpus), queue="team", priority=priority))
    uids = evicted(said)
    victims = [one for one in case.running if one.uid in uids]
    if case.fits(gpus):
        assert not victims, "there is room, or will be"
        return
    sets = list(case.sets(gpus, priority, story.at_us))
    if not victims:
        assert all(any(one.gang for one in chosen) for chosen in sets), "pods of no gang would have done"
        wait_until_they_ran_long_enough(case, story, gpus, priority)
        return
    assert set(victims) in map(set, sets), f"{uids} may not go, or are not enough"
    fewer = [one for one in sets if set(one) < set(victims) and case.keeps_whole(one, victims)]
    assert not fewer, f"{fewer[0]} would have been enough"
    story.happen(*(event.PodRemoved(PodUid(one.uid)) for one in victims))
    ended = story.happen(*(event.PodRemoved(PodUid(one.uid)) for one in case.running if one.is_ending))
    assert "asks" in placed(story.said), ended


def wait_until_they_ran_long_enough(case: Case, story: Story, gpus: int, priority: int) -> None:
    """Who found nobody asks again by itself once pods that would do have run for their minimum."""
    moments = sorted({one.started_us + case.after_us for one in case.running} - {NOW_US})
    for at_us in (one for one in moments if one > NOW_US):
        due = [one.at_us for one in story.said if isinstance(one, RequeueAfter)]
        if any(not any(one.gang for one in chosen) for chosen in case.sets(gpus, priority, at_us)):
            assert NOW_US < due[-1] <= at_us, "it would be asked too late"
            story.at_us = at_us
            assert evicted(story.happen())
            return
