"""What an engine has to be told again of a gang after a restart, and what comes of it."""

from gpufleet.engine.event import GangSet, GangStartRecalled, PodAdded, PodBound, PodRemoved, ViolationFound
from gpufleet.engine.instruction import Bind, GangShortage
from gpufleet.model.identifiers import GangName, NodeName, PodUid
from gpufleet.model.violation import GangIncomplete
from tests.engine.fleet_builder import Story, gang, node, pod, shape

TRAIN = GangName("train")


def of_four(*running: str) -> Story:
    """A gang that needs four members, and has these on a node."""
    told = Story()
    told.nodes(node("n", 8))
    told.happen(GangSet(gang("train", 4)))
    told.happen(*(PodBound(pod(uid, shape(1), gang="train"), NodeName("n")) for uid in running))
    return told


def starts(story: Story, uid: str) -> bool:
    """Whether one more member is bound that has come."""
    said = story.happen(PodAdded(pod(uid, shape(1), gang="train")))
    return any(isinstance(one, Bind) for one in said)


def test_a_member_that_comes_joins_a_gang_that_was_whole_before_a_restart() -> None:
    story = of_four("a", "b")
    assert not starts(story, "c")
    said = story.happen(GangStartRecalled(TRAIN))
    assert [one.uid for one in said if isinstance(one, Bind)] == ["c"]
    assert starts(story, "d")


def test_a_gang_of_which_none_runs_starts_whole_whatever_is_recalled() -> None:
    story = of_four()
    story.happen(GangStartRecalled(TRAIN), GangStartRecalled(GangName("unknown")))
    assert not starts(story, "a")


def test_an_engine_tells_how_a_gang_stands_for_the_one_that_comes_after_it() -> None:
    story = of_four("a", "b", "c", "d")
    assert story.engine.gang_shortage(TRAIN) == GangShortage(0, started=True, since_us=None)
    story.happen(PodRemoved(PodUid("d")))
    assert story.engine.gang_shortage(TRAIN) == GangShortage(1, started=True, since_us=None)
    story.at_us = 10
    story.happen(ViolationFound(GangIncomplete(TRAIN, 4, 3, (), 60_000_000), since_us=5))
    assert story.engine.gang_shortage(TRAIN) == GangShortage(1, started=True, since_us=5)


def test_of_a_gang_without_members_that_run_nothing_is_told() -> None:
    assert of_four().engine.gang_shortage(TRAIN) is None
    assert of_four().engine.gang_shortage(GangName("unknown")) is None
