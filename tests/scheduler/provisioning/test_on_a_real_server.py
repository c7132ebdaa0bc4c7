"""A gang asks for nodes on a real API server, with the rights that the scheduler has in every cluster."""

import datetime as dt
from collections.abc import Iterator

import pytest

from gpufleet.localkube import manifests, simulated_nodes
from gpufleet.localkube.access.api import Api, Object
from gpufleet.localkube.cluster import LocalCluster
from gpufleet.localkube.simulated_nodes import SimulatedNodes, gpu_model
from tests.localkube.cluster import a_cluster
from tests.scheduler.provisioning.definition import provisioning_requests
from tests.scheduler.real_scheduler import PODS, node_of, reason, scheduler_at_work, why
from tests.waiting import until

DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
REQUESTS = "/apis/autoscaling.x-k8s.io/v1/namespaces/default/provisioningrequests"
TEMPLATES = "/api/v1/namespaces/default/podtemplates"
QUEUE = "/apis/gpufleet.io/v1alpha1/fleetqueues/team"
CLASS = "best-effort-atomic-scale-up.autoscaling.x-k8s.io"
MERGE = "application/merge-patch+json"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    """A cluster without nodes that serves ProvisioningRequests, and the scheduler at work."""
    with a_cluster(tmp_path_factory.mktemp("provisioning")) as running:
        with running.api() as api:
            manifests.install(api)
            api.call("POST", DEFINITIONS, provisioning_requests())
            until(lambda: api.request("GET", REQUESTS)[0] == 200)
            asks = {"provisioningClassName": CLASS}
            spec = {"namespaces": ["default"], "provisioning": asks}
            kind = {"apiVersion": "gpufleet.io/v1alpha1", "kind": "FleetQueue"}
            api.apply(QUEUE, {**kind, "metadata": {"name": "team"}, "spec": spec})
        with scheduler_at_work(running):
            yield running


def member(name: str) -> Object:
    """A member of a gang of two, each with eight GPUs."""
    words = {"gpufleet.io/gang": "train", "gpufleet.io/gang-min-members": "2"}
    resources = {"limits": {"nvidia.com/gpu": "8"}}
    spec = {
        "schedulerName": "gpufleet",
        "containers": [{"name": "c", "image": "none", "resources": resources}],
    }
    return {"metadata": {"name": name, "annotations": words}, "spec": spec}


def says(api: Api, name: str, *conditions: str) -> None:
    """The autoscaler's word on a request."""
    now = dt.datetime.now(dt.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    said = {"status": "True", "reason": "Tested", "message": "", "lastTransitionTime": now}
    status = {"status": {"conditions": [{"type": one, **said} for one in conditions]}}
    api.call("PATCH", f"{REQUESTS}/{name}/status", status, MERGE)


def test_a_gang_asks_starts_with_what_was_provided_and_leaves_nothing(cluster: LocalCluster) -> None:
    members = ("train-0", "train-1")
    with cluster.api() as api:
        for name in members:
            api.call("POST", PODS, member(name))
        until(lambda: len(api.call("GET", REQUESTS)["items"]) == 1, 60)
        (request,) = api.call("GET", REQUESTS)["items"]
        name = request["metadata"]["name"]
        assert [one["count"] for one in request["spec"]["podSets"]] == [2]
        (template,) = api.call("GET", TEMPLATES)["items"]
        # The API server adds the volume with the token of the account to every pod.
        assert not template["template"]["spec"].get("volumes")
        until(lambda: [reason(api, one) for one in members] == ["WaitingForProvisioning"] * 2, 60)
        says(api, name, "Accepted", "Provisioned")
        until(lambda: "has its nodes asked for" in why(api, "train-0"), 60)
        simulated_nodes.create(cluster, SimulatedNodes(2, 8, gpu_model("H100-80GB")))
        until(lambda: all(node_of(api, one) for one in members), 120)
        for one in members:
            said = api.call("GET", f"{PODS}/{one}")["metadata"]["annotations"]
            assert said["autoscaling.x-k8s.io/consume-provisioning-request"] == name
            assert said["autoscaling.x-k8s.io/provisioning-class-name"] == CLASS
        until(lambda: not api.call("GET", REQUESTS)["items"], 60)
        until(lambda: not api.call("GET", TEMPLATES)["items"], 60)


def test_the_objects_of_a_gang_that_is_gone_go_with_its_pods(cluster: LocalCluster) -> None:
    with cluster.api() as api:
        for name in ("late-0", "late-1"):
            body = member(name)
            body["metadata"]["annotations"]["gpufleet.io/gang"] = "late"
            api.call("POST", PODS, body)
        until(lambda: len(api.call("GET", REQUESTS)["items"]) == 1, 60)
        for name in ("late-0", "late-1"):
            api.request("DELETE", f"{PODS}/{name}")
        until(lambda: not api.call("GET", REQUESTS)["items"], 60)
        until(lambda: not api.call("GET", TEMPLATES)["items"], 60)
