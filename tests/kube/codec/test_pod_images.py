"""The large images of a pod: those of containers with devices, and those that are volumes."""

from typing import Any

from gpufleet.kube.codec.pod_images import images_of_pod
from gpufleet.kube.objects.pod import Pod
from gpufleet.model.data import DataAsk
from tests.kube.wire_objects import decoded

GPU = {"resources": {"limits": {"nvidia.com/gpu": "1"}}}
DIGEST = f"sha256:{'b' * 64}"


def pod(*containers: dict[str, Any], **spec: Any) -> Pod:
    """A pod with these containers."""
    made: Pod = decoded({"metadata": {"name": "p"}, "spec": {"containers": list(containers), **spec}}, Pod)
    return made


def test_containers_with_devices_and_image_volumes_count() -> None:
    found = images_of_pod(
        pod(
            {"name": "main", "image": "org/big", **GPU},
            {"name": "side", "image": "org/small", "resources": {"limits": {"cpu": "1"}}},
            {"name": "again", "image": "org/big:latest", **GPU},
            initContainers=[{"name": "first", "image": f"host.example/tool@{DIGEST}", **GPU}],
            volumes=[
                {"name": "model", "image": {"reference": "host.example/models/m:1", "pullPolicy": "Always"}},
                {"name": "empty", "emptyDir": {}},
            ],
        )
    )
    assert found == (
        DataAsk("image/host.example/tool", DIGEST),
        DataAsk("image/docker.io/org/big:latest"),
        DataAsk("image/host.example/models/m:1"),
    )


def test_what_is_no_reference_counts_as_nothing() -> None:
    assert images_of_pod(pod({"name": "main", "image": "Bad Name", **GPU})) == ()
