"""Bounds and early judgements save searches, not answers: where a few victims would do, some are found.

Whoever asks in vain is checked against every small set of pods, each tried and judged by itself.
"""

from collections.abc import Iterator
from itertools import combinations

import pytest

from gpufleet.engine import event
from gpufleet.engine.arrays.layout import NOT_SET, POD_NODE
from gpufleet.engine.lifecycle.engine_state import EngineState
from gpufleet.engine.preempt import by_node
from gpufleet.engine.preempt.evictable_work import evictable_within_queue, evictable_work
from gpufleet.engine.preempt.ranks import rank_of
from gpufleet.engine.preempt.reclaim import Reclaim
from gpufleet.engine.preempt.victim_search import PreemptionSearch, SearchRun
from gpufleet.engine.preempt.victims import EvictionPlan, NoEvictionPlan, UnplacedWorkload
from gpufleet.model.queue import GPU, PreemptionPolicy, Queue, Quota, VictimScope
from tests.engine.effort import seeds
from tests.engine.fleet_builder import SECOND_US, Story, evicted, node, pod, shape
from tests.engine.preempt.arena import Arena, random_tree
from tests.engine.preempt.test_reclaim import queue, two_teams, work

TOGETHER_MAX = 2


class Watched(PreemptionSearch):
    """The search, and whoever it says no to is checked. ``refused`` counts them."""

    def __init__(self) -> None:
        super().__init__()
        self.refused = 0

    def find(self, asking: UnplacedWorkload, state: EngineState) -> EvictionPlan | NoEvictionPlan | None:
        """The same, checked."""
        found = super().find(asking, state)
        if isinstance(found, NoEvictionPlan) and not found.cut and asking.workload.is_single:
            self.refused += 1
            assert list(sets_that_would_do(asking, state)) == []
        return found


def sets_that_would_do(asking: UnplacedWorkload, state: EngineState) -> Iterator[list[str]]:
    """Small sets of pods on one node that may be evicted, and without whom the pod fits on that node."""
    quest, rank = SearchRun(asking, state), rank_of(asking, state)
    policy = state.waiting.queues[rank.queue]
    reclaim = Reclaim(state, rank, policy, quest._needed(), quest._least(), quest._of_one_pod())
    quest.proof.is_just = reclaim.is_just
    running = [row for row in range(len(state.pods.pods)) if may_go(state, row, asking, policy)]
    with quest.proof.in_future():
        for size in range(1, TOGETHER_MAX + 1):
            for rows in combinations(running, size):
                nodes = {int(state.store.tables.pods[POD_NODE, row]) for row in rows}
                fits = quest.proof.fits_without([*quest.leaving.rows.tolist(), *rows])
                if fits and {fits[0].node} == nodes:
                    yield [state.pods.pod_at(row).uid for row in rows]


def may_go(state: EngineState, row: int, asking: UnplacedWorkload, policy: Queue) -> bool:
    """True if a policy lets the pod that asks evict this one, whoever else goes."""
    one = state.pods.pods[row]
    if one is None or one.gang is not None or state.store.tables.pods[POD_NODE, row] == NOT_SET:
        return False
    if state.departures.is_departing(one.uid) or row in state.departures.by_row:
        return False
    rank, rules = rank_of(asking, state), policy.preemption
    if row in state.placed_in_step or one.uid in state.eviction_immunity.pods_immune_to(rank.queue):
        return False
    if one.queue == rank.queue:
        reaches = (
            []
            if rules.within_queue is VictimScope.NEVER
            else [evictable_within_queue(rules.within_queue, rank)]
        )
    else:
        reaches = [
            evictable_work(rules.reclaim, rank),
            evictable_work(rules.borrowing, rank, rules.borrowing_priority_max),
        ]
    return any(each.holds(one.priority, one.created_at_us) for each in reaches)


@pytest.mark.parametrize("seed", seeds(120))
def test_whom_a_few_victims_would_help_is_helped(seed: int) -> None:
    arena = Arena(seed)
    queues = random_tree(arena.chance, 8)
    watched = Watched()
    arena.story = Story("best-fit", victims=watched)
    arena.story.happen(*(event.QueueSet(one) for one in queues))
    arena.story.nodes(*(node(f"n{number}", 4, cpu_milli=8000) for number in range(2)))
    needs = (shape(1), shape(2), shape(4), shape(cpu_milli=3000))
    for _ in range(24):
        arena.story.at_us += SECOND_US
        one = arena.pod(
            arena.chance.choice(needs), arena.chance.choice(queues[1:]).name, arena.chance.randint(0, 2)
        )
        arena.story.happen(event.PodAdded(one))
    assert watched.refused or arena.story.said


def test_quota_is_freed_by_as_few_as_hold_it() -> None:
    """Room is ample. Of what is borrowed two GPUs are wanted: one pod of two, or two of one."""
    told = two_teams(gpus=16)
    told.arrive(*work("b", 6), *work("b", 1, shape(2), first=6))
    told.wait_s(60)
    assert evicted(told.arrive(*work("a", 1, shape(2)))) == {"b6": "a0"}


@pytest.mark.parametrize("sets_max", [0, 300])
def test_where_sets_cannot_all_be_tried_the_victims_are_minimal_too(
    sets_max: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """24 pods of one GPU, then of one core and no GPU: six GPUs are wanted, so six pods of GPUs go."""
    monkeypatch.setattr(by_node, "SETS_A_NODE_MAX", sets_max)
    told = Story()
    told.happen(
        queue("a", 24, parent=None, preemption=PreemptionPolicy(within_queue=VictimScope.LOWER_PRIORITY))
    )
    told.nodes(node("n0", 24, cpu_milli=100_000))
    small = [pod(f"s{number}", shape(cpu_milli=1000), queue="a") for number in range(20)]
    told.arrive(*work("a", 24), *small)
    told.wait_s(60)
    victims = evicted(told.arrive(pod("big", shape(6), queue="a", priority=1)))
    assert len(victims) == 6
    assert all(uid.startswith("a") for uid in victims)


def test_who_is_beyond_its_own_looks_at_nobody() -> None:
    """Its own quota is used up and its policy lets it not evict while it borrows: there is no candidate."""
    told = two_teams(gpus=8)
    told.arrive(*work("a", 4), *work("b", 4))
    told.arrive(*work("a", 1, first=4))
    state = told.engine.state
    asks = state.workloads.single(state.pods.row_by_uid[pod("a4", queue="a").uid])
    quest = SearchRun(UnplacedWorkload(asks, told.at_us), state)
    queue_a = state.waiting.queues[pod("a4", queue="a").queue]
    rank = rank_of(quest.unplaced, state)
    reclaim = Reclaim(state, rank, queue_a, quest._needed(), quest._least(), quest._of_one_pod())
    assert not reclaim.candidates(told.at_us).any
    assert Quota(GPU, 4000) in queue_a.quotas


def test_who_takes_from_near_queues_may_then_take_from_far_ones() -> None:
    """A department owns four GPUs, two for each team, and the other owns four; both borrow one of eight.

    With two more the department would have five; once its own team gave one, it has four.
    """
    told = Story()
    told.happen(
        queue("all", parent=None),
        queue("dept"),
        queue("me", 2, parent="dept"),
        queue("near", 2, parent="dept"),
        queue("far", 3),
        queue("idle", 1),
    )
    told.nodes(node("n0", 8))
    assert len(told.arrive(*work("near", 3), *work("far", 5))) == 8
    told.wait_s(60)
    victims = evicted(told.arrive(*work("me", 1, shape(2))))
    assert sorted(uid.rstrip("0123456789") for uid in victims) == ["far", "near"]
