"""The plan of a drain: what waits, what moves where, in which order of nodes, and what that costs."""

import msgspec
import pytest

from gpufleet.drain.plan import Way
from gpufleet.drain.planner import plan_drain
from tests.drain.drain_builder import HOUR_S, HOUR_US, NOW_US, Fleet, of, targets


def order(fleet: Fleet, **rules: int | None) -> list[str]:
    """The nodes in the order in which they are drained."""
    return [one.node for one in fleet.plan(**rules).nodes]


def test_work_moves_to_a_node_that_is_not_drained() -> None:
    fleet = Fleet(3)
    fleet.run("train", 0, gpus=4)
    planned = of(fleet.plan(0), "train")
    assert planned.way is Way.MOVES
    assert targets(planned) in (["n1"], ["n2"])
    assert planned.lost_gpu_hours == pytest.approx(40)


def test_a_gang_moves_whole_and_ranks_on_other_nodes_stay_where_they_are() -> None:
    fleet = Fleet(3)
    fleet.run("train", 0, 1, gpus=4)
    planned = of(fleet.plan(0), "train")
    assert [(move.source, move.target) for move in planned.moves] == [("n0", "n2"), ("n1", "n1")]


def test_an_end_before_the_deadline_is_waited_for() -> None:
    fleet = Fleet(2)
    fleet.run("ends", 0, ends_at_us=NOW_US + HOUR_US)
    plan = fleet.plan(0, deadline_s=HOUR_S)
    planned = of(plan, "ends")
    assert (planned.way, planned.at_s, planned.lost_gpu_hours) == (Way.WAITS, HOUR_S, 0)
    # Three of the four GPUs of the node are free for that hour.
    (node,) = plan.nodes
    assert node.empty_at_s == HOUR_S
    assert node.lost_gpu_hours.idle == pytest.approx(3)


def test_each_closed_node_has_its_own_deadline() -> None:
    """Both end after 30 minutes: n0 is to be empty after 20 minutes, n1 after an hour."""
    fleet = Fleet(4)
    for number in (0, 1):
        fleet.run(f"w{number}", number, ends_at_us=NOW_US + HOUR_US // 2)
    question = fleet.question(0, 1, nodes_at_once=2)
    untils_us = (NOW_US + HOUR_US // 3, NOW_US + HOUR_US)
    nodes = tuple(
        msgspec.structs.replace(one, until_us=until_us)
        for one, until_us in zip(question.nodes, untils_us, strict=True)
    )
    with fleet.story.engine.relocating() as places:
        plan = plan_drain(msgspec.structs.replace(question, nodes=nodes), places)
    assert (of(plan, "w0").way, of(plan, "w1").way) == (Way.MOVES, Way.WAITS)


def test_an_end_after_the_deadline_is_not_waited_for() -> None:
    fleet = Fleet(2)
    fleet.run("ends", 0, ends_at_us=NOW_US + HOUR_US + 1)
    assert of(fleet.plan(0, deadline_s=HOUR_S), "ends").way is Way.MOVES


def test_work_without_a_place_waits_until_the_end_of_others_makes_one() -> None:
    fleet = Fleet(2)
    fleet.run("train", 0, gpus=4)
    fleet.run("short", 1, gpus=4, ends_at_us=NOW_US + HOUR_US // 2)
    plan = fleet.plan(0, deadline_s=HOUR_S)
    planned = of(plan, "train")
    assert (planned.way, planned.at_s, targets(planned)) == (Way.MOVES, HOUR_S / 2, ["n1"])
    assert plan.short is None


def test_what_fits_nowhere_is_told_with_its_gpus_and_for_how_long() -> None:
    fleet = Fleet(2)
    fleet.run("train", 0, gpus=4)
    fleet.run("long", 1, gpus=4, ends_at_us=NOW_US + 3 * HOUR_US)
    plan = fleet.plan(0, deadline_s=HOUR_S)
    assert of(plan, "train").way is Way.NO_PLACE
    assert plan.short is not None
    assert (plan.short.gpus, plan.short.longest_s) == (4, 2 * HOUR_S)
    (node,) = plan.nodes
    assert node.empty_at_s is None


def test_a_shortage_lasts_until_the_node_is_back_at_most() -> None:
    fleet = Fleet(2)
    fleet.run("train", 0, gpus=4)
    fleet.run("long", 1, gpus=4)
    assert fleet.plan(0).short is not None
    unknown, known = fleet.plan(0).short, fleet.plan(0, away_s=600).short
    assert unknown is not None
    assert unknown.longest_s is None
    assert known is not None
    assert known.longest_s == 600


def test_what_no_controller_makes_anew_stays() -> None:
    fleet = Fleet(2)
    fleet.run("bare", 0, stays="no controller makes it anew")
    plan = fleet.plan(0)
    assert (of(plan, "bare").way, of(plan, "bare").why) == (Way.STAYS, "no controller makes it anew")
    assert plan.short is None


def test_work_that_saves_on_request_is_asked_and_loses_nothing() -> None:
    fleet = Fleet(2)
    fleet.run("train", 0, gpus=4, saves_on_request=True)
    planned = of(fleet.plan(0), "train")
    assert (planned.is_asked_to_save, planned.lost_gpu_hours) == (True, 0)


def test_work_of_another_scheduler_is_evicted_and_no_place_is_sought() -> None:
    fleet = Fleet(1)
    fleet.run("theirs", 0, is_placed_by_others=True)
    planned = of(fleet.plan(0), "theirs")
    assert planned.way is Way.EVICTED
    assert targets(planned) == [""]


def test_nodes_without_work_are_first_and_those_that_lose_most_last() -> None:
    fleet = Fleet(4)
    fleet.run("much", 0, gpus=4)
    fleet.run("little", 1, gpus=1)
    assert order(fleet) == ["n2", "n3", "n1", "n0"]


def test_work_that_outlasts_the_drain_moves_as_soon_as_there_are_places_that_last() -> None:
    fleet = Fleet(5)
    fleet.run("old", 0, gpus=4)
    fleet.run("young", 1, gpus=4, ran_h=0.01)
    assert order(fleet, away_s=300)[:3] == ["n2", "n0", "n3"]


def test_work_whose_end_is_known_to_come_during_the_drain_is_left_to_end() -> None:
    fleet = Fleet(4)
    fleet.run("ends", 0, gpus=4, ends_at_us=NOW_US + HOUR_US // 2)
    plan = fleet.plan(away_s=600, deadline_s=60)
    assert plan.nodes[-1].node == "n0"
    assert plan.work == ()


def test_all_nodes_are_drained_and_a_gang_over_several_of_them_moves_once() -> None:
    fleet = Fleet(5)
    fleet.run("train", 0, 1, gpus=4)
    fleet.run("other", 2, gpus=2)
    plan = fleet.plan(away_s=600)
    planned = of(plan, "train")
    assert len(plan.nodes) == 5
    assert not planned.again
    done = [one.node for one in plan.nodes[:3]]
    assert set(targets(planned)) <= set(done)


def test_work_that_can_only_go_to_a_node_that_is_drained_later_is_said_to_move_again() -> None:
    fleet = Fleet(2)
    fleet.run("train", 0, gpus=2)
    fleet.run("other", 1, gpus=2, ran_h=20)
    first = fleet.plan(away_s=600)
    assert any(one.again for one in first.work)


def test_a_node_that_does_not_come_back_takes_no_moved_work() -> None:
    fleet = Fleet(3)
    fleet.run("train", 0, gpus=4)
    fleet.run("other", 1, gpus=4, ran_h=20)
    plan = fleet.plan(0, 1)
    assert {one.way for one in plan.work} == {Way.MOVES, Way.NO_PLACE}
    assert plan.short is not None
    assert plan.short.gpus == 4


def test_nodes_at_once_are_one_wave() -> None:
    fleet = Fleet(3)
    plan = fleet.plan(nodes_at_once=2, away_s=600)
    assert [(one.wave, one.closed_at_s) for one in plan.nodes] == [(1, 0), (1, 0), (2, 600)]


def test_losses_are_told_by_node_and_reason() -> None:
    fleet = Fleet(3)
    fleet.run("train", 0, 1, gpus=4, ran_h=1)
    plan = fleet.plan(0, away_s=HOUR_S)
    (node,) = plan.nodes
    # The gang runs on one more node that is not drained, and ends for the sake of this one.
    assert node.lost_gpu_hours.evicted == pytest.approx(8)
    assert node.lost_gpu_hours.away == pytest.approx(4)
    assert plan.lost_gpu_hours == node.lost_gpu_hours
