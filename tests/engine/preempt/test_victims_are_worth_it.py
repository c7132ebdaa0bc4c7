"""Nobody is evicted in vain, or for more than it takes, or for ever: random work on a small fleet."""

import random

import pytest

from gpufleet.engine import event
from gpufleet.engine.arrays.layout import PodState
from gpufleet.engine.instruction import Evict, Nominated
from gpufleet.engine.preempt.candidates import is_in_scope
from gpufleet.engine.preempt.evictable_work import Rank
from gpufleet.model.identifiers import PodUid
from gpufleet.model.pod import Pod
from gpufleet.model.queue import Queue
from tests.engine.effort import seeds
from tests.engine.preempt.arena import NEEDS, Arena, cheapest, random_gang, random_tree


def arrivals(arena: Arena, count: int) -> list[Pod]:
    """Pods of random needs and priorities."""
    chance, names = arena.chance, arena.queue_names
    return [arena.pod(chance.choice(NEEDS), chance.choice(names), chance.randint(0, 3)) for _ in range(count)]


def victims_of(arena: Arena, asking: Pod) -> list[Pod]:
    """Whom a pod may evict by the policy of its queue, in the words of the queue."""
    state = arena.story.engine.state
    rank = Rank(asking.queue, asking.priority, asking.created_at_us)
    running = [state.pods.pods[row] for rows in state.pods.on_node.values() for row in rows]
    return [
        one
        for one in running
        if one is not None
        and arena.state(one.uid) in {PodState.ASSUMED, PodState.BOUND}
        and not state.departures.is_departing(one.uid)
        and is_in_scope(arena.within_queue, rank, one.priority, one.created_at_us)
    ]


@pytest.mark.parametrize("spot", [0, 1])
@pytest.mark.parametrize("seed", seeds(60))
def test_the_victims_of_a_pod_are_the_cheapest_that_exist(seed: int, spot: int) -> None:
    """By exhaustive search: the same highest priority, the same number, as many on spot nodes. No gap."""
    check_victims_are_cheapest(Arena(seed, nodes=2, gpus=3, spot=spot))


@pytest.mark.parametrize("seed", seeds(40))
def test_outside_of_queues_the_victims_of_a_pod_are_the_cheapest_that_exist(seed: int) -> None:
    check_victims_are_cheapest(Arena(seed, queues=(), nodes=2, gpus=3, spot=seed % 2))


def check_victims_are_cheapest(arena: Arena) -> None:
    """Random work, and then six pods one after the other."""
    for one in arrivals(arena, 8):
        arena.happen(event.PodAdded(one))
    for _ in range(6):
        arena.story.at_us += 1
        if not arena.queues:
            # Work of no queue counts on evicted pods once they end.
            arena.story.told_to_end(*arena.story.engine.state.departures.evicted)
        asking = arrivals(arena, 1)[0]
        before = cheapest(arena, asking, victims_of(arena, asking))
        free = arena.fits_without(asking.shape, set(arena.story.engine.state.departures.departing()))
        known = {one.uid: one for one in victims_of(arena, asking)}
        said = arena.happen(event.PodAdded(asking))
        victims = [known[one.uid] for one in said if isinstance(one, Evict) and one.beneficiary == asking.uid]
        waits = {one.uid for one in said if isinstance(one, Nominated)}
        behind_another = any(queue.strict for queue in arena.queues) and not waits
        if free or behind_another:
            assert not victims
        elif before is None:
            assert not victims, f"{victims} are evicted, and no set of victims would do"
        else:
            assert victims, f"nobody is evicted, and {before} would do"
            firm = sum(arena.is_firm(one.uid) for one in victims)
            assert (max(one.priority for one in victims), len(victims), firm) == before


@pytest.mark.parametrize("seed", seeds(60))
def test_without_any_one_of_those_it_waits_for_a_pod_would_not_fit(seed: int) -> None:
    arena = Arena(seed, nodes=3)
    for one in arrivals(arena, 16):
        arena.happen(event.PodAdded(one))
    state = arena.story.engine.state
    for _ in range(8):
        asking = arrivals(arena, 1)[0]
        said = arena.happen(event.PodAdded(asking))
        places = [one for one in said if isinstance(one, Nominated)]
        if len(places) == 1 and places[0].uid == asking.uid:
            (kept,) = places
            # As if it had no place yet.
            with state.trial() as trial:
                trial.release(kept.uid)
                waits_for = set(kept.waits_for)
                assert arena.fits_without(asking.shape, waits_for)
                for spared in waits_for:
                    assert not arena.fits_without(asking.shape, waits_for - {spared}), spared


@pytest.mark.parametrize("queues", [None, ()], ids=["in a queue", "outside"])
@pytest.mark.parametrize("seed", seeds(60))
def test_whoever_others_were_evicted_for_runs_when_they_are_gone(
    seed: int, queues: tuple[Queue, ...] | None
) -> None:
    arena = Arena(seed, queues=queues, nodes=3)
    chance, queue = arena.chance, arena.queue_names[0]
    for number in range(14):
        if chance.random() < 0.3:
            one = random_gang(chance, f"g{number}", queue)
            members = [
                arena.pod(chance.choice(NEEDS), queue, one.priority, one.name)
                for _ in range(one.min_members + chance.randint(0, 2))
            ]
            arena.happen(event.GangSet(one), *map(event.PodAdded, members))
        else:
            arena.happen(event.PodAdded(arrivals(arena, 1)[0]))
        if chance.random() < 0.3 and arena.ending:
            arena.end(arena.ending.pop(0), made_anew=False)
    rounds = 0
    while arena.ending:
        arena.let_victims_end()
        rounds += 1
        assert rounds < 50
    assert not arena.promised.keys() & arena.story.engine.state.pods.row_by_uid.keys()
    assert not arena.story.engine.state.departures.nominations


@pytest.mark.parametrize("queues", [None, ()], ids=["in a queue", "outside"])
@pytest.mark.parametrize("seed", seeds(40))
def test_evictions_come_to_an_end(seed: int, queues: tuple[Queue, ...] | None) -> None:
    """Every evicted pod is made anew at once and asks again: nobody may answer in kind for ever.

    Within a queue, as outside of every queue, each chain of evictions goes strictly down by priority or
    up by age, so there are no more evictions than pairs of pods.
    """
    come_to_an_end(Arena(seed, queues=queues, nodes=2))


@pytest.mark.parametrize("seed", seeds(80))
def test_evictions_between_queues_come_to_an_end(seed: int) -> None:
    """The same for two to four queues in a tree with any quotas, weights, priorities and policies."""
    chance = random.Random(seed)
    nodes = chance.randint(1, 2)
    come_to_an_end(Arena(seed, queues=random_tree(chance, 4 * nodes), nodes=nodes))


def come_to_an_end(arena: Arena) -> None:
    """Random work arrives; then whoever is evicted is made anew, until nobody is evicted any more."""
    chance = arena.chance
    for _ in range(12):
        arena.happen(*map(event.PodAdded, arrivals(arena, chance.randint(1, 3))))
        if chance.random() < 0.3:
            arena.let_victims_end()
    one = random_gang(chance, "gang", arena.queue_names[-1])
    members = [arena.pod(NEEDS[0], one.queue, one.priority, one.name) for _ in range(one.min_members)]
    arena.happen(event.GangSet(one), *map(event.PodAdded, members))
    pods = len(arena.story.engine.state.pods.row_by_uid)
    for _ in range(2 * pods):
        arena.let_victims_end()
        arena.happen()
        arena.happen()
        if not arena.ending:
            break
    assert not arena.ending, "they still evict each other"
    assert len(arena.evictions) <= pods * pods
    assert {PodUid(one.uid) for one in arena.evictions}.isdisjoint(arena.story.engine.state.pods.row_by_uid)
