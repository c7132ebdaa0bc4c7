"""What is said of cards that are being cut for pods: to the pod itself, and beside other answers."""

import json
from typing import Any

import pytest

from gpufleet.cluster.mig_layouts.managed_cards import cut_times, cuts_for, cuts_under_way
from gpufleet.kube.objects.node import Node
from gpufleet.kube.objects.pod import Pod
from gpufleet.mig.wanted import DEMAND_ANNOTATION, LAYOUTS_ANNOTATION, STATES_ANNOTATION
from tests.kube.wire_objects import decoded

LAYOUT = ["2g.20gb@2"]
SINCE = "2026-11-29T10:00:00Z"
CARD = "card GPU-a of node gpu-1"


def a_node(state: dict[str, Any] | None = None, layout: list[str] | None = None) -> Node:
    """A node with a card that is cut for a pod; "layout" is what is written now."""
    record = {"GPU-a": {"layout": LAYOUT, "since": SINCE, "pods": ["team/p", "team/q"]}}
    said = {} if state is None else {"GPU-a": {"layout": LAYOUT, **state}}
    annotations = {
        LAYOUTS_ANNOTATION: json.dumps({"GPU-a": LAYOUT if layout is None else layout}),
        DEMAND_ANNOTATION: json.dumps(record),
        STATES_ANNOTATION: json.dumps(said),
    }
    found: Node = decoded({"metadata": {"name": "gpu-1", "annotations": annotations}}, Node)
    return found


@pytest.mark.parametrize(
    ("state", "words"),
    [
        (None, f"{CARD} is being cut for it into 2g.20gb@2 since {SINCE}"),
        ({"state": "pending"}, f"{CARD} is being cut for it into 2g.20gb@2 since {SINCE}"),
        (
            {"state": "waiting", "problem": "1g.10gb@2 is in use"},
            f"{CARD} is being cut for it into 2g.20gb@2 since {SINCE}, '1g.10gb@2 is in use'",
        ),
        (
            {"state": "failed", "problem": "the card is shared"},
            f"{CARD} could not be cut for it into 2g.20gb@2: 'the card is shared'",
        ),
    ],
)
def test_a_pod_is_told_of_its_card_and_since_when(state: dict[str, Any] | None, words: str) -> None:
    assert list(cuts_for("team/p", [a_node(state)])) == [words]
    assert list(cuts_for("team/other", [a_node(state)])) == []


TOOK = {
    "began": "2026-11-29T10:00:02Z",
    "ended": "2026-11-29T10:00:07.5Z",
    "steps": {"modeS": 2.0, "makeS": 3.1, "listS": 0.4},
}


def a_placed_pod(name: str = "p", placed: str = "True") -> Pod:
    """A pod of half a minute before the card was chosen, bound some seconds after that."""
    scheduled = {"type": "PodScheduled", "status": placed, "lastTransitionTime": "2026-11-29T10:00:09Z"}
    metadata = {"name": name, "namespace": "team", "creationTimestamp": "2026-11-29T09:59:29Z"}
    found: Pod = decoded(
        {"metadata": metadata, "spec": {"containers": []}, "status": {"conditions": [scheduled]}}, Pod
    )
    return found


def test_a_placed_pod_is_told_how_long_each_step_to_its_instance_took() -> None:
    node = a_node({"state": "success", "took": TOOK})
    steps = "begun 2 s later, cut in 5.5 s (MIG mode 2.0 s, instances made 3.1 s, devices listed 0.4 s)"
    before = "card GPU-a was cut for it into 2g.20gb@2: chosen 31 s after the pod was made"
    assert list(cut_times(a_placed_pod(), node)) == [f"{before}, {steps}, the pod placed 2 s later"]
    assert list(cut_times(a_placed_pod(placed="False"), node)) == [f"{before}, {steps}"]
    assert list(cut_times(a_placed_pod(), a_node({"state": "success"}))) == [before]


def test_of_cards_of_others_and_of_cuts_that_are_not_over_no_times_are_told() -> None:
    done = {"state": "success", "took": TOOK}
    assert list(cut_times(a_placed_pod("other"), a_node(done))) == []
    assert list(cut_times(a_placed_pod(), a_node({**done, "state": "pending"}))) == []
    assert list(cut_times(a_placed_pod(), a_node(done, layout=["1g.10gb@0"]))) == []
    assert list(cut_times(a_placed_pod(), None)) == []


def test_other_answers_name_what_does_not_count_yet() -> None:
    (note,) = cuts_under_way([a_node()])
    assert note.startswith(f"{CARD} is being cut into 2g.20gb@2 for team/p and team/q since {SINCE}: ")


@pytest.mark.parametrize(
    "node",
    [
        a_node({"state": "success"}),
        a_node(layout=["1g.10gb@0"]),
        a_node({"state": "failed", "problem": "no"}),
    ],
    ids=["it is cut", "another layout is written", "it has failed"],
)
def test_nothing_is_under_way(node: Node) -> None:
    assert list(cuts_under_way([node])) == []
