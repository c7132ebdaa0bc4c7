"""Work that waits because what is free lies apart is started by moves, each of which has its place first."""

import pytest

from gpufleet.engine.defragment.replacements import KEPT_FOR_US
from gpufleet.engine.event import (
    DefragmentationSet,
    DisruptionBudgetSet,
    EvictionRefused,
    PodAdded,
    PodRemoved,
)
from gpufleet.engine.instruction import Evict, RequeueAfter, WhyEvicted
from gpufleet.model.defragmentation import DefragmentationRules
from gpufleet.model.disruption_budget import DisruptionBudget
from gpufleet.model.identifiers import PodUid, QueueName
from gpufleet.model.labels import LabelSelector
from gpufleet.model.queue import PreemptionPolicy
from tests.engine.defragment.moving_fleet import MINUTE_US, TO_START, anew, confirm, fleet, moved, runs
from tests.engine.fleet_builder import (
    SECOND_US,
    Story,
    gang,
    members,
    nominated,
    placed,
    pod,
    shape,
    share,
    withdrawn,
)
from tests.engine.queueing.queue_builder import queue, quota


def halves(rules: DefragmentationRules | None = TO_START) -> Story:
    """Two nodes of four GPUs with one pod of two each; a pod of four waits from now on."""
    told = fleet(4, 4, rules=rules)
    runs(told, pod("a", shape(2)), 0, 0, 1)
    runs(told, pod("b", shape(2)), 1, 0, 1)
    told.wait_s(1)
    told.arrive(pod("large", shape(4), created_at_us=told.at_us))
    return told


def test_a_pod_that_has_waited_for_long_is_started_by_a_move() -> None:
    told = halves()
    assert moved(told.said) == {}
    said = told.wait_s(60)
    (victim,) = moved(said)
    other = {"a": "n1", "b": "n0"}[victim]
    assert moved(said) == {victim: ("large", other)}
    assert nominated(said)["large"][1] == (victim,)
    replacement = anew(told, victim)
    assert placed(told.happen(PodRemoved(PodUid(victim)))) == ["large"]
    said = told.arrive(replacement)
    assert placed(said) == [replacement.uid]
    assert told.binds[replacement.uid][0] == other


def test_the_engine_asks_to_be_woken_when_the_time_has_come() -> None:
    told = halves()
    since_us, steps = told.at_us, 0
    while not moved(told.said):
        told.at_us = next(one.at_us for one in reversed(told.said) if isinstance(one, RequeueAfter))
        told.happen()
        steps += 1
    assert told.at_us == since_us + MINUTE_US
    assert steps <= 2


def test_the_pod_that_is_made_instead_has_its_place_although_others_wait_for_room() -> None:
    told = halves()
    (victim,) = moved(told.wait_s(60))
    replacement = anew(told, victim)
    told.arrive(pod("pushy", shape(2), priority=100))
    assert "pushy" not in told.binds, "the room on the other node is kept"
    assert placed(told.arrive(replacement)) == [replacement.uid]
    assert placed(told.depart(victim)) == ["large"]
    assert "pushy" not in told.binds


def test_nobody_is_moved_where_no_rules_are_set() -> None:
    told = halves(rules=None)
    assert moved(told.wait_s(3600)) == {}
    told.happen(DefragmentationSet(TO_START))
    assert moved(told.said)
    told = halves()
    told.happen(DefragmentationSet(None))
    assert moved(told.wait_s(3600)) == {}


def test_a_gang_is_started_by_moves() -> None:
    told = fleet(2, 2, 2, 2)
    for number in range(4):
        runs(told, pod(f"p{number}", shape(1)), number, 0)
    told.gangs(gang("g", 2))
    told.arrive(*members("g", 2, shape(2)))
    said = told.wait_s(60)
    assert len(moved(said)) == 2
    assert {whom for whom, _ in moved(said).values()} == {"g"}
    assert set(nominated(said)) == {"g-0", "g-1"}
    victims = list(moved(said))
    replacements = [anew(told, victim) for victim in victims]
    assert placed(told.depart(*victims)) == ["g-0", "g-1"]
    assert placed(told.arrive(*replacements)) == [one.uid for one in replacements]


def test_a_share_is_moved_to_another_gpu_of_its_node() -> None:
    told = fleet(2)
    runs(told, pod("a", share(500)), 0, 0)
    runs(told, pod("b", share(500)), 0, 1)
    told.arrive(pod("whole", shape(1)))
    said = told.wait_s(60)
    assert set(moved(said).values()) == {("whole", "n0")}


def test_who_lacks_free_gpus_altogether_moves_nobody() -> None:
    told = fleet(4, 4)
    runs(told, pod("a", shape(3)), 0, 0, 1, 2)
    runs(told, pod("b", shape(3)), 1, 0, 1, 2)
    told.arrive(pod("large", shape(4)))
    assert moved(told.wait_s(600)) == {}


@pytest.mark.parametrize("why", ["not preemptible", "no controller", "protected", "young", "another queue's"])
def test_who_may_not_be_moved_stays(why: str) -> None:
    rules = (
        TO_START if why != "another queue's" else DefragmentationRules(MINUTE_US, queues=(QueueName("x"),))
    )
    told = fleet(4, 4, rules=rules)
    told.queue("team", preemption=PreemptionPolicy(reclaim_after_us=3600 * SECOND_US))
    told.queue("default")
    told.queue("x")
    if why == "protected":
        told.happen(DisruptionBudgetSet(DisruptionBudget("keep", "", LabelSelector(), 0)))
    for number in range(2):
        one = pod(
            f"p{number}",
            shape(2),
            preemptible=why != "not preemptible",
            replaceable=why != "no controller",
            queue="team" if why == "young" else "default",
        )
        runs(told, one, number, 0, 1)
    told.arrive(pod("large", shape(4), queue="x"))
    assert moved(told.wait_s(60)) == {}


def test_the_days_budget_is_kept_and_falls_due_again_a_day_later() -> None:
    told = halves(DefragmentationRules(MINUTE_US, moves_a_day=1))
    (victim,) = moved(told.wait_s(60))
    replacement = anew(told, victim)
    confirm(told, told.depart(victim))
    confirm(told, told.arrive(replacement))
    told.depart("large", replacement.uid)
    left = "a" if victim == "b" else "b"
    runs(told, pod("c", shape(2)), 0 if left == "b" else 1, 0, 1)
    told.arrive(pod("again", shape(4), created_at_us=told.at_us))
    assert moved(told.wait_s(3600)) == {}
    assert moved(told.wait_s(24 * 3600))


def test_moves_before_a_restart_count() -> None:
    told = halves(rules=None)
    spent = ((told.at_us, 5),)
    told.happen(DefragmentationSet(DefragmentationRules(MINUTE_US, moves_a_day=1), spent))
    assert moved(told.wait_s(3600)) == {}


def test_no_more_work_is_lost_than_the_budget_allows() -> None:
    # Each has run for a minute and a second on two GPUs: 122 GPU-seconds.
    assert moved(halves(DefragmentationRules(MINUTE_US, lost_a_day=121_999)).wait_s(60)) == {}
    assert moved(halves(DefragmentationRules(MINUTE_US, lost_a_day=122_000)).wait_s(60))


def test_a_refused_eviction_leaves_everybody_where_they_are() -> None:
    told = halves()
    (victim,) = moved(told.wait_s(60))
    said = told.happen(EvictionRefused(PodUid(victim), told.at_us + 3600 * SECOND_US))
    assert withdrawn(said) == ["large"]
    assert victim not in moved(said)
    told.wait_s(20)
    other = {"a": "b", "b": "a"}[victim]
    assert moved(told.said[-20:]).get(other) is not None, "the other one is moved instead"
    assert set(told.engine.state.pods.row_by_uid) == {"a", "b", "large", f"{other}/moved"}


def test_a_place_is_kept_for_a_while_and_no_longer() -> None:
    told = halves()
    (victim,) = moved(told.wait_s(60))
    confirm(told, told.depart(victim))
    told.arrive(pod("other", shape(2), priority=1))
    assert "other" not in told.binds
    said = told.wait_s(KEPT_FOR_US / SECOND_US)
    assert placed(said) == ["other"]


def test_a_pod_of_another_kind_does_not_take_the_place() -> None:
    told = halves()
    (victim,) = moved(told.wait_s(60))
    told.depart(victim)
    told.arrive(pod("stranger", shape(2), labels=(("app", "x"),)))
    assert "stranger" not in told.binds


def test_quota_is_charged_once_when_all_is_done() -> None:
    told = fleet(4, 4)
    told.queues(queue("team", quota("gpu", 4000)), queue("late", quota("gpu", 4000)))
    runs(told, pod("a", shape(2), queue="team"), 0, 0, 1)
    runs(told, pod("b", shape(2), queue="team"), 1, 0, 1)
    told.arrive(pod("large", shape(4), queue="late"))
    (victim,) = moved(told.wait_s(60))
    replacement = anew(told, victim)
    told.arrive(replacement)
    assert replacement.uid not in told.binds, "its quota is still in use by the one that leaves"
    assert set(placed(told.depart(victim))) == {"large", replacement.uid}
    used = {one.queue: one.resources[0].used for one in told.engine.queue_report()}
    assert used == {"team": 4000, "late": 4000}


def test_a_moved_pod_stands_against_whom_it_stood_against() -> None:
    told = halves()
    eviction_immunity = told.engine.state.eviction_immunity
    eviction_immunity.take(
        QueueName("default"), [PodUid("a"), PodUid("b")], {PodUid("gone"): QueueName("poor")}
    )
    (victim,) = moved(told.wait_s(60))
    replacement = anew(told, victim)
    told.happen(PodAdded(replacement))
    told.depart(victim)
    assert eviction_immunity.immune_to(replacement.uid) == {"poor"}


def test_the_reason_and_what_is_lost_are_told() -> None:
    told = halves()
    said = told.wait_s(60)
    (evict,) = [one for one in said if isinstance(one, Evict)]
    assert evict.reason == WhyEvicted.MOVED
    assert evict.moved is not None
    assert evict.moved.lost == 122_000, "two GPUs for a minute and a second, in GPU-milliseconds"


def test_nobody_is_moved_to_a_place_that_another_pod_has_to_leave_first() -> None:
    told = fleet(8, 4, 2, 2)
    runs(told, pod("a", shape(3)), 0, 0, 1, 2)
    runs(told, pod("leaves", shape(4)), 1, 0, 1, 2, 3)
    told.told_to_end("leaves")
    told.arrive(pod("large", shape(8)))
    assert moved(told.wait_s(600)) == {}
    told.depart("leaves")
    told.wait_s(10)
    assert moved(told.said) == {"a": ("large", "n1")}
