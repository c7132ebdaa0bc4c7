"""Nodes are emptied: what was asked to move is told to end when its place is kept, a gang whole."""

from gpufleet.engine.event import DisruptionBudgetSet, EvictionRefused, MoveAsked, NodeSet, PodRemoved
from gpufleet.engine.instruction import AnyInstruction, Evict, WhyEvicted
from gpufleet.model.disruption_budget import DisruptionBudget
from gpufleet.model.identifiers import NodeName, PodUid
from gpufleet.model.labels import LabelSelector
from gpufleet.model.pod import Pod
from tests.engine.defragment.moving_fleet import anew, confirm, fleet, runs
from tests.engine.fleet_builder import SECOND_US, Story, gang, members, node, placed, pod, shape


def ask(told: Story, **targets: str | None) -> list[AnyInstruction]:
    """These pods are to go to these nodes."""
    return told.happen(
        *(MoveAsked(PodUid(uid), None if name is None else NodeName(name)) for uid, name in targets.items())
    )


def drained(said: list[AnyInstruction]) -> dict[str, str]:
    """Who is told to end because its node is emptied, and to which node it goes."""
    return {
        one.uid: one.moved.node
        for one in said
        if isinstance(one, Evict) and one.reason == WhyEvicted.DRAINED and one.moved is not None
    }


def two_ranks(*gpus: int) -> Story:
    """A gang of two pods of four GPUs each on the first two nodes."""
    told = fleet(*gpus, rules=None)
    told.gangs(gang("train", 2))
    ranks = members("train", 2, shape(4))
    runs(told, ranks[0], 0, 0, 1, 2, 3)
    runs(told, ranks[1], 1, 0, 1, 2, 3)
    return told


def closed(name: str) -> NodeSet:
    """A node of four GPUs takes nothing new."""
    return NodeSet(node(name, 4, cordoned=True))


def other(uid: str) -> Pod:
    """A pod of four GPUs that no controller of a moved one makes."""
    return pod(uid, shape(4), labels=(("app", uid),))


def uids(told: Story) -> list[str]:
    """The ranks of the gang that run."""
    return [str(uid) for uid in told.engine.state.pods.row_by_uid]


def test_a_pod_goes_to_the_node_that_is_named() -> None:
    told = fleet(4, 4, 4, rules=None)
    runs(told, pod("a", shape(2)), 0, 0, 1)
    assert drained(ask(told, a="n2")) == {"a": "n2"}


def test_its_place_is_kept_from_others_until_it_has_come() -> None:
    told = fleet(4, 4, rules=None)
    runs(told, pod("a", shape(4)), 0, 0, 1, 2, 3)
    replacement = anew(told, "a")
    ask(told, a="n1")
    told.happen(closed("n0"))
    assert placed(told.arrive(other("greedy"))) == []
    told.happen(PodRemoved(PodUid("a")))
    said = told.arrive(replacement)
    assert placed(said) == [replacement.uid]
    assert told.binds[replacement.uid][0] == "n1"


def test_a_gang_is_told_to_end_whole_and_only_when_all_of_it_was_asked_for() -> None:
    told = two_ranks(4, 4, 4, 4)
    first, second = uids(told)
    assert drained(ask(told, **{first: "n2"})) == {}
    assert drained(ask(told, **{second: "n3"})) == {first: "n2", second: "n3"}


def test_a_gang_stays_where_one_of_it_has_no_place() -> None:
    told = two_ranks(4, 4, 4)
    first, second = uids(told)
    assert drained(ask(told, **{first: "n2", second: "n2"})) == {}


def test_a_rank_may_come_back_to_the_node_that_it_had() -> None:
    told = two_ranks(4, 4, 4)
    first, second = uids(told)
    again = [anew(told, first), anew(told, second)]
    assert drained(ask(told, **{first: "n2", second: "n1"})) == {first: "n2", second: "n1"}
    told.happen(PodRemoved(PodUid(first)), PodRemoved(PodUid(second)))
    said = told.arrive(*again)
    assert sorted(placed(said)) == sorted(one.uid for one in again)
    confirm(told, said)
    assert {told.binds[one.uid][0] for one in again} == {"n1", "n2"}


def test_ranks_that_come_before_the_old_ones_are_gone_start_when_they_are() -> None:
    told = two_ranks(4, 4, 4)
    first, second = uids(told)
    again = [anew(told, first), anew(told, second)]
    ask(told, **{first: "n2", second: "n1"})
    told.happen(closed("n0"))
    told.told_to_end(first, second)
    assert placed(told.arrive(*again)) == [f"{first}+"]
    assert placed(told.arrive(other("greedy"))) == []
    assert placed(told.happen(PodRemoved(PodUid(first)), PodRemoved(PodUid(second)))) == [f"{second}+"]
    assert told.binds[f"{second}+"][0] == "n1"


def test_a_gang_that_moved_is_in_the_places_that_were_kept() -> None:
    told = two_ranks(4, 4, 4, 4, 4)
    first, second = uids(told)
    again = [anew(told, first), anew(told, second)]
    ask(told, **{first: "n3", second: "n4"})
    told.happen(closed("n0"), closed("n1"))
    assert placed(told.arrive(other("greedy"))) == ["greedy"]
    assert placed(told.arrive(other("late"))) == []
    told.happen(PodRemoved(PodUid(first)), PodRemoved(PodUid(second)))
    assert sorted(placed(told.arrive(*again))) == sorted(one.uid for one in again)
    assert {told.binds[one.uid][0] for one in again} == {"n3", "n4"}


def test_what_was_asked_for_waits_until_there_is_room() -> None:
    told = fleet(4, 4, rules=None)
    runs(told, pod("a", shape(4)), 0, 0, 1, 2, 3)
    runs(told, pod("b", shape(4)), 1, 0, 1, 2, 3)
    assert drained(ask(told, a="n1")) == {}
    assert drained(told.happen(PodRemoved(PodUid("b")))) == {"a": "n1"}


def test_what_is_not_asked_for_any_more_stays() -> None:
    told = fleet(4, 4, rules=None)
    runs(told, pod("a", shape(4)), 0, 0, 1, 2, 3)
    runs(told, pod("b", shape(4)), 1, 0, 1, 2, 3)
    ask(told, a="n1")
    ask(told, a=None)
    assert drained(told.happen(PodRemoved(PodUid("b")))) == {}


def test_nobody_is_told_to_end_against_a_disruption_budget() -> None:
    told = two_ranks(4, 4, 4, 4)
    first, second = uids(told)
    told.happen(DisruptionBudgetSet(DisruptionBudget("keep", "", LabelSelector(), 1)))
    assert drained(ask(told, **{first: "n2", second: "n3"})) == {}
    said = told.happen(DisruptionBudgetSet(DisruptionBudget("keep", "", LabelSelector(), 2)))
    assert drained(said) == {first: "n2", second: "n3"}


def test_a_refused_eviction_gives_the_place_up_and_is_asked_for_again() -> None:
    told = fleet(4, 4, rules=None)
    runs(told, pod("a", shape(4)), 0, 0, 1, 2, 3)
    ask(told, a="n1")
    told.happen(EvictionRefused(PodUid("a"), told.at_us + 10 * SECOND_US))
    assert placed(told.arrive(other("next"))) == ["next"]


def test_a_pod_that_no_controller_makes_anew_stays() -> None:
    told = fleet(4, 4, rules=None)
    runs(told, pod("a", shape(4), replaceable=False), 0, 0, 1, 2, 3)
    assert drained(ask(told, a="n1")) == {}
