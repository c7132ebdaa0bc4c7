"""The pod that checks a driver: what it asks for, where it is placed, and what is told of one that is not."""

from typing import Any

import msgspec
import pytest

from gpufleet.model.identifiers import NodeName
from gpufleet.operator.rollout_drains import pods_by_node
from gpufleet.operator.rollout_objects import HeldPod, check_pod, check_resource

N1 = NodeName("n1")
IMAGE = f"registry.example.com/driver@sha256:{'1' * 64}"


def made(resource: str = "nvidia.com/gpu") -> dict[str, Any]:
    return check_pod("gpufleet-system", N1, IMAGE, resource, "ours")


def read(body: dict[str, Any], **status: Any) -> HeldPod:
    metadata = {**body["metadata"], "uid": "u"}
    return msgspec.json.decode(
        msgspec.json.encode({**body, "metadata": metadata, "status": status}), type=HeldPod
    )


@pytest.mark.parametrize(
    ("offered", "asked"),
    [
        ({"cpu": "8"}, None),
        ({"nvidia.com/gpu": "0", "pods": "110"}, None),
        ({"gpufleet.io/gpu-share": "10", "nvidia.com/gpu": "7"}, "nvidia.com/gpu"),
        ({"gpufleet.io/gpu-share": "10", "nvidia.com/mig-1g.10gb": "7"}, "nvidia.com/mig-1g.10gb"),
        ({"gpufleet.io/gpu-share": "10", "nvidia.com/gpu": "0"}, "gpufleet.io/gpu-share"),
        ({"amd.com/gpu": "8"}, "amd.com/gpu"),
    ],
)
def test_it_asks_for_a_whole_gpu_where_there_is_one(offered: dict[str, str], asked: str | None) -> None:
    assert check_resource(offered) == asked


def test_a_scheduler_places_it_so_that_agents_give_it_its_device() -> None:
    """Agents refuse a pod that names its node itself: it has no grant."""
    spec = made()["spec"]
    assert "nodeName" not in spec
    assert spec["schedulerName"] == "ours"
    terms = spec["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    (term,) = terms["nodeSelectorTerms"]
    assert term == {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n1"]}]}
    assert spec["tolerations"] == [{"operator": "Exists"}]


def test_a_share_says_how_large_it_is() -> None:
    assert made("gpufleet.io/gpu-share")["metadata"]["annotations"]["gpufleet.io/gpu-fraction"] == "0.1"
    assert "gpufleet.io/gpu-fraction" not in made()["metadata"]["annotations"]


def test_one_that_waits_for_a_place_is_a_pod_of_its_node_and_tells_why_it_waits() -> None:
    words = "no GPU of n1 is healthy"
    waits = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": words}
    pod = read(made(), phase="Pending", conditions=[waits])
    assert pods_by_node([pod], "gpufleet-system") == {N1: [pod]}
    assert pod.words() == words


def test_work_cannot_say_that_it_is_on_a_node() -> None:
    body = made()
    del body["metadata"]["labels"]
    assert pods_by_node([read(body)], "gpufleet-system") == {}
