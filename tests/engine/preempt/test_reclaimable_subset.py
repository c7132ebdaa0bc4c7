"""What a workload is owed comes from several who borrow, where none of them has borrowed enough."""

import random
from itertools import combinations, islice

import pytest

from gpufleet.engine import event
from gpufleet.engine.lifecycle.engine_state import EngineState
from gpufleet.engine.preempt import by_node
from gpufleet.engine.preempt.candidates import within_queue
from gpufleet.engine.preempt.ranks import rank_of
from gpufleet.engine.preempt.reclaim import Reclaim
from gpufleet.engine.preempt.victim_search import PreemptionSearch, SearchRun
from gpufleet.engine.preempt.victims import EvictionPlan, NoEvictionPlan, UnplacedWorkload
from gpufleet.model.disruption_budget import DisruptionBudget
from gpufleet.model.identifiers import QueueName
from gpufleet.model.labels import LabelSelector, Operator, Requirement
from gpufleet.model.queue import GPU, PreemptionPolicy, Queue, Quota
from tests.engine.effort import seeds
from tests.engine.fleet_builder import SECOND_US, Story, evicted, gang, node, placed, pod, shape
from tests.engine.preempt.test_reclaim import SHARES, queue, work

SETS_MAX = 3000
QUEUES = (queue("all", 0, parent=None), queue("a", 4), queue("b", 4), queue("c", 0))


def fleet(*queues: event.QueueSet, nodes: tuple[int, ...] = (4, 4)) -> Story:
    """Queues, and nodes of so many GPUs."""
    told = Story()
    told.happen(*queues)
    told.nodes(*(node(f"n{number}", gpus, cpu_milli=64_000) for number, gpus in enumerate(nodes)))
    return told


def as_gang(queue_name: str, count: int, gpus: int = 1, name: str = "g") -> list[event.Event]:
    """A gang of so many pods."""
    pods = [pod(f"{name}-{number}", shape(gpus), queue=queue_name, gang=name) for number in range(count)]
    return [event.GangSet(gang(name, count, queue=queue_name)), *map(event.PodAdded, pods)]


def by_queue(victims: dict[str, str | None]) -> dict[str, int]:
    """How many of each team go; their pods are named after it."""
    teams = [uid[0] for uid in victims]
    return {team: teams.count(team) for team in sorted(set(teams))}


def test_a_gang_takes_back_from_each_who_borrows_where_nobody_has_borrowed_enough() -> None:
    """b has borrowed two GPUs and c one; a owns three more than it has."""
    told = fleet(*QUEUES)
    told.arrive(*work("a", 1), *work("b", 6), *work("c", 1))
    told.wait_s(60)
    said = told.happen(*as_gang("a", 3))
    assert by_queue(evicted(said)) == {"b": 2, "c": 1}
    assert len(evicted(said)) == 3
    assert sorted(placed(told.depart(*evicted(said)))) == ["g-0", "g-1", "g-2"]


@pytest.mark.parametrize("sets_max", [0, 300])
def test_a_pod_takes_back_from_each_who_borrows_where_nobody_has_borrowed_enough(
    sets_max: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(by_node, "SETS_A_NODE_MAX", sets_max)
    told = fleet(*QUEUES, nodes=(8,))
    told.arrive(*work("a", 1), *work("b", 6), *work("c", 1))
    told.wait_s(60)
    said = told.arrive(*work("a", 1, shape(3), first=1))
    assert by_queue(evicted(said)) == {"b": 2, "c": 1}


def test_a_gang_that_borrows_leaves_nobody_with_less_than_itself() -> None:
    """Nine GPUs of nobody: b and c have what there is, and a may have as much as is left to each of them."""
    told = fleet(
        queue("all", 9, parent=None),
        *(queue(name, 0, preemption=SHARES) for name in ("a", "b", "c")),
        nodes=(9,),
    )
    told.arrive(*work("b", 5), *work("c", 4))
    told.wait_s(60)
    assert by_queue(evicted(told.happen(*as_gang("a", 3)))) == {"b": 2, "c": 1}


def test_whole_gangs_go_of_each_who_borrows() -> None:
    """b and c own nothing, and each runs a gang of two: a owns four GPUs more than it has."""
    told = fleet(queue("all", 0, parent=None), queue("a", 4), queue("b", 2), queue("c", 0), nodes=(6,))
    told.happen(*as_gang("b", 2, name="b"))
    told.happen(*as_gang("b", 2, name="bb"))
    told.happen(*as_gang("c", 2, name="c"))
    told.wait_s(60)
    assert by_queue(evicted(told.happen(*as_gang("a", 4)))) == {"b": 2, "c": 2}


def test_a_gang_takes_from_near_queues_and_then_from_far_ones() -> None:
    """A department owns four GPUs, two for each team; near has borrowed one of them, and far two."""
    told = fleet(
        queue("all", parent=None),
        queue("dept"),
        queue("me", 2, parent="dept"),
        queue("near", 2, parent="dept"),
        queue("far", 3),
        queue("idle", 1),
    )
    told.arrive(*work("near", 3), *work("far", 5))
    told.wait_s(60)
    assert by_queue(evicted(told.happen(*as_gang("me", 2)))) == {"f": 1, "n": 1}


def test_who_stays_for_justice_uses_up_no_disruption_budget() -> None:
    """The budget lets one go. b gives two, of whom none needs it: the one is of c."""
    told = fleet(*QUEUES)
    guarded = (("guarded", "yes"),)
    selector = LabelSelector((Requirement("guarded", Operator.EXISTS),))
    pods = [
        *work("b", 2),
        *(pod(f"b{number}", shape(1), queue="b", labels=guarded) for number in range(2, 6)),
        pod("c0", shape(1), queue="c", labels=guarded),
    ]
    told.arrive(*work("a", 1), *pods)
    told.happen(event.DisruptionBudgetSet(DisruptionBudget("one", "", selector, 1)))
    told.wait_s(60)
    assert set(evicted(told.happen(*as_gang("a", 3)))) == {"b0", "b1", "c0"}


class Watched(PreemptionSearch):
    """The search, and every gang that it says no to is checked. ``refused`` counts them."""

    def __init__(self) -> None:
        super().__init__()
        self.refused = 0
        self.planned = 0
        self.asked = 0

    def find(self, asking: UnplacedWorkload, state: EngineState) -> EvictionPlan | NoEvictionPlan | None:
        """The same, checked."""
        found = super().find(asking, state)
        if asking.workload.is_single:
            return found
        self.asked += 1
        self.planned += isinstance(found, EvictionPlan)
        if isinstance(found, NoEvictionPlan) and not found.cut:
            self.refused += 1
            assert sets_that_would_do(asking, state) == []
        return found


def sets_that_would_do(asking: UnplacedWorkload, state: EngineState) -> list[list[str]]:
    """The first set of candidates that it is just to evict, and without which the gang fits; none after many
    tries.
    """
    quest, rank = SearchRun(asking, state), rank_of(asking, state)
    of = state.waiting.queues[rank.queue]
    reclaim = Reclaim(state, rank, of, quest._needed(), quest._least(), quest._of_one_pod())
    quest.proof.is_just = reclaim.is_just
    with quest.proof.in_future():
        own = within_queue(state, rank, of, asking.at_us)
        others = (reclaim.candidates(asking.at_us), quest._others_without(own, reclaim))
        units = {unit.rows: unit for found in (own, *others) for unit in found.in_order()}
        sizes = range(1, len(units) + 1)
        sets = (chosen for size in sizes for chosen in combinations(units.values(), size))
        for chosen in islice(sets, SETS_MAX):
            rows = dict.fromkeys(row for unit in chosen for row in unit.rows)
            if quest.proof.fits_without([*quest.leaving.rows.tolist(), *rows]):
                return [[str(state.pods.pod_at(row).uid) for row in rows]]
    return []


def random_debtors(chance: random.Random, gpus: int) -> tuple[Queue, ...]:
    """A root, a queue that owns much or shares what is left over, and others that own less than they take."""
    policy = chance.choice((PreemptionPolicy(), SHARES))
    owns = chance.choice((0, gpus // 2, gpus))
    queues = [
        Queue(QueueName("all"), quotas=(Quota(GPU, 1000 * (gpus if owns == 0 else 0)),)),
        Queue(QueueName("a"), parent=QueueName("all"), quotas=(Quota(GPU, 1000 * owns),), preemption=policy),
    ]
    for name in "bcde"[: chance.randint(2, 4)]:
        parent = chance.choice(queues[:1] * 3 + queues[2:3]).name
        quota = Quota(GPU, 1000 * chance.choice((0, 0, 1, 2)))
        queues.append(Queue(QueueName(name), chance.choice((0, 0, 1)), parent=parent, quotas=(quota,)))
    return tuple(queues)


@pytest.mark.parametrize("seed", seeds(60))
def test_a_gang_is_refused_only_where_no_set_of_victims_would_do(seed: int) -> None:
    chance, watched = random.Random(seed), Watched()
    told = Story("best-fit", victims=watched)
    queues = random_debtors(chance, 8)
    told.queues(*queues)
    told.nodes(*(node(f"n{number}", 4, cpu_milli=64_000) for number in range(2)))
    for number in range(12):
        told.at_us += SECOND_US
        name = str(chance.choice(queues[2:]).name)
        if chance.random() < 0.2:
            told.happen(*as_gang(name, 2, name=f"{name}-{number}"))
        else:
            told.arrive(*work(name, 1, first=number, priority=chance.choice((0, 0, 1))))
    for number in range(3):
        told.at_us += SECOND_US
        said = told.happen(*as_gang("a", chance.randint(2, 4), name=f"g{number}"))
        told.depart(*evicted(said))
    assert watched.asked == watched.planned + watched.refused
