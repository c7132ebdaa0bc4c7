"""Gangs that start with a minimum: minimums go before growth, growth stays near, and shrinking stops."""

import msgspec

from gpufleet.model.identifiers import GangName, PodUid
from gpufleet.model.queue import PreemptionPolicy
from tests.engine.fleet_builder import SECOND_US, Story, evicted, gang, members, node, placed, pod, shape
from tests.engine.queueing.queue_builder import queue, quota


def count(told: Story, name: str) -> int:
    """How many members of a gang were given a place."""
    return sum(uid.startswith(f"{name}-") for uid in told.binds)


def test_every_minimum_comes_before_the_growth_of_any() -> None:
    told = Story()
    told.nodes(node("n", 7))
    told.gangs(gang("a", 2), gang("b", 2), gang("c", 2))
    told.arrive(*(one for name in "abc" for one in members(name, 6, shape(1))))
    assert [count(told, name) for name in "abc"] == [3, 2, 2]


def test_a_gang_alone_takes_all_it_can_in_one_step() -> None:
    told = Story()
    told.nodes(node("n", 5))
    told.gangs(gang("a", 2))
    told.arrive(*members("a", 6, shape(1)))
    assert count(told, "a") == 5


def test_freed_room_goes_to_work_that_came_later_before_it_goes_to_growth() -> None:
    told = Story()
    told.nodes(node("n", 3))
    told.gangs(gang("a", 2))
    told.arrive(pod("first", shape(1)), *members("a", 4, shape(1)))
    told.arrive(pod("late", shape(1), created_at_us=5))
    assert placed(told.depart("first")) == ["late"]
    assert placed(told.depart("late")) == ["a-2"]


def test_a_gang_that_lost_a_member_has_the_turn_of_its_age_again() -> None:
    told = Story()
    told.nodes(node("n", 2))
    told.gangs(gang("a", 2))
    told.arrive(*members("a", 4, shape(1)))
    told.arrive(pod("late", shape(1), created_at_us=5))
    assert placed(told.depart("a-0")) == ["a-2"]


def test_higher_priority_grows_before_lower_priority_starts() -> None:
    told = Story()
    told.nodes(node("n", 4))
    told.gangs(gang("a", 2, priority=1))
    told.arrive(*members("a", 3, shape(1)), pod("low", shape(1)), pod("lower", shape(1)))
    assert count(told, "a") == 3
    assert "lower" not in told.binds


def test_growth_stays_in_the_domain_that_is_preferred_while_that_has_room() -> None:
    told = Story()
    told.levels("rack")
    told.nodes(*(node(f"n-{rack}", 4, labels={"rack": rack}) for rack in "abc"))
    told.gangs(gang("g", 2, preferred="rack"), gang("other", 4, preferred="rack"))
    told.arrive(*members("g", 4, shape(1)), *members("other", 4, shape(1)))
    racks = {told.binds[f"g-{number}"][0] for number in range(4)}
    assert len(racks) == 1


def test_growth_of_one_queue_does_not_go_before_what_another_is_owed() -> None:
    told = Story()
    told.queues(queue("root", quota("gpu", 8000)))
    told.queues(*(queue(name, quota("gpu", 4000), parent="root") for name in "xy"))
    told.nodes(node("n", 8))
    told.gangs(gang("a", 2, queue="x"), gang("b", 4, queue="y"))
    told.arrive(*members("a", 8, shape(1)), *members("b", 4, shape(1)))
    assert (count(told, "a"), count(told, "b")) == (4, 4)


def test_growth_that_waits_while_the_minimum_has_places_in_prospect_is_told_its_own_reason() -> None:
    told = Story()
    told.queues(queue("root"))
    told.queues(*(queue(name, quota("gpu", own), parent="root") for name, own in (("a", 3000), ("b", 1000))))
    told.nodes(node("n", 4))
    told.arrive(*(pod(f"b-{number}", shape(1), queue="b") for number in range(4)))
    told.gangs(gang("g", 2, queue="a"))
    said = told.arrive(*members("g", 4, shape(1)))
    assert len(evicted(said)) == 2
    causes = [told.engine.cause(PodUid(f"g-{number}")) for number in range(4)]
    # Two of b are leaving, so the queue has what the minimum needs, and no more.
    assert sorted(causes) == ["nominated", "nominated", "queue-quota", "queue-quota"]
    refused = told.engine.explain_gang(GangName("g"))
    assert refused is not None
    assert (refused.placeable, refused.arrived, refused.verdict is None) == (2, 4, False)


def test_with_elastic_after_only_the_minimum_is_protected_by_minimum_run_times() -> None:
    told = Story()
    young = PreemptionPolicy(preempt_after_us=600 * SECOND_US, elastic_after_us=0)
    own = msgspec.structs.replace(queue("a", quota("gpu", 4000), reserve_after_s=None), preemption=young)
    told.queues(own)
    told.nodes(node("n", 4))
    told.gangs(gang("g", 3, queue="a"))
    told.arrive(*members("g", 4, shape(1)))
    told.at_us = SECOND_US
    said = told.arrive(*(pod(name, shape(1), queue="a", priority=1) for name in ("first", "second")))
    assert list(evicted(said).values()) == ["first"]


def test_growth_may_be_protected_for_longer_than_the_gang() -> None:
    told = Story()
    policy = PreemptionPolicy(elastic_after_us=600 * SECOND_US)
    own = msgspec.structs.replace(queue("a", quota("gpu", 4000), reserve_after_s=None), preemption=policy)
    told.queues(own)
    told.nodes(node("n", 4))
    told.gangs(gang("g", 3, queue="a"))
    told.arrive(*members("g", 4, shape(1)))
    told.at_us = SECOND_US
    said = told.arrive(pod("first", shape(1), queue="a", priority=1))
    assert len(evicted(said)) == 4
