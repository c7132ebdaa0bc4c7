"""A pod for which room was made on a node goes there before others; room that is not there helps none."""

from gpufleet.engine.event import NodeSet, RoomMade
from gpufleet.model.identifiers import NodeName, PodUid
from tests.engine.fleet_builder import Story, gang, members, node, placed, pod, shape

PART = "nvidia.com/mig-2g.20gb"
ONE = shape(other=((PART, 1),))


def with_parts(count: int, name: str = "n") -> NodeSet:
    return NodeSet(node(name, other=((PART, count),)))


def for_pod(uid: str, name: str = "n") -> RoomMade:
    return RoomMade(PodUid(uid), NodeName(name))


def waiting() -> Story:
    """Two pods that wait for an instance; the first one is the less urgent."""
    story = Story()
    story.happen(with_parts(0))
    story.arrive(pod("patient", ONE))
    story.arrive(pod("urgent", ONE, priority=5))
    return story


def test_without_a_word_the_more_urgent_pod_takes_what_is_new() -> None:
    assert placed(waiting().happen(with_parts(1))) == ["urgent"]


def test_the_pod_for_which_room_was_made_goes_before_more_urgent_ones() -> None:
    story = waiting()
    assert placed(story.happen(with_parts(1), for_pod("patient"))) == ["patient"]
    assert placed(story.happen(with_parts(2))) == ["urgent"]


def test_room_that_is_not_there_is_kept_for_none() -> None:
    story = waiting()
    assert placed(story.happen(for_pod("patient"))) == []
    assert placed(story.happen(with_parts(1))) == ["urgent"]


def test_a_word_of_what_is_unknown_or_needs_more_changes_nothing() -> None:
    story = waiting()
    story.gangs(gang("g", 2))
    story.arrive(*members("g", 2, ONE), pod("card", shape(1)))
    words = (for_pod("gone"), for_pod("patient", "gone"), for_pod("g-0"), for_pod("card"))
    assert placed(story.happen(*words)) == []
    assert placed(story.happen(with_parts(1), *words)) == ["urgent"]
    assert placed(story.happen(for_pod("urgent"))) == []
