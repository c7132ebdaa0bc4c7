"""A pod that goes on where an equal one found a victim gets the plan that a new search would find."""

import random

import pytest

from gpufleet.engine import event
from gpufleet.engine.instruction import AnyInstruction, Evict
from gpufleet.engine.lifecycle.engine_state import EngineState
from gpufleet.engine.preempt.evictable_work import Rank
from gpufleet.engine.preempt.victim_search import PreemptionSearch, SearchRun
from gpufleet.engine.preempt.victims import EvictionPlan, NoEvictionPlan, UnplacedWorkload
from gpufleet.model.identifiers import PodUid, QueueName
from gpufleet.model.queue import CPU, GPU, PreemptionPolicy, Queue, Quota, VictimScope
from tests.engine.effort import seeds
from tests.engine.fleet_builder import SECOND_US, Story, evicted, gang, node, nominated, pod, shape, share
from tests.engine.preempt.test_reclaim import queue, two_teams, work
from tests.engine.victim_orders import random_victim_order

ROUNDS = 5


class Anew(PreemptionSearch):
    """The search that begins anew each time."""

    def find(self, asking: UnplacedWorkload, state: EngineState) -> EvictionPlan | NoEvictionPlan | None:
        """The same, with nothing remembered."""
        self._search_cache = None
        return super().find(asking, state)


class Twins:
    """Two engines that hear the same, of which one begins every search anew: they must say the same."""

    def __init__(self, policy: str) -> None:
        self.story = Story(policy)
        self.anew = Story(policy, victims=Anew())

    def happen(self, *events: event.Event) -> list[AnyInstruction]:
        """A step a second later, of both."""
        self.story.at_us += SECOND_US
        self.anew.at_us += SECOND_US
        said = self.story.happen(*events)
        assert said == self.anew.happen(*events)
        return said


SCOPES = (
    VictimScope.ANY,
    VictimScope.ANY,
    VictimScope.LOWER_PRIORITY,
    VictimScope.LOWER_OR_NEWER_EQUAL_PRIORITY,
)


def random_owners(chance: random.Random, gpus: int) -> tuple[Queue, ...]:
    """A root and queues below it, some below one another, of which some own much and others nothing."""
    queues = [Queue(QueueName("all"))]
    cores = chance.random() < 0.5
    for number in range(chance.randint(2, 5)):
        parent = chance.choice((queues[0], queues[0], *queues[1:2])).name
        owned = chance.choice((0, gpus // 4, gpus // 2, gpus))
        quotas = [Quota(GPU, 1000 * owned, None, chance.choice((None, None, None, 0)))]
        if cores:
            quotas.append(Quota(CPU, 1000 * chance.choice((0, gpus, 2 * gpus))))
        eager = PreemptionPolicy(
            within_queue=chance.choice((VictimScope.NEVER, *SCOPES)),
            reclaim=chance.choice(SCOPES),
            borrowing=chance.choice((VictimScope.NEVER, *SCOPES)),
            victim_order=random_victim_order(chance),
        )
        priority, weight = chance.choice((0, 0, 0, 1)), chance.choice((1000, 1000, 3000, 0))
        name = QueueName(f"q{number}")
        queues.append(
            Queue(name, priority, parent=parent, weight_milli=weight, quotas=tuple(quotas), preemption=eager)
        )
    return tuple(queues)


def random_job(
    chance: random.Random, number: int, queues: tuple[Queue, ...], at_us: int
) -> list[event.Event]:
    """Some equal pods of one queue, now and then a gang."""
    needs = chance.choice((shape(1), shape(1), shape(1), shape(2), share(500), shape(cpu_milli=2000)))
    name, priority = chance.choice(queues[1:]).name, chance.choice((0, 0, 0, 0, 1))
    count = chance.randint(1, 30)
    together = f"g{number}" if chance.random() < 0.1 else None
    apart_us, preemptible = chance.choice((0, 1)), chance.random() < 0.9
    pods = [
        pod(
            f"{number}-{index}",
            needs,
            queue=name,
            priority=priority,
            gang=together,
            created_at_us=at_us + index * apart_us,
            preemptible=preemptible,
        )
        for index in range(count)
    ]
    described: list[event.Event] = []
    if together is not None:
        described = [event.GangSet(gang(together, chance.randint(1, count), queue=name, priority=priority))]
    return [*described, *map(event.PodAdded, pods)]


@pytest.mark.parametrize("seed", seeds(75))
def test_who_goes_on_decides_as_who_begins_anew(seed: int) -> None:
    chance = random.Random(seed)
    twins = Twins(chance.choice(("gpufleet", "best-fit")))
    nodes, gpus = chance.randint(2, 6), chance.choice((4, 8))
    queues = random_owners(chance, nodes * gpus)
    twins.happen(*map(event.QueueSet, queues))
    kinds = chance.choice(({}, {"karpenter.sh/capacity-type": "spot"}))
    for number in range(nodes):
        labels = kinds if number % 2 else {}
        twins.happen(event.NodeSet(node(f"n{number}", gpus, cpu_milli=3000 * gpus, labels=labels)))
    ending: list[PodUid] = []
    for round_number in range(ROUNDS):
        jobs: list[event.Event] = []
        for number in range(chance.randint(1, 2)):
            jobs += random_job(chance, 10 * round_number + number, queues, twins.story.at_us)
        for said in (twins.happen(*jobs), twins.happen()):
            ending += [one.uid for one in said if isinstance(one, Evict)]
        chance.shuffle(ending)
        gone, ending = ending[: len(ending) // 2], ending[len(ending) // 2 :]
        said = twins.happen(*map(event.PodRemoved, gone))
        ending += [one.uid for one in said if isinstance(one, Evict)]


@pytest.mark.parametrize("seed", seeds(60))
def test_outside_of_queues_who_goes_on_decides_as_who_begins_anew_too(seed: int) -> None:
    chance = random.Random(seed)
    twins = Twins(chance.choice(("gpufleet", "best-fit")))
    for number in range(chance.randint(2, 4)):
        twins.happen(event.NodeSet(node(f"n{number}", 4)))
    ending: list[PodUid] = []
    for round_number in range(2 * ROUNDS):
        needs = [shape(chance.choice((1, 1, 2))) for _ in range(2)]
        pods = [
            pod(f"{round_number}-{number}", chance.choice(needs), priority=chance.choice((0, 5, 5, 9)))
            for number in range(chance.randint(1, 12))
        ]
        said = twins.happen(*map(event.PodAdded, pods))
        ending += [one.uid for one in said if isinstance(one, Evict)]
        chance.shuffle(ending)
        gone, ending = ending[: len(ending) // 3], ending[len(ending) // 3 :]
        said = twins.happen(*map(event.PodRemoved, gone))
        ending += [one.uid for one in said if isinstance(one, Evict)]


class Searches:
    """How many searches began anew."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.count = 0
        find = SearchRun.find

        def counted(quest: SearchRun, rank: Rank, queue: Queue) -> EvictionPlan | NoEvictionPlan:
            self.count += 1
            return find(quest, rank, queue)

        monkeypatch.setattr(SearchRun, "find", counted)


def test_a_job_of_equal_pods_searches_once(monkeypatch: pytest.MonkeyPatch) -> None:
    told = two_teams(gpus=16, a=12)
    told.arrive(*work("b", 16))
    searches = Searches(monkeypatch)
    assert len(evicted(told.arrive(*work("a", 12)))) == 12
    assert searches.count == 1


def test_two_jobs_that_take_turns_search_once_each(monkeypatch: pytest.MonkeyPatch) -> None:
    """a and c own six GPUs each, b has borrowed all sixteen of which it owns four."""
    told = two_teams(gpus=16, a=6)
    told.happen(queue("c", 6))
    told.arrive(*work("b", 16))
    searches = Searches(monkeypatch)
    assert len(evicted(told.arrive(*work("a", 6), *work("c", 6)))) == 12
    assert searches.count == 2


def test_who_owns_no_more_is_not_followed() -> None:
    """Of eight pods that ask four are owed a place: the fifth would take what b owns."""
    told = two_teams(gpus=16, a=4, b=12)
    told.arrive(*work("b", 16))
    assert len(evicted(told.arrive(*work("a", 8)))) == 4


def test_a_large_victim_makes_room_for_several() -> None:
    """Pods of four GPUs end for pods of one: two of them for eight, and the third pod evicts nobody."""
    told = two_teams(gpus=16, a=8, b=8)
    told.arrive(*work("b", 4, shape(4)))
    said = told.arrive(*work("a", 8))
    assert len(evicted(said)) == 2
    assert len(nominated(said)) == 8


def test_lenders_give_in_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    """b and c have borrowed eight GPUs each: who has more gives first, so each gives half of eight."""
    told = Story()
    told.happen(queue("all", 0, parent=None), queue("a", 16), queue("b"), queue("c"))
    told.nodes(node("n0", 8), node("n1", 8))
    told.arrive(*work("b", 8), *work("c", 8))
    searches = Searches(monkeypatch)
    victims = evicted(told.arrive(*work("a", 8)))
    assert sorted(uid[0] for uid in victims) == ["b"] * 4 + ["c"] * 4
    assert searches.count == 1


def test_within_a_queue_they_go_on_too(monkeypatch: pytest.MonkeyPatch) -> None:
    told = Story()
    policy = PreemptionPolicy(within_queue=VictimScope.LOWER_PRIORITY)
    owned = (Quota(GPU, 8000),)
    told.queues(Queue(QueueName("a"), quotas=owned, preemption=policy))
    told.nodes(node("n0", 8))
    told.arrive(*work("a", 8))
    searches = Searches(monkeypatch)
    assert len(evicted(told.arrive(*work("a", 6, first=10, priority=1)))) == 6
    assert searches.count == 1


def test_a_gang_of_a_queue_of_lower_priority_goes_before_the_next_single_pod() -> None:
    """Of the first pod's victims a single one is left, of a queue of higher priority than the gang's."""
    told = Story()
    told.happen(queue("all", 0, parent=None), queue("a", 4), queue("low"), queue("high", priority=1))
    told.nodes(node("n0", 4))
    told.arrive(*work("low", 1), *work("high", 2))
    together = pod("low-gang", shape(1), queue="low", gang="g")
    told.happen(event.GangSet(gang("g", 1, queue="low")), event.PodAdded(together))
    assert set(evicted(told.arrive(*work("a", 2)))) == {"low0", "low-gang"}
