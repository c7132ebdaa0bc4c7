"""A kubelet that lost its memory, judged by the auditor: the next pod has another card, or none."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.agent.audited_memory import pairs, twice
from tests.agent.forgetful_node import ForgetfulNode
from tests.agent.plugin_world import GPU, a_gpu, a_node, a_pod


@pytest.fixture
def node() -> Iterator[ForgetfulNode]:
    """Two whole GPUs."""
    made = ForgetfulNode(a_node(a_gpu(0), a_gpu(1)), GPU, Path("/state"))
    yield made
    made.close()


def run(node: ForgetfulNode, name: str, *granted: str) -> bool:
    """A pod that is granted these comes, is admitted and starts; whether it could."""
    pod = a_pod(name, 1, grant=list(granted) or None)
    node.bind(pod)
    started = node.admit(pod.uid) and node.start(pod.uid, "main")
    node.tell(pod.uid)
    node.reads()
    return started


@pytest.mark.parametrize("also", ["nothing", "agent", "folder", "report"])
def test_a_kubelet_that_forgot_gives_no_card_to_a_second_pod(node: ForgetfulNode, also: str) -> None:
    assert run(node, "a", "GPU-0")
    node.kubelet_forgets()
    if also == "folder":
        node.disk.files.clear()
    if also == "report":
        node.report = None
    if also != "nothing":
        node.new_agent()
    assert run(node, "b", "GPU-1")
    run(node, "c")
    assert twice(node) == []
    assert node.using["uid-b", "main"] == {"GPU-1"}


def test_the_auditor_sees_a_card_in_two_containers(node: ForgetfulNode) -> None:
    assert run(node, "a", "GPU-0")
    assert run(node, "b", "GPU-1")
    node.using["uid-b", "main"] = node.using["uid-a", "main"]
    (pair,) = pairs(twice(node))
    assert [name.rpartition("/")[2] for name in pair] == ["a", "b"]
