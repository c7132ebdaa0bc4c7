"""What a pod is counted with while it is resized: the largest of asked for, set aside and in use."""

from typing import Any

import pytest

from gpufleet.kube.codec.pod import read_placed_pod
from gpufleet.model.resources import MEBIBYTE, Resources
from gpufleet.model.shape import GpuRequest
from tests.kube.wire_objects import NVIDIA, a_pod

INFEASIBLE = {"type": "PodResizePending", "status": "True", "reason": "Infeasible"}
DEFERRED = {"type": "PodResizePending", "status": "True", "reason": "Deferred"}


def asking(cpu: str, memory: str = "100Mi", name: str = "main", **more: Any) -> dict[str, Any]:
    """A container as its spec is now."""
    amounts = {"cpu": cpu, "memory": memory, **more}
    return {"name": name, "resources": {"requests": amounts, "limits": amounts}}


def told(
    allocated: dict[str, str] | None = None, running: dict[str, str] | None = None, name: str = "main"
) -> dict[str, Any]:
    """What the status says of a container."""
    found: dict[str, Any] = {"name": name}
    if allocated is not None:
        found["allocatedResources"] = allocated
    if running is not None:
        found["resources"] = {"requests": running}
    return found


def held(*containers: dict[str, Any], statuses: list[dict[str, Any]], **more: Any) -> Resources:
    """What a placed pod is counted with."""
    status = {"containerStatuses": statuses, **more.pop("status", {})}
    return read_placed_pod(a_pod(*containers, status=status, **more)).shape.resources


@pytest.mark.parametrize(
    ("statuses", "cpu_milli"),
    [
        ([told({"cpu": "500m"}, {"cpu": "250m"})], 1000),
        ([told({"cpu": "2"}, {"cpu": "250m"})], 2000),
        ([told({"cpu": "1"}, {"cpu": "3"})], 3000),
        ([told(None, {"cpu": "3"})], 3000),
        ([told({"cpu": "1500m"}, None)], 1500),
    ],
)
def test_the_largest_of_the_three_counts(statuses: list[dict[str, Any]], cpu_milli: int) -> None:
    assert held(asking("1"), statuses=statuses).cpu_milli == cpu_milli


def test_each_resource_and_each_container_counts_for_itself() -> None:
    statuses = [told({"cpu": "1", "memory": "300Mi"}, name="main"), told({"cpu": "4"}, name="side")]
    found = held(asking("2"), asking("1", name="side"), statuses=statuses)
    # Set aside: 1 + 4 cores and 300Mi + nothing told; asked for: 3 cores and 200Mi.
    assert (found.cpu_milli, found.memory_bytes) == (5000, 300 * MEBIBYTE)


def test_what_was_called_infeasible_does_not_count() -> None:
    statuses = [told({"cpu": "1", "memory": "100Mi"}, {"cpu": "1", "memory": "100Mi"})]
    refused = {"conditions": [INFEASIBLE]}
    assert held(asking("64"), statuses=statuses, status=refused).cpu_milli == 1000
    assert held(asking("64"), statuses=statuses, status={"conditions": [DEFERRED]}).cpu_milli == 64_000


def test_the_status_of_the_pod_as_a_whole_stands_for_its_containers() -> None:
    whole = {"allocatedResources": {"cpu": "7"}, "resources": {"requests": {"cpu": "6"}}}
    statuses = [told({"cpu": "99"})]
    assert held(asking("1"), statuses=statuses, status=whole).cpu_milli == 7000


def test_amounts_of_the_pod_as_a_whole_stand_for_those_in_use_too() -> None:
    container = {"name": "main", "resources": {}}
    running = {"cpu": "2", "memory": "2Gi"}
    found = held(container, statuses=[told(running, running)], resources={"requests": {"memory": "512Mi"}})
    assert (found.cpu_milli, found.memory_bytes) == (2000, 512 * MEBIBYTE)


def test_overhead_is_on_top() -> None:
    statuses = [told({"cpu": "2"})]
    assert held(asking("1"), statuses=statuses, overhead={"cpu": "250m"}).cpu_milli == 2250


def test_no_resize_changes_gpus() -> None:
    container = asking("1", **{NVIDIA: "2"})
    status = {"containerStatuses": [told({"cpu": "2"}, {"cpu": "2"})], "conditions": [INFEASIBLE]}
    assert read_placed_pod(a_pod(container, status=status)).shape.gpu == GpuRequest(2, 1000)


def test_a_status_that_cannot_be_counted_is_not_looked_at() -> None:
    assert held(asking("1"), statuses=[told({"cpu": "-5"})]).cpu_milli == 1000
