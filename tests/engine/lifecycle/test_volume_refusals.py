"""A node on which no volume could be made for a pod's claim is left out for that pod, for a minute."""

from collections.abc import Iterable

from gpufleet.engine.event import BindRefused, PodAdded, VolumeRefused
from gpufleet.engine.instruction import AnyInstruction, VolumeNodesLeftOut
from gpufleet.model.identifiers import NodeName, PodUid
from gpufleet.model.labels import NodeAffinity
from gpufleet.model.pod import Pod
from tests.engine.fleet_builder import Story, node, placed, pod
from tests.engine.relation_builder import asking, claim, place_of

S = 1_000_000
CLAIM = "default/data"


def with_claim(uid: str = "p") -> Pod:
    """A pod with a claim for which a volume can be made on any node."""
    return pod(uid, asking(unbound=(claim(CLAIM, provision=(NodeAffinity(),)),)))


def refused(name: str, *, until_us: int | None = None) -> VolumeRefused:
    return VolumeRefused(PodUid("p"), CLAIM, NodeName(name), until_us)


def left_out(said: Iterable[AnyInstruction]) -> list[list[tuple[str, int]]]:
    """The nodes that are left out, and until when, each time that this is told."""
    told = (one.refused for one in said if isinstance(one, VolumeNodesLeftOut))
    return [[(node, until_us) for _, node, until_us in refused] for refused in told]


def one_after_another() -> tuple[Story, str]:
    """A pod that was bound to a node on which no volume could be made; the other node."""
    story = Story()
    story.nodes(node("a"), node("b"))
    story.arrive(with_claim())
    first = place_of(story, "p")
    said = story.happen(BindRefused(PodUid("p")), refused(first))
    assert left_out(said) == [[(first, 60 * S)]]
    return story, "b" if first == "a" else "a"


def test_the_next_choice_is_another_node() -> None:
    story, other = one_after_another()
    assert placed(story.wait_s(1)) == ["p"]
    assert place_of(story, "p") == other


def test_where_no_node_is_left_the_pod_waits_for_a_minute_and_says_so() -> None:
    story, other = one_after_another()
    story.wait_s(1)
    story.happen(BindRefused(PodUid("p")), refused(other))
    assert placed(story.wait_s(30)) == []
    assert story.explain("p") == {"volume-affinity": 2}
    said = story.wait_s(29)
    assert placed(said) == ["p"], "the first node may be tried again"
    assert left_out(said) == [[(other, 61 * S)]]


def test_a_pod_that_is_described_anew_meanwhile_leaves_the_node_out_as_before() -> None:
    story, other = one_after_another()
    story.lose(other)
    story.happen(PodAdded(with_claim()))
    assert placed(story.wait_s(30)) == []
    assert story.explain("p") == {"volume-affinity": 1}


def test_other_pods_go_where_they_like() -> None:
    story, other = one_after_another()
    story.lose(other)
    assert placed(story.arrive(pod("q", asking()))) == ["q"]


def test_a_pod_that_runs_leaves_out_no_node_any_more() -> None:
    story, other = one_after_another()
    said = story.run_on(with_claim(), other)
    assert left_out(said) == [[]]


def test_a_new_engine_leaves_the_node_out_for_what_is_left_of_the_minute() -> None:
    story = Story()
    story.at_us = 40 * S
    said = story.happen(refused("a", until_us=60 * S))
    assert left_out(said) == [], "it is written down already"
    story.nodes(node("a"))
    assert placed(story.arrive(with_claim())) == []
    assert placed(story.wait_s(20)) == ["p"]


def test_what_is_written_down_counts_for_a_minute_at_most() -> None:
    story = Story()
    story.happen(refused("a", until_us=10**17))
    story.nodes(node("a"))
    assert placed(story.arrive(with_claim())) == []
    assert placed(story.wait_s(60)) == ["p"]
