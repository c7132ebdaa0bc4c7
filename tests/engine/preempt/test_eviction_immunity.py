"""Work that was placed at a queue's cost is not evicted for that queue, until its claim is a new one."""

import pytest

from gpufleet.engine.instruction import Evict
from gpufleet.engine.lifecycle.eviction_immunity import EvictionImmunity
from gpufleet.model.identifiers import PodUid, QueueName
from gpufleet.model.queue import GPU, PreemptionPolicy, Queue, Quota, VictimScope
from tests.engine.fleet_builder import SECOND_US, Story, node, pod, shape

A, B, C = map(QueueName, "abc")
OLD, NEW, NEWER = map(PodUid, ("old", "new", "newer"))


@pytest.fixture
def eviction_immunity() -> EvictionImmunity:
    """Work of b has the place of work of a."""
    found = EvictionImmunity()
    found.take(B, [NEW], {OLD: A})
    return found


def test_the_loser_cannot_have_it_back(eviction_immunity: EvictionImmunity) -> None:
    assert list(eviction_immunity.pods_immune_to(A)) == [NEW]
    assert not eviction_immunity.pods_immune_to(C)


def test_who_takes_it_next_stands_against_both(eviction_immunity: EvictionImmunity) -> None:
    eviction_immunity.take(C, [NEWER], {NEW: B})
    eviction_immunity.leave(NEW, B, ran=True)
    assert eviction_immunity.immune_to(NEWER) == {A, B}
    assert list(eviction_immunity.pods_immune_to(A)) == [NEWER]


def test_who_replaces_it_within_its_queue_stands_against_the_same(
    eviction_immunity: EvictionImmunity,
) -> None:
    eviction_immunity.take(B, [NEWER], {NEW: B})
    assert eviction_immunity.immune_to(NEWER) == {A}


def test_that_the_victim_is_gone_changes_nothing(eviction_immunity: EvictionImmunity) -> None:
    eviction_immunity.leave(OLD, A, ran=True)
    assert eviction_immunity.immune_to(NEW) == {A}


def test_work_that_ended_by_itself_makes_its_queues_claims_new_ones(
    eviction_immunity: EvictionImmunity,
) -> None:
    eviction_immunity.take(C, [NEWER], {NEW: B})
    eviction_immunity.leave(PodUid("done"), A, ran=True)
    assert eviction_immunity.immune_to(NEWER) == {B}
    assert not eviction_immunity.pods_immune_to(A)


def test_work_that_never_ran_is_no_reason(eviction_immunity: EvictionImmunity) -> None:
    eviction_immunity.leave(PodUid("withdrawn"), A, ran=False)
    assert eviction_immunity.immune_to(NEW) == {A}


def test_a_victim_that_stayed_and_ends_later_ends_by_itself(eviction_immunity: EvictionImmunity) -> None:
    eviction_immunity.stays(OLD)
    eviction_immunity.leave(OLD, A, ran=True)
    assert eviction_immunity.immune_to(NEW) == set()


def test_the_next_leader_knows_which_pods_stand_against_which_queues(
    eviction_immunity: EvictionImmunity,
) -> None:
    eviction_immunity.take(C, [NEWER], {NEW: B})
    again = EvictionImmunity()
    again.recall(eviction_immunity.remembered(), ())
    assert {uid: again.immune_to(uid) for uid in (NEW, NEWER)} == {NEW: {A}, NEWER: {A, B}}
    assert again.remembered() == eviction_immunity.remembered()


def test_a_pod_that_left_already_for_an_earlier_leader_does_not_end_by_itself(
    eviction_immunity: EvictionImmunity,
) -> None:
    again = EvictionImmunity()
    again.recall(eviction_immunity.remembered(), [PodUid("leaves")])
    again.leave(PodUid("leaves"), A, ran=True)
    assert again.immune_to(NEW) == {A}
    again.leave(PodUid("done"), A, ran=True)
    assert again.immune_to(NEW) == set()


def test_a_refused_eviction_is_none() -> None:
    story = Story()
    story.nodes(node("n", 1))
    tree = QueueName("all")
    story.queues(
        Queue(tree, quotas=(Quota(GPU, 1000),)),
        Queue(A, parent=tree),
        Queue(B, parent=tree, quotas=(Quota(GPU, 1000),)),
    )
    story.arrive(pod("old", shape(1), queue="a"))
    story.wait_s(1)
    said = story.arrive(pod("new", shape(1), queue="b"))
    assert [one.uid for one in said if isinstance(one, Evict)] == ["old"]
    story.refuse_eviction("old", for_s=3600)
    eviction_immunity = story.engine.state.eviction_immunity
    eviction_immunity.take(B, [PodUid("kept")], {PodUid("other"): A})
    story.depart("old")
    assert eviction_immunity.immune_to(PodUid("kept")) == set(), (
        "work of a ended by itself: its claims are new ones"
    )


def test_when_quotas_are_exchanged_places_are_too() -> None:
    """By hand: b owns both GPUs and takes them from a. When a owns them instead, it takes them back."""
    story = Story()
    story.nodes(node("n", 2))

    def teams(gpus_of_a: int) -> tuple[Queue, ...]:
        eager = PreemptionPolicy(reclaim=VictimScope.ANY)
        owned = {A: 1000 * gpus_of_a, B: 2000 - 1000 * gpus_of_a}
        return tuple(
            Queue(name, parent=QueueName("all"), quotas=(Quota(GPU, milli),), preemption=eager)
            for name, milli in owned.items()
        )

    def arrive_and_evict(queue: str) -> list[str]:
        story.at_us += SECOND_US
        work = [pod(f"{queue}-{story.at_us}-{number}", shape(1), queue=queue) for number in range(2)]
        said = story.arrive(*work)
        evicted = [one.uid for one in said if isinstance(one, Evict)]
        for uid in evicted:
            story.depart(uid)
        return [uid[0] for uid in evicted]

    story.queues(Queue(QueueName("all"), quotas=(Quota(GPU, 2000),)), *teams(0))
    assert arrive_and_evict("a") == []
    assert arrive_and_evict("b") == ["a", "a"]
    assert arrive_and_evict("a") == []
    story.queues(*teams(2))
    assert [one.uid[0] for one in story.said if isinstance(one, Evict)] == ["a", "a", "b", "b"]
