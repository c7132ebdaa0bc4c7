"""A backlog that comes at once is learned from before any of it is placed."""

from gpufleet.engine.event import DecisionsDeferred, NodeSet, PodAdded
from gpufleet.engine.instruction import Learn
from gpufleet.model.pod import Pod
from tests.engine.fleet_builder import Story, gang, members, node, pod, shape

LEAN = shape(1, cpu_milli=2000)
RICH = shape(1, cpu_milli=8000)


def backlog(lean: int, rich: int) -> list[Pod]:
    """Pods of one GPU, those that want few cores first."""
    few = [pod(f"lean-{number}", LEAN) for number in range(lean)]
    return few + [pod(f"rich-{number}", RICH) for number in range(rich)]


def fleet(policy: str = "gpufleet") -> Story:
    """Eight GPUs with many cores, and eight with few."""
    story = Story(policy)
    story.nodes(node("many", 8, cpu_milli=64_000), node("few", 8, cpu_milli=16_000))
    return story


def test_nothing_is_decided_until_the_valuation_comes() -> None:
    story = fleet()
    said = story.happen(*map(PodAdded, backlog(8, 8)), DecisionsDeferred())
    assert said == [Learn()]
    story.happen(story.engine.study())
    # 8 x 2 cores fill the one node and 8 x 8 cores the other, and in no other way do all of them fit.
    assert {uid: where for uid, (where, _) in story.binds.items()} == {
        **{f"lean-{number}": "few" for number in range(8)},
        **{f"rich-{number}": "many" for number in range(8)},
    }


def test_gangs_and_a_single_pod_that_came_last_wait_too() -> None:
    story = fleet()
    alone = backlog(0, 1)
    events = [PodAdded(one) for one in members("gang", 4, LEAN) + alone]
    assert story.happen(*events, DecisionsDeferred()) == [Learn()]
    assert not story.binds
    story.gangs(gang("gang", 4))
    assert len(story.binds) == 5


def test_a_valuation_is_asked_for_though_nothing_new_came() -> None:
    story = fleet()
    story.happen(*map(PodAdded, backlog(1, 0)))
    assert story.happen(*map(PodAdded, backlog(1, 0)), DecisionsDeferred()) == [Learn()]
    assert Learn() not in story.happen(story.engine.study())


def test_sixteen_pods_that_are_as_many_as_came_before_are_learned_from_first() -> None:
    story = fleet()
    learns_first = story.engine.learns_first
    assert not learns_first(map(PodAdded, backlog(8, 7)))
    assert not learns_first([NodeSet(node(f"node-{number}")) for number in range(16)])
    assert learns_first(map(PodAdded, backlog(8, 8)))
    story.happen(*map(PodAdded, backlog(17, 0)))
    assert not learns_first(map(PodAdded, backlog(8, 8)))
    assert learns_first(map(PodAdded, backlog(8, 9)))


def test_a_policy_that_learns_nothing_decides_at_once() -> None:
    assert not fleet("best-fit").engine.learns_first(map(PodAdded, backlog(8, 8)))
