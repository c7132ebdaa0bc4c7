"""A node whose kubelet turns pods away is a reason against every pod, for as long as it is left alone."""

from collections.abc import Iterable

from gpufleet.engine.event import DevicesOffered, KubeletRejected, NodeDistrustRecalled
from gpufleet.engine.instruction import AnyInstruction, NodeDistrusted, NodeTrusted, RequeueAfter
from gpufleet.model.identifiers import NodeName, PodUid
from gpufleet.model.taint import Toleration
from tests.engine.fleet_builder import Story, node, placed, pod, shape

S = 1_000_000
NODE = NodeName("n")
REASON = "rejects-pods"


def rejections(count: int = 3) -> list[KubeletRejected]:
    return [KubeletRejected(NODE, PodUid(f"gone-{number}"), "OutOfcpu") for number in range(count)]


def of_trust(said: Iterable[AnyInstruction]) -> list[AnyInstruction]:
    return [one for one in said if isinstance(one, NodeDistrusted | NodeTrusted)]


def distrusted() -> Story:
    story = Story()
    story.nodes(node("n", 8))
    assert of_trust(story.happen(*rejections())) == [NodeDistrusted(NODE, 60 * S, 120 * S)]
    return story


def test_no_pod_goes_there_until_its_time_is_over() -> None:
    story = distrusted()
    assert placed(story.arrive(pod("p", shape(1)))) == []
    assert story.explain("p") == {REASON: 1}
    assert next(one.at_us for one in story.said if isinstance(one, RequeueAfter)) == 60 * S
    assert placed(story.wait_s(59)) == []
    said = story.wait_s(1)
    assert of_trust(said) == [NodeTrusted(NODE, 120 * S)]
    assert placed(said) == ["p"]


def test_no_toleration_is_a_way_around_it() -> None:
    story = distrusted()
    story.arrive(pod("p", shape(1, tolerations=(Toleration(operator="Exists"),))))
    assert story.explain("p") == {REASON: 1}


def test_pods_that_are_described_later_are_kept_off_too() -> None:
    story = distrusted()
    for gpus in range(1, 6):
        story.arrive(pod(f"p{gpus}", shape(gpus)))
        assert story.explain(f"p{gpus}") == {REASON: 1}


def test_a_change_of_the_node_does_not_bring_trust_back() -> None:
    story = distrusted()
    story.nodes(node("n", 4))
    story.arrive(pod("p", shape(1)))
    assert story.explain("p") == {REASON: 1}


def test_a_node_that_comes_again_is_another_one() -> None:
    story = distrusted()
    story.lose("n")
    story.nodes(node("n", 8))
    assert placed(story.arrive(pod("p", shape(1)))) == ["p"]


def test_devices_that_are_offered_anew_bring_trust_back_at_once() -> None:
    story = Story()
    story.nodes(node("n", 8))
    story.happen(DevicesOffered(NODE, "monday"))
    story.wait_s(100)
    story.happen(*rejections())
    story.arrive(pod("p", shape(1)))
    said = story.happen(DevicesOffered(NODE, "tuesday"))
    assert of_trust(said) == [NodeTrusted(NODE, 120 * S)]
    assert placed(said) == ["p"]


def test_a_new_engine_knows_from_what_was_written_down() -> None:
    story = Story()
    story.at_us = 30 * S
    story.happen(NodeDistrustRecalled(NODE, 60 * S, 120 * S))
    story.nodes(node("n", 8))
    story.arrive(pod("p", shape(1)))
    assert story.explain("p") == {REASON: 1}
    assert placed(story.wait_s(30)) == ["p"]
    said = story.happen(*rejections())
    assert of_trust(said) == [NodeDistrusted(NODE, 180 * S, 240 * S)], "pauses go on doubling"


def test_what_was_over_before_the_restart_is_told_as_over() -> None:
    story = Story()
    story.at_us = 100 * S
    story.happen(NodeDistrustRecalled(NODE, 60 * S, 120 * S))
    assert placed(story.nodes(node("n", 8)) + story.arrive(pod("p", shape(1)))) == ["p"]
    assert of_trust(story.said) == [NodeTrusted(NODE, 120 * S)]
