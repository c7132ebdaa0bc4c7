"""Which evictions the judge permits: those that the page of queues lets the scheduler do."""

from typing import Any

import pytest

from gpufleet.simulation.eviction_judge import Teams
from gpufleet.simulation.history import FLEET_QUEUES, PODS, History, Rules
from gpufleet.simulation.object_store import Written

QUEUE: dict[str, Any] = {
    "metadata": {"name": "team", "uid": "q"},
    "spec": {"quotas": [{"resource": "gpu", "nominal": "2"}]},
}


def pod(name: str, gpus: int, *, queue: str = "", node: str = "") -> dict[str, Any]:
    container = {"name": "main", "resources": {"requests": {"nvidia.com/gpu": str(gpus)}}}
    spec: dict[str, Any] = {"schedulerName": "gpufleet", "containers": [container]}
    if node:
        spec["nodeName"] = node
    labels = {"gpufleet.io/queue": queue} if queue else {}
    return {
        "metadata": {"name": name, "namespace": "d", "uid": name, "labels": labels},
        "spec": spec,
        "status": {"phase": "Running" if node else "Pending"},
    }


def teams_with(*pods: dict[str, Any]) -> Teams:
    """A queue that owns two GPUs, and these pods."""
    teams = Teams(History((Written(1, 0.0, FLEET_QUEUES, ("", "team"), QUEUE, None, "x"),), 0.0, Rules()))
    for number, one in enumerate(pods, start=2):
        teams.follow(Written(number, 1.0, PODS, ("d", one["metadata"]["name"]), one, None, "x"))
    return teams


@pytest.mark.parametrize(("gpus", "permitted"), [(2, True), (3, False)])
def test_work_of_no_queue_goes_for_what_a_queue_is_owed_and_for_no_more(gpus: int, permitted: bool) -> None:
    stranger = pod("stranger", 1, node="a")
    teams = teams_with(stranger, pod("waits", gpus, queue="team"))
    assert teams.permit(stranger, 1.0) is permitted


def test_what_a_queue_holds_of_its_own_goes_for_no_work_of_no_queue() -> None:
    own = pod("own", 2, queue="team", node="a")
    assert not teams_with(own, pod("waits", 1)).permit(own, 1.0)
