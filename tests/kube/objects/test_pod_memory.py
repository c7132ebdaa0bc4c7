"""What is alike in many pods is kept once, and what nobody reads is not kept."""

import pytest

from gpufleet.kube.objects.structure import Shared
from tests.kube.wire_objects import NVIDIA, a_pod, limited

TOLERATIONS = [{"key": "gpu", "operator": "Exists", "tolerationSeconds": 300}]


def test_equal_parts_of_pods_are_the_same() -> None:
    one, other = (a_pod(limited("train", {NVIDIA: "1"}), name=name, tolerations=TOLERATIONS) for name in "ab")
    assert one.spec.containers is other.spec.containers
    assert one.spec.tolerations is other.spec.tolerations


def test_annotations_that_nobody_reads_are_dropped() -> None:
    pod = a_pod(annotations={"example.com/large": "x" * 1000, "gpufleet.io/grant": "{}"})
    assert pod.metadata.annotations == {"gpufleet.io/grant": "{}"}


def test_volumes_that_decide_nothing_are_dropped() -> None:
    claim = {"name": "data", "persistentVolumeClaim": {"claimName": "data"}}
    pod = a_pod(volumes=[{"name": "token", "projected": {}}, {"name": "scratch", "emptyDir": {}}, claim])
    assert [volume.name for volume in pod.spec.volumes] == ["data"]


@pytest.mark.parametrize(("allocated", "kept"), [("1", False), ("2", True)])
def test_amounts_of_containers_are_kept_only_while_they_are_not_as_asked(allocated: str, kept: bool) -> None:
    amounts = {"cpu": allocated}
    container = {"name": "train", "resources": {"requests": {"cpu": "1"}}}
    status = {"name": "train", "allocatedResources": amounts, "resources": {"requests": amounts}}
    pod = a_pod(container, status={"containerStatuses": [status]})
    assert pod.resized == kept
    assert bool(pod.status.container_statuses) == kept


def test_what_is_shared_is_bounded() -> None:
    shared = Shared(10)
    for number in range(100):
        shared.one((number,))
    assert len(shared) <= 10
