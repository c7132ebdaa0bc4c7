"""Gangs: all of the minimum or nobody, in one domain where that is required, and no trace of a no."""

import pytest

from gpufleet.engine.event import GangRemoved, GangSet, NodeSet, PodAdded
from gpufleet.engine.instruction import GangUnschedulable
from gpufleet.model.identifiers import GangName
from gpufleet.model.node import Node
from tests.engine.arrays.test_journal import snapshot
from tests.engine.effort import EFFORT
from tests.engine.fleet_builder import Story, binds, gang, members, node, placed, pod, refused, shape, share


def racks(**gpus_by_rack: int) -> list[Node]:
    """One node a rack, all of one block."""
    return [
        node(f"node-{rack}", gpus, labels={"block": "x", "rack": rack}) for rack, gpus in gpus_by_rack.items()
    ]


def test_a_gang_starts_together_or_not_at_all() -> None:
    told = Story()
    told.nodes(node("n", 3))
    told.gangs(gang("g", 4))
    said = told.arrive(*members("g", 4, shape(1)))
    assert placed(said) == []
    assert refused(said) == ["g"]
    said = told.nodes(node("m", 1))
    assert sorted(placed(said)) == ["g-0", "g-1", "g-2", "g-3"]


def test_a_gang_waits_for_its_members_to_arrive() -> None:
    told = Story()
    told.nodes(node("n", 8))
    told.arrive(*members("g", 2, shape(1)))
    told.gangs(gang("g", 3))
    assert told.binds == {}
    assert len(placed(told.arrive(pod("last", shape(1), gang="g")))) == 3


def test_members_beyond_the_minimum_run_as_room_allows() -> None:
    told = Story()
    told.nodes(node("n", 3))
    told.gangs(gang("g", 2))
    assert placed(told.arrive(*members("g", 5, shape(1)))) == ["g-0", "g-1", "g-2"]
    assert len(placed(told.nodes(node("m", 1)))) == 1
    assert len(placed(told.depart("g-0"))) == 1


def test_a_refusal_tells_how_many_would_fit() -> None:
    told = Story()
    told.nodes(node("n", 3))
    told.gangs(gang("g", 4))
    told.arrive(*members("g", 2, shape(1)))
    said = told.arrive(*(pod(f"more-{number}", shape(1), gang="g") for number in range(3)))
    answers = [one for one in said if isinstance(one, GangUnschedulable)]
    assert [(one.min_members, one.arrived) for one in answers] == [(4, 5)]
    verdict = answers[0].verdict
    assert verdict is not None
    assert verdict.nodes == 1


def test_a_required_level_takes_the_smallest_domain_that_suffices() -> None:
    told = Story()
    told.levels("block", "rack")
    told.nodes(*racks(large=8, small=2, fitting=4))
    told.gangs(gang("g", 3, level="rack"))
    told.arrive(*members("g", 3, shape(1)))
    assert {place for place, _ in told.binds.values()} == {"node-fitting"}


def test_an_elastic_gang_takes_the_smallest_domain_that_holds_the_most_of_it() -> None:
    told = Story()
    told.levels("block", "rack")
    told.nodes(*racks(minimum=2, large=8, all=4))
    told.gangs(gang("g", 2, level="rack"))
    told.arrive(*members("g", 4, shape(1)))
    assert {place for place, _ in told.binds.values()} == {"node-all"}


def test_a_wider_level_may_span_the_racks_of_one_block() -> None:
    told = Story()
    told.levels("block", "rack")
    told.nodes(*racks(a=2, b=2), node("elsewhere", 3, labels={"block": "y", "rack": "c"}))
    told.gangs(gang("racked", 4, level="rack"), gang("blocked", 4, level="block"))
    assert placed(told.arrive(*members("racked", 4, shape(1)))) == []
    told.arrive(*members("blocked", 4, shape(1)))
    assert {place for place, _ in told.binds.values()} == {"node-a", "node-b"}


def test_a_required_level_never_means_the_whole_fleet_when_its_domains_are_gone() -> None:
    told = Story()
    told.levels("rack")
    told.nodes(node("racked", 8, labels={"rack": "a"}), node("loose", 8))
    told.lose("racked")
    told.gangs(gang("g", 1, level="rack"))
    assert placed(told.arrive(*members("g", 3, shape(1)))) == []


def test_an_unknown_level_is_waited_for() -> None:
    told = Story()
    told.nodes(node("n", 8, labels={"rack": "a"}))
    told.gangs(gang("g", 2, level="rack"))
    assert placed(told.arrive(*members("g", 2, shape(1)))) == []
    assert len(placed(told.levels("rack"))) == 2


def test_late_members_join_the_domain_of_their_gang() -> None:
    told = Story()
    told.levels("rack")
    told.nodes(*racks(a=3, b=8))
    told.gangs(gang("g", 3, level="rack"))
    told.arrive(*members("g", 3, shape(1)))
    assert {place for place, _ in told.binds.values()} == {"node-a"}
    assert placed(told.arrive(pod("late", shape(1), gang="g"))) == []
    told.depart("g-0")
    assert told.binds["late"][0] == "node-a"


def test_two_gangs_that_cannot_both_run_do_not_block_each_other() -> None:
    told = Story()
    told.gangs(gang("g", 6), gang("h", 6))
    both = [
        one for pair in zip(members("g", 6, shape(1)), members("h", 6, shape(1)), strict=True) for one in pair
    ]
    told.happen(NodeSet(node("n", 8)), *(PodAdded(one) for one in both))
    assert {uid[0] for uid in told.binds} == {"g"}
    told.depart(*(f"g-{number}" for number in range(6)))
    assert sum(uid.startswith("h") for uid in told.binds) == 6


def test_members_of_several_shapes_are_one_gang() -> None:
    told = Story()
    told.nodes(node("n", 2, cpu_milli=8000))
    told.gangs(gang("g", 3))
    told.arrive(pod("master", shape(cpu_milli=6000), gang="g"), pod("w0", shape(1), gang="g"))
    assert refused(told.arrive(pod("w1", shape(1, cpu_milli=2000), gang="g"))) == ["g"]
    assert sorted(placed(told.nodes(node("m", 0)))) == ["master", "w0", "w1"]


def test_a_large_gang_that_is_refused_leaves_no_trace() -> None:
    told = Story()
    told.nodes(*(node(f"n{number}", 8) for number in range(125)))
    told.gangs(gang("g", 1000))
    # 1,000 GPUs would hold the 999 small members, or the large one and 992 of them: only trying tells.
    state = told.engine.state
    before = snapshot(state.store.tables)
    nodes_before = {field: before[field] for field in ("nodes", "resources_free", "kinds", "devices")}
    said = told.arrive(*members("g", 999, shape(1)), pod("g-large", shape(8), gang="g"))
    assert refused(said) == ["g"]
    assert placed(said) == []
    after = snapshot(state.store.tables)
    assert {field: after[field] for field in nodes_before} == nodes_before
    assert len(placed(told.arrive(*(pod(f"p{number}", shape(8)) for number in range(126))))) == 125


def test_a_gang_whose_members_were_bound_by_others_needs_only_the_rest() -> None:
    told = Story()
    told.nodes(node("n", 4))
    told.gangs(gang("g", 3))
    told.arrive(*members("g", 2, shape(1)))
    said = told.run_on(pod("theirs", shape(1), gang="g"), "n", "n/3")
    assert placed(said) == ["g-0", "g-1"]


def test_a_parked_gang_whose_last_member_was_bound_by_others_is_at_rest() -> None:
    told = Story()
    told.nodes(node("n", 1))
    told.gangs(gang("g", 1))
    told.arrive(*members("g", 2, shape(1)))
    told.run_on(members("g", 2, shape(1))[1], "n", None)
    assert told.nodes(node("m", 1)) == []


def test_a_gang_that_waits_for_members_takes_nobody_else_out_of_line() -> None:
    told = Story()
    told.arrive(pod("first", shape(1)))
    told.gangs(gang("g", 5))
    told.gangs(gang("g", 6))
    told.arrive(*members("g", 1, shape(1)))
    told.depart("g-0")
    assert placed(told.nodes(node("n", 1))) == ["first"]


def that_all_end() -> Story:
    """A gang of three that ran on three GPUs, and that was told to end."""
    told = Story()
    told.nodes(node("n", 3))
    told.gangs(gang("g", 3))
    told.arrive(*members("g", 3, shape(1)))
    told.told_to_end("g-0", "g-1", "g-2")
    return told


def test_a_gang_of_which_every_member_ends_begins_anew_before_they_are_gone() -> None:
    told = that_all_end()
    told.arrive(pod("again-0", shape(1), gang="g"), pod("again-1", shape(1), gang="g"))
    assert placed(told.depart("g-0")) == []
    assert placed(told.depart("g-1")) == []
    said = told.arrive(pod("again-2", shape(1), gang="g"))
    assert (placed(said), refused(said)) == ([], ["g"])
    assert placed(told.depart("g-2")) == ["again-0", "again-1", "again-2"]


def test_the_places_of_a_gang_that_ends_go_to_work_that_can_run() -> None:
    told = that_all_end()
    told.arrive(pod("again", shape(1), gang="g"), pod("late", shape(1), created_at_us=5))
    assert placed(told.depart("g-0")) == ["late"]


def test_a_gang_whose_members_do_not_end_after_all_is_joined_as_before() -> None:
    told = that_all_end()
    told.arrive(pod("again", shape(1), gang="g"))
    told.happen(*(PodAdded(one) for one in members("g", 3, shape(1))))
    assert placed(told.depart("g-0", "g-1")) == ["again"]


def test_a_member_that_ends_is_replaced_before_later_work_gets_its_room() -> None:
    told = Story()
    told.nodes(node("n", 2))
    told.gangs(gang("g", 2))
    told.arrive(*members("g", 2, shape(1)))
    told.told_to_end("g-0")
    told.arrive(pod("late", shape(1), created_at_us=5), pod("again", shape(1), gang="g"))
    assert placed(told.depart("g-0")) == ["again"]


def test_a_gang_that_nobody_described_waits_until_somebody_does() -> None:
    told = Story()
    told.nodes(node("n", 8))
    told.arrive(*members("g", 2, shape(1)))
    told.gangs(gang("g", 2))
    assert len(told.binds) == 2
    told.happen(GangRemoved(GangName("g")))
    assert placed(told.arrive(pod("late", shape(1), gang="g"))) == []
    assert placed(told.happen(GangSet(gang("g", 2)))) == ["late"]


@pytest.mark.parametrize("count", [40 * EFFORT])
def test_shares_of_a_gang_pack_the_gpus_they_start_on(count: int) -> None:
    told = Story()
    told.nodes(node("n", 8, pods=1000), node("m", 8, pods=1000))
    told.gangs(gang("g", min(count, 64)))
    said = told.arrive(*members("g", min(count, 64), share(250, cpu_milli=1)))
    used = {device for _, devices in binds(said).values() for device in devices}
    assert len(used) == min(count, 64) // 4


def test_a_gang_that_lacks_members_says_so_once() -> None:
    told = Story()
    told.nodes(node("n", 8))
    told.gangs(gang("g", 3))
    (said,) = told.arrive(*members("g", 1, shape(1)))
    assert said == GangUnschedulable(GangName("g"), min_members=3, arrived=1, placeable=0, verdict=None)
    assert told.arrive(pod("second", shape(1), gang="g")) == []
