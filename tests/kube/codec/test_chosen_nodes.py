"""What was decided about the nodes of a waiting pod is read as it was written, and nothing else is."""

import pytest

from gpufleet.kube.codec.chosen_nodes import (
    NodesComing,
    Postponed,
    read_chosen_nodes,
    write_chosen_nodes,
)
from gpufleet.kube.objects.pod import NODES_CHOSEN, Pod
from tests.kube.wire_objects import decoded

NOON_US = 1_772_366_400_000_000
"""2026-03-01T12:00:00Z, by date -d."""

MINUTE_US = 60_000_000


def pod_with(status: str, reason: str, message: str) -> Pod:
    said = {"type": NODES_CHOSEN, "status": status, "reason": reason, "message": message}
    body = {"metadata": {"name": "p"}, "spec": {"containers": []}, "status": {"conditions": [said]}}
    found: Pod = decoded(body, Pod)
    return found


@pytest.mark.parametrize(
    ("decided", "words"),
    [
        (
            NodesComing("h100", NOON_US, NOON_US + 15 * MINUTE_US),
            (
                "nodes of h100 were chosen for it; what joins there after 2026-03-01T12:00:00Z is kept for "
                "such pods until 2026-03-01T12:15:00Z"
            ),
        ),
        (
            Postponed(NOON_US + 5 * MINUTE_US),
            "nodes that can be bought now start other work; none is asked for until 2026-03-01T12:05:00Z",
        ),
    ],
)
def test_a_decision_is_written_for_people_and_read_back(decided: NodesComing | Postponed, words: str) -> None:
    said = write_chosen_nodes(decided)
    assert said.message == words
    assert read_chosen_nodes(pod_with(*said)) == decided


@pytest.mark.parametrize(
    ("status", "message"),
    [
        ("True", "nodes are coming"),
        ("False", "nodes of a were chosen for it; what joins there after 2026-03-01T12:00:00Z is kept"),
        ("Unknown", ""),
        ("True", "x" * 5000),
    ],
)
def test_other_words_say_nothing(status: str, message: str) -> None:
    assert read_chosen_nodes(pod_with(status, "Other", message)) is None
