"""The line of a gang: enough members at once, then those beyond the minimum, behind other work."""

from gpufleet.engine.instruction import GangUnschedulable
from tests.engine.fleet_builder import Story, gang, members, node, placed, pod, refused, shape


def test_a_gang_starts_whole_or_not_at_all() -> None:
    told = Story()
    told.nodes(node("n", 3))
    told.gangs(gang("train", 4))
    said = told.arrive(*members("train", 4, shape(1)))
    assert placed(said) == []
    assert refused(said) == ["train"]
    assert sorted(placed(told.nodes(node("m", 1)))) == ["train-0", "train-1", "train-2", "train-3"]


def test_a_gang_says_how_many_members_would_have_a_place() -> None:
    told = Story()
    told.nodes(node("n", 3))
    told.gangs(gang("train", 4))
    said = told.arrive(*members("train", 4, shape(1)))
    assert [one.placeable for one in said if isinstance(one, GangUnschedulable)] == [3]


def test_a_gang_whose_members_have_not_come_waits_and_starts_with_the_last() -> None:
    told = Story()
    told.nodes(node("n", 4))
    told.gangs(gang("train", 3))
    first, second, third = members("train", 3, shape(1))
    assert placed(told.arrive(first, second)) == []
    assert sorted(placed(told.arrive(third))) == ["train-0", "train-1", "train-2"]


def test_members_beyond_the_minimum_start_after_other_work_has_had_its_turn() -> None:
    """Four GPUs: the minimum of two, then the pod that waited behind, then one member more."""
    told = Story()
    told.gangs(gang("grows", 2))
    told.arrive(*members("grows", 4, shape(1)), pod("other", shape(1), created_at_us=5))
    said = told.nodes(node("n", 4))
    assert sorted(placed(said)) == ["grows-0", "grows-1", "grows-2", "other"]
    assert placed(told.nodes(node("m", 1))) == ["grows-3"]


def test_a_gang_that_does_not_fit_keeps_no_smaller_work_waiting() -> None:
    told = Story()
    told.nodes(node("n", 2))
    told.gangs(gang("train", 4))
    assert placed(told.arrive(*members("train", 4, shape(1)), pod("small", shape(1)))) == ["small"]
