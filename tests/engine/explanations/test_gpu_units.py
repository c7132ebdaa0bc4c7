"""Where nodes give out shares of GPUs or MIG instances as GPUs, sentences count them by their own names."""

import pytest

from gpufleet.engine.explanations.sentences import explain
from gpufleet.model.identifiers import NodeName
from gpufleet.model.node import Node
from tests.engine.fleet_builder import Story, device, node, pod, shape


def shared(name: str, cards: int = 2, replicas: int = 4) -> Node:
    """A node of whose cards each is several devices, as NVIDIA's time-slicing has it."""
    ids = (f"{name}-{card}::{number}" for card in range(cards) for number in range(replicas))
    return node(name, devices=tuple(map(device, ids)))


def cut(name: str) -> Node:
    """A node with a card that is cut into three instances which are asked for as GPUs (strategy single)."""
    return node(name, devices=tuple(device(f"{name}-0::1g.10gb@{start}") for start in range(3)))


def told(asked: int, *nodes: Node, running: int = 0) -> tuple[str, str, tuple[str, ...], str]:
    """What is said of a pod that asks for so many: the condition, the finding, its ways out, the counts."""
    story = Story()
    story.nodes(*nodes)
    for number in range(running):
        story.arrive(pod(f"runs-{number}", shape(1)))
    asker = pod("asker", shape(asked))
    story.arrive(asker)
    explanation = story.engine.explanation(asker.uid)
    assert explanation is not None
    assert explanation.verdict is not None
    found = explanation.findings[0]
    return explain(explanation.verdict, asker.shape), found.why, found.way_out, explanation.counts[0].words


def test_too_many_shares_for_one_node() -> None:
    sentence, why, way_out, counts = told(9, shared("a"), shared("b"))
    assert "2 with fewer GPU shares than asked for" in sentence
    assert "2 nodes would do if the pod asked for fewer GPU shares" in sentence
    assert why == "it asks for 9 GPU shares on one node, and the largest have 8"
    assert way_out[0].startswith("ask for at most 8 in one pod")
    assert counts == "with fewer GPU shares than asked for"


def test_shares_that_are_taken() -> None:
    sentence, why, way_out, counts = told(1, shared("a", cards=1), running=4)
    assert sentence.endswith("1 with too few free GPU shares; nearest is a, which lacks 1 free GPU share")
    assert why == "of the 4 GPU shares of the 1 node that would do 0 are free; it needs 1 on one node"
    assert way_out[0] == "it fits on a when runs-0 (1 GPU share) ends"
    assert counts == "with too few free GPU shares"


def test_instances_that_are_asked_for_as_gpus() -> None:
    sentence, why, _, _ = told(4, cut("a"))
    assert "1 with fewer MIG instances than asked for" in sentence
    assert why == "it asks for 4 MIG instances on one node, and the largest have 3"


def test_whole_cards_and_a_mixture_are_gpus() -> None:
    for nodes in ((node("a", 8),), (node("a", 8), shared("b"))):
        sentence, why, _, _ = told(9, *nodes)
        assert "with fewer GPUs than asked for" in sentence
        assert why == "it asks for 9 GPUs on one node, and the largest have 8"


def test_a_node_of_shares_that_is_gone_is_forgotten() -> None:
    story = Story()
    story.nodes(shared("a"), node("b", 1))
    story.lose("a")
    asker = pod("asker", shape(2))
    story.arrive(asker)
    explanation = story.engine.explanation(asker.uid)
    assert explanation is not None
    assert explanation.verdict is not None
    assert "1 with fewer GPUs than asked for" in explain(explanation.verdict, asker.shape)
    assert explanation.verdict.nodes == 1
    assert story.engine.explain(asker.uid) is not None
    assert explanation.counts[0].nodes == (NodeName("b"),)


@pytest.mark.parametrize(
    ("labels", "noun"),
    [
        ({"nvidia.com/gpu.replicas": "4"}, "GPU shares"),
        ({"nvidia.com/gpu.replicas": "1"}, "GPUs"),
        ({"nvidia.com/gpu.replicas": "many"}, "GPUs"),
        ({}, "GPUs"),
    ],
)
def test_where_a_kubelet_only_counts_the_label_of_feature_discovery_tells(
    labels: dict[str, str], noun: str
) -> None:
    devices = tuple(device(f"anonymous-a-{number}") for number in range(8))
    counted = Node(NodeName("a"), node("a").allocatable, devices, labels, counted_only=True)
    assert told(9, counted)[1] == f"it asks for 9 {noun} on one node, and the largest have 8"
