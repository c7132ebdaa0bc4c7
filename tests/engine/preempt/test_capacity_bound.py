"""A gang for which no just set of victims is large enough is refused before any is tried, and no other."""

import random
from itertools import combinations

import numpy as np
import pytest

from gpufleet.engine import event
from gpufleet.engine.instruction import Evict
from gpufleet.engine.preempt.candidates import Candidates
from gpufleet.engine.preempt.capacity_bound import knapsacks
from gpufleet.engine.preempt.over_fleet import OverFleet
from gpufleet.engine.preempt.victim_search import SearchRun
from gpufleet.model.identifiers import QueueName
from gpufleet.model.queue import CPU, GPU, Queue, Quota
from tests.engine.effort import seeds
from tests.engine.fleet_builder import SECOND_US, Story, evicted, gang, node, pod, refused, shape, share
from tests.engine.preempt.test_reclaim import two_teams, work
from tests.engine.preempt.test_search_cache import random_owners

SETS_MAX = 400


class Watch:
    """Whoever is refused early is checked: none of the sets there are would do. ``refused`` counts them."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.refused = 0
        self.asked = 0
        self._may_suffice = SearchRun._may_suffice

        def checked(quest: SearchRun, found: Candidates) -> bool:
            return self._checked(quest, found)

        monkeypatch.setattr(SearchRun, "_may_suffice", checked)

    def _checked(self, quest: SearchRun, found: Candidates) -> bool:
        self.asked += 1
        if self._may_suffice(quest, found):
            return True
        self.refused += 1
        leaving = quest.leaving.rows.tolist()
        over_fleet = OverFleet(quest.proof, quest.state, leaving)
        assert over_fleet.find(found.alone) is None
        units, tried = found.in_order(), 0
        for size in range(1, len(units) + 1):
            for chosen in combinations(units, size):
                tried += 1
                if tried > SETS_MAX:
                    return False
                rows = dict.fromkeys(row for unit in chosen for row in unit.rows)
                assert not quest.proof.fits_without([*leaving, *rows])
        return False


def random_arrival(
    chance: random.Random, number: int, name: str, at_us: int, *, as_gang: bool
) -> list[event.Event]:
    """Some pods of one queue, equal or not, alone or as a gang."""
    kinds = (shape(1), shape(1), shape(2), shape(4), share(500), shape(1, cpu_milli=3000))
    needs, other = chance.choice(kinds), chance.choice(kinds)
    mixed, count = chance.random() < 0.3, chance.randint(1, 6)
    together = f"g{number}" if as_gang else None
    pods = [
        pod(
            f"{number}-{index}",
            other if mixed and index % 2 else needs,
            queue=name,
            gang=together,
            created_at_us=at_us,
        )
        for index in range(count)
    ]
    least = chance.choice((1, count, count))
    described = [] if together is None else [event.GangSet(gang(together, least, queue=name))]
    return [*described, *map(event.PodAdded, pods)]


@pytest.mark.parametrize("seed", seeds(120))
def test_who_is_refused_early_finds_no_set_that_would_do(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    chance, watch = random.Random(seed), Watch(monkeypatch)
    told = Story("best-fit")
    nodes, gpus = chance.randint(1, 2), 4
    queues = random_owners(chance, nodes * gpus)
    told.queues(*queues)
    told.nodes(*(node(f"n{number}", gpus, cpu_milli=6000) for number in range(nodes)))
    for number in range(12):
        told.at_us += SECOND_US
        name = chance.choice(queues[1:]).name
        arrival = random_arrival(chance, number, name, told.at_us, as_gang=chance.random() < 0.5)
        said = told.happen(*arrival)
        ending = [one.uid for one in said if isinstance(one, Evict)]
        told.at_us += SECOND_US
        told.happen(*(event.PodRemoved(uid) for uid in ending if chance.random() < 0.7))
    assert watch.refused <= watch.asked


def eight_gpus_each(count: int, team: str) -> list[event.Event]:
    """A gang of so many pods with eight GPUs."""
    pods = [pod(f"big-{number}", shape(8), queue=team, gang="big") for number in range(count)]
    return [event.GangSet(gang("big", count, queue=team)), *map(event.PodAdded, pods)]


@pytest.mark.parametrize(("owned_by_b", "victims"), [(9, 0), (8, 16)])
def test_a_gang_one_gpu_short_is_refused_before_any_set_is_tried(
    owned_by_b: int, victims: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Three nodes of eight GPUs are b's, of which it owns eight: a may have sixteen, two pods of eight. If it
    owns nine there is one too few.
    """
    told = two_teams(gpus=8, a=16, b=owned_by_b)
    told.nodes(node("n1", 8), node("n2", 8))
    told.arrive(*work("b", 24))
    watch = Watch(monkeypatch)
    said = told.happen(*eight_gpus_each(2, "a"))
    assert len(evicted(said)) == victims
    assert watch.refused == (victims == 0)
    assert refused(said) == (["big"] if victims == 0 else [])


@pytest.mark.parametrize(("cores_of_b", "victims"), [(0, 2), (8, 0)])
def test_whoever_borrows_anything_of_use_may_give_all_of_it(
    cores_of_b: int, victims: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """b runs eight pods of a GPU and a core, and owns seven GPUs. a is owed two GPUs and eight cores: if b
    owns no core it gives as many as a needs, otherwise only the one GPU that it has borrowed.
    """
    told = Story()
    told.queues(
        Queue(QueueName("all")),
        Queue(QueueName("a"), parent=QueueName("all"), quotas=(Quota(GPU, 2000), Quota(CPU, 8000))),
        Queue(
            QueueName("b"), parent=QueueName("all"), quotas=(Quota(GPU, 7000), Quota(CPU, 1000 * cores_of_b))
        ),
    )
    told.nodes(node("n0", 8))
    told.arrive(*work("b", 8))
    watch = Watch(monkeypatch)
    pods = [pod(f"g-{number}", shape(1), queue="a", gang="g") for number in range(2)]
    said = told.happen(event.GangSet(gang("g", 2, queue="a")), *map(event.PodAdded, pods))
    assert (len(evicted(said)), watch.refused) == (victims, int(victims == 0))


def test_knapsacks_by_hand() -> None:
    """First side: 7 of charges 4 and 5; 4 are worth 8, of the other three parts of five 6 are worth more than
    half: 8 + 10 * 3 / 5 = 14. Second: what is charged nothing goes along. Third: it may give nothing at all.
    """
    amounts = np.array([8, 10, 3, 5, 9], np.int64)
    charges = np.array([4, 5, 2, 0, 0], np.int64)
    found = knapsacks(amounts, charges, np.array([7.0, 1.0, -1.0]), np.array([0, 2, 4], np.int64))
    assert found.tolist() == [14.0, 6.0, 0.0]


def test_all_of_a_side_fits_where_nothing_is_known_of_its_limit() -> None:
    amounts, charges = np.array([3, 4], np.int64), np.array([1, 1], np.int64)
    assert knapsacks(amounts, charges, np.array([np.inf]), np.array([0], np.int64)).tolist() == [7.0]
