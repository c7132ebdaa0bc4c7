"""explain repeats what the scheduler said of the nodes that a pod waits for."""

from gpufleet.explain.node_requests import node_notes
from gpufleet.kube.objects.pod import Pod
from tests.kube.wire_objects import decoded


def waits(message: str) -> Pod:
    """A pod whose condition has this message."""
    said = {"type": "PodScheduled", "status": "False", "reason": "WaitingForNodeLimits", "message": message}
    found: Pod = decoded(
        {"metadata": {"name": "p"}, "spec": {"containers": []}, "status": {"conditions": [said]}}, Pod
    )
    return found


def test_words_about_nodes_are_a_note() -> None:
    message = "it needs 8 GPUs; of 3 nodes 3 are busy; nodes: ProvisioningRequest a-1 failed; no more is made"
    assert node_notes(waits(message)) == ["nodes: ProvisioningRequest a-1 failed; no more is made"]


def test_without_such_words_there_is_none() -> None:
    assert node_notes(waits("it needs 8 GPUs; of 3 nodes 3 are busy")) == []
    assert node_notes(decoded({"metadata": {"name": "p"}, "spec": {"containers": []}}, Pod)) == []
