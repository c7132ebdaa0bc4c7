"""Which replica ends first, and what is said of those without a place; expected orders are by hand."""

from typing import Any

import msgspec

from gpufleet.operator.services.deletion_costs import deletion_costs
from gpufleet.operator.services.service_pods import DELETION_COST, OUR_COST, ServiceNode, ServicePod
from gpufleet.operator.services.unplaced_replicas import (
    OwnerKey,
    Unplaced,
    replicas_by_owner,
    unplaced,
)
from tests.kube.wire_objects import decoded

NOW_US = 10**15
GPU = "nvidia.com/gpu"


def node(name: str, gpus: int) -> ServiceNode:
    body = {"metadata": {"name": name}, "status": {"allocatable": {GPU: str(gpus)}}}
    found: ServiceNode = decoded(body, ServiceNode)
    return found


def pod(name: str, gpus: int, on: str = "", of: str = "web-1", reason: str = "", **said: str) -> ServicePod:
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": of, "uid": of, "controller": True}
    body: dict[str, Any] = {
        "metadata": {"name": name, "namespace": "a", "ownerReferences": [owner] if of else []},
        "spec": {"schedulerName": "gpufleet", "nodeName": on},
    }
    body["metadata"]["annotations"] = said
    body["metadata"]["creationTimestamp"] = "2000-01-01T00:00:00Z"
    body["spec"]["containers"] = [{"resources": {"limits": {GPU: str(gpus)}}}]
    if reason:
        words = {"type": "PodScheduled", "status": "False", "reason": reason, "message": "needs 4 GPUs"}
        body["status"] = {"phase": "Pending", "conditions": [words]}
    found: ServicePod = decoded(body, ServicePod)
    return found


def made(one: ServicePod, at: str) -> ServicePod:
    metadata = msgspec.structs.replace(one.metadata, creation_timestamp=at)
    return msgspec.structs.replace(one, metadata=metadata)


NODES = (node("alone", 4), node("shared", 4), node("full", 8))


def costs(*pods: ServicePod) -> dict[str, int]:
    return {name: cost for (_, name), cost in deletion_costs(pods, NODES).items()}


def test_the_replica_that_frees_most_gpus_together_ends_first() -> None:
    """After it goes 4 GPUs are free on one node; on the other 2, beside the replica that stays."""
    replicas = pod("x", 2, "alone"), pod("y", 2, "shared"), pod("z", 2, "shared")
    assert costs(*replicas) == {"x": -1, "y": 0, "z": 0}


def test_room_in_which_waiting_work_fits_comes_before_more_room() -> None:
    """A pod of 3 GPUs waits. It fits on "shared" once y is gone, and 8 free ones of "full" are not needed for
    it: there 6 are free today.
    """
    work = pod("waits", 3, of="", reason="Unschedulable")
    taken = pod("other", 1, "shared", of="")
    assert costs(pod("y", 1, "shared"), pod("w", 2, "full"), taken, work) == {"y": -1, "w": 0}


def test_costs_of_an_owner_are_left_alone_and_so_are_single_replicas() -> None:
    own = pod("x", 2, "alone", **{DELETION_COST: "7"})
    assert costs(own, pod("y", 2, "shared")) == {}
    ours = pod("x", 2, "alone", **{DELETION_COST: "-1", OUR_COST: "-1"})
    assert costs(ours, pod("y", 2, "full")) == {"x": 0, "y": -1}
    assert costs(pod("x", 2, "alone")) == {}


def said(pods: list[ServicePod], deployments: dict[tuple[str, str], str]) -> dict[OwnerKey, Unplaced | None]:
    return dict(unplaced(replicas_by_owner(pods, deployments, "gpufleet"), NOW_US))


def test_what_waits_is_told_of_the_deployment_with_its_reason() -> None:
    pods = [pod("x", 4, "alone"), *(pod(f"w{one}", 4, reason="WaitingForQuota") for one in range(2))]
    (found,) = said(pods, {("a", "web-1"): "web"}).items()
    assert found[0] == ("Deployment", "a", "web")
    assert found[1] is not None
    assert (found[1].reason, found[1].placed, found[1].waiting) == ("WaitingForQuota", 1, 2)
    assert found[1].words == "1 replica has a place, 2 wait: needs 4 GPUs"


def test_nothing_is_said_while_replicas_wait_of_which_nothing_is_decided() -> None:
    """Otherwise a service that is started anew would be all right for a moment, and then wrong again."""
    waiting = [pod("x", 4, "alone"), pod("w", 4, reason="WaitingForQuota")]
    # At 2001-09-09T01:46:40Z it is 10**15 us since 1970: they are a second old.
    assert said([made(one, "2001-09-09T01:46:39Z") for one in waiting], {}) == {}
    assert said([pod("silent", 4)], {}) == {}
    assert said([pod("x", 4, "alone")], {}) == {("ReplicaSet", "a", "web-1"): None}
