"""FleetQueues on a real server, with the rights that the scheduler really has: quota, statuses, a bad one."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from gpufleet.cli.main import main
from gpufleet.localkube import manifests, simulated_nodes
from gpufleet.localkube.access.api import Api, Object
from gpufleet.localkube.cluster import LocalCluster
from gpufleet.localkube.control_plane import Options
from gpufleet.localkube.simulated_nodes import SimulatedNodes, gpu_model
from tests.localkube.cluster import KUBERNETES, a_cluster
from tests.scheduler.real_scheduler import PODS, node_of, reason, scheduler_at_work, why
from tests.waiting import until

QUEUES = "/apis/gpufleet.io/v1alpha1/fleetqueues"
QUEUE_LABEL = "gpufleet.io/queue"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    """A cluster with two nodes of four GPUs, and the scheduler at work."""
    with a_cluster(tmp_path_factory.mktemp("queues"), options=Options(kubernetes=KUBERNETES)) as running:
        with running.api() as api:
            manifests.install(api)
        simulated_nodes.create(running, SimulatedNodes(2, 4, gpu_model("H100-80GB")))
        with scheduler_at_work(running):
            yield running


def add_queue(api: Api, name: str, **spec: Any) -> None:
    kind = {"apiVersion": "gpufleet.io/v1alpha1", "kind": "FleetQueue"}
    api.call("POST", QUEUES, {**kind, "metadata": {"name": name}, "spec": spec})


def add_pod(api: Api, name: str, queue: str, gpus: int) -> None:
    limits = {"limits": {"nvidia.com/gpu": str(gpus)}}
    container = {"name": "c", "image": "example.com/none", "resources": limits}
    spec = {
        "schedulerName": "gpufleet",
        "containers": [container],
        "automountServiceAccountToken": False,
    }
    body = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "labels": {QUEUE_LABEL: queue}}}
    api.call("POST", PODS, {**body, "spec": spec})


def status(api: Api, name: str) -> Object:
    found: Object = api.call("GET", f"{QUEUES}/{name}").get("status", {})
    return found


def active(api: Api, name: str) -> Object:
    """The condition Active of a queue."""
    told = status(api, name).get("conditions", [])
    return next((one for one in told if one["type"] == "Active"), {})


def used(api: Api, name: str) -> str:
    """The GPUs that a queue uses, as its status says."""
    listed = status(api, name).get("resources", [])
    return next((one.get("used", "") for one in listed if one["resource"] == "gpu"), "")


def test_quota_keeps_a_pod_waiting_until_it_is_raised(cluster: LocalCluster) -> None:
    with cluster.api() as api:
        add_queue(api, "team", quotas=[{"resource": "gpu", "nominal": 2}])
        add_pod(api, "first", "team", 2)
        until(lambda: node_of(api, "first") != "")
        add_pod(api, "second", "team", 1)
        until(lambda: "team" in why(api, "second"))
        assert reason(api, "second") == "WaitingForQuota"
        assert node_of(api, "second") == ""
        until(lambda: used(api, "team") == "2")
        until(lambda: status(api, "team")["pending"]["pods"] == 1)
        assert active(api, "team")["status"] == "True"
        raised = {"spec": {"quotas": [{"resource": "gpu", "nominal": 3}]}}
        status_code, body = api.request("PATCH", f"{QUEUES}/team", raised, "application/merge-patch+json")
        assert status_code == 200, body
        until(lambda: node_of(api, "second") != "")
        until(lambda: used(api, "team") == "3")


def test_a_queue_that_means_nothing_is_told_why(cluster: LocalCluster) -> None:
    with cluster.api() as api:
        add_queue(api, "family", quotas=[{"resource": "gpu/A100", "nominal": 2}])
        add_queue(api, "orphan", parent="nobody")
        until(lambda: active(api, "family").get("reason") == "Malformed")
        assert "several models" in active(api, "family")["message"]
        until(lambda: active(api, "orphan").get("reason") == "ParentMissing")
        add_pod(api, "lost", "family", 1)
        until(lambda: "family" in why(api, "lost"))
        assert node_of(api, "lost") == ""


def test_the_command_shows_what_the_scheduler_says(
    cluster: LocalCluster, capsys: pytest.CaptureFixture[str]
) -> None:
    with cluster.api() as api:
        add_queue(
            api, "seen", quotas=[{"resource": "gpu", "nominal": 1}], namespaces=["default", "elsewhere"]
        )
        for name in ("seen-runs", "seen-waits"):
            add_pod(api, name, "seen", 1)
        until(lambda: status(api, "seen").get("pending", {}).get("pods") == 1)
        until(lambda: used(api, "seen") == "1")
    shown = {}
    for source in ("engine", "status"):
        command = ("queues", f"--kubeconfig={cluster.kubeconfig}", "-o", "json", "--queue=seen")
        assert main([*command, f"--from={source}"]) == 0
        (shown[source],) = json.loads(capsys.readouterr().out)["queues"]
    for found in shown.values():
        (gpu,) = found["resources"]
        assert (gpu["used"], gpu["quota"], gpu["fair_share"]) == ("1", "1", "1")
        assert found["pending"] == [{"reason": "quota", "pods": 1}]
        assert found["policy"]["namespaces"] == ["default", "elsewhere"]
    (waits,) = shown["engine"]["waiting"]
    assert (waits["position"], waits["kind"], waits["reason"]) == (1, "pod", "quota")
    assert "waiting" not in shown["status"]


def test_a_job_that_a_quota_of_the_api_server_forbids_is_told_its_figures(
    cluster: LocalCluster, capsys: pytest.CaptureFixture[str]
) -> None:
    with cluster.api() as api:
        api.call("POST", "/api/v1/namespaces", {"metadata": {"name": "walled"}})
        hard = {"requests.nvidia.com/gpu": "1", "limits.nvidia.com/gpu": "1"}
        quotas = "/api/v1/namespaces/walled/resourcequotas"
        api.call("POST", quotas, {"metadata": {"name": "wall"}, "spec": {"hard": hard}})
        until(lambda: counted(api, f"{quotas}/wall") == {"requests.nvidia.com/gpu": "0"})
        container = {
            "name": "c",
            "image": "example.com/none",
            "resources": {"limits": {"nvidia.com/gpu": "2"}},
        }
        template = {
            "spec": {"schedulerName": "gpufleet", "restartPolicy": "Never", "containers": [container]}
        }
        job = {"metadata": {"name": "train"}, "spec": {"template": template}}
        api.call("POST", "/apis/batch/v1/namespaces/walled/jobs", job)
        command = ("explain", "job/train", "-n", "walled", f"--kubeconfig={cluster.kubeconfig}", "-o", "json")

        def answer() -> Object:
            assert main(command) == 0
            found: Object = json.loads(capsys.readouterr().out)
            return found

        until(lambda: answer()["cause"] == "quota")
    found = answer()
    assert "requests.nvidia.com/gpu: 0 of 1 are used, and a pod asks for 2" in found["why"]
    assert found["notes"][-2] == "ResourceQuota wall of the namespace: requests.nvidia.com/gpu 0 of 1 in use"
    assert "limits nothing by limits.nvidia.com/gpu" in found["notes"][-1]


def counted(api: Api, quota: str) -> Object:
    """What the API server's controller counts of a ResourceQuota."""
    found: Object = api.call("GET", quota).get("status", {}).get("used", {})
    return found
