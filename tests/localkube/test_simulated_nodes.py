"""Simulated nodes look like real GPU nodes to every client, and pods on them come to life."""

import os
import signal
import time
from pathlib import Path

import pytest

from gpufleet.localkube import manifests, simulated_nodes
from gpufleet.localkube.access.api import Api, Object, RefusedError
from gpufleet.localkube.cluster import LocalCluster
from gpufleet.localkube.simulated_nodes import NODE_DEVICES, SimulatedNodes, gpu_model
from gpufleet.model.model_errors import InputError
from tests.localkube.cluster import program

PODS = "/api/v1/namespaces/default/pods"
WAIT_S = 60


def pod(name: str, gpus: int, **spec: object) -> Object:
    """A pod that asks for whole GPUs."""
    resources = {"limits": {"nvidia.com/gpu": str(gpus)}}
    container = {"name": "main", "image": "busybox", "resources": resources}
    return {"metadata": {"name": name}, "spec": {"containers": [container], **spec}}


def await_phase(api: Api, name: str, phase: str) -> Object:
    """The pod as soon as it is in this phase."""
    limit_s = time.monotonic() + WAIT_S
    while True:
        found = api.call("GET", f"{PODS}/{name}")
        if found["status"]["phase"] == phase:
            return found
        assert time.monotonic() < limit_s, f"{name} is {found['status']}"
        time.sleep(0.05)


@pytest.fixture(scope="module")
def nodes(cluster: LocalCluster) -> SimulatedNodes:
    """Three nodes with eight GPUs each."""
    made = SimulatedNodes(count=3, gpus_per_node=8, model=gpu_model("H100-80GB"))
    with cluster.api() as api:
        # Servers before 1.36 have no MutatingAdmissionPolicy.
        assert {one.split()[0].removesuffix("Binding") for one in manifests.install(api)} <= {
            "MutatingAdmissionPolicy"
        }
    simulated_nodes.create(cluster, made)
    return made


@pytest.fixture
def api(cluster: LocalCluster, nodes: SimulatedNodes) -> Api:
    assert nodes.count == 3
    return cluster.api()


def test_a_node_has_the_labels_of_feature_discovery_and_room_for_its_gpus(api: Api) -> None:
    with api:
        found = api.call("GET", "/api/v1/nodes/gpu-001")
    labels = found["metadata"]["labels"]
    assert labels["nvidia.com/gpu.product"] == "NVIDIA-H100-80GB-HBM3"
    assert labels["nvidia.com/gpu.count"] == "8"
    assert labels["nvidia.com/gpu.memory"] == str(80 * 1024)
    assert found["status"]["allocatable"]["nvidia.com/gpu"] == "8"


def test_a_node_reports_its_devices(api: Api) -> None:
    with api:
        reports = api.call("GET", NODE_DEVICES)["items"]
    assert [one["metadata"]["name"] for one in reports] == ["gpu-001", "gpu-002", "gpu-003"]
    devices = [device for one in reports for device in one["spec"]["devices"]]
    assert len({device["id"] for device in devices}) == 24
    assert [device["numaNode"] for device in devices[:8]] == [0, 0, 0, 0, 1, 1, 1, 1]
    assert {device["model"] for device in devices} == {"H100-80GB"}


def test_a_report_with_a_wrong_field_is_refused(api: Api) -> None:
    kind = {"apiVersion": "gpufleet.io/v1alpha1", "kind": "NodeDevices", "metadata": {"name": "bad"}}
    body = {**kind, "spec": {"devices": [{"id": "GPU-1", "health": "ill"}]}}
    with api, pytest.raises(RefusedError, match=r'422 .*health: Unsupported value: "ill"'):
        api.call("POST", NODE_DEVICES, body)


def placed(api: Api, wanted: Object, node: str) -> Object:
    """A pod that is bound to a node by hand; with GPUs it may not name the node itself."""
    made = api.call("POST", PODS, wanted)
    target = {"apiVersion": "v1", "kind": "Node", "name": node}
    name = wanted["metadata"]["name"]
    api.call("POST", f"{PODS}/{name}/binding", {"metadata": {"name": name}, "target": target})
    return made


def test_a_pod_that_is_bound_runs(api: Api) -> None:
    with api:
        placed(api, pod("bound", 1), "gpu-002")
        running = await_phase(api, "bound", "Running")
        assert {one["type"]: one["status"] for one in running["status"]["conditions"]}["Ready"] == "True"
        assert running["status"]["podIP"]
        api.call("DELETE", f"{PODS}/bound")
        limit_s = time.monotonic() + WAIT_S
        while api.request("GET", f"{PODS}/bound")[0] != 404:
            assert time.monotonic() < limit_s, "the pod never left"
            time.sleep(0.05)


def test_a_pod_made_anew_under_its_name_outlives_the_late_end_of_the_first(
    cluster: LocalCluster, api: Api
) -> None:
    with api:
        first = placed(api, pod("anew", 1), "gpu-003")
        await_phase(api, "anew", "Running")
        os.kill(cluster.pid("kwok"), signal.SIGSTOP)
        try:
            api.call("DELETE", f"{PODS}/anew?gracePeriodSeconds=0")
            second = placed(api, pod("anew", 1), "gpu-003")
        finally:
            os.kill(cluster.pid("kwok"), signal.SIGCONT)
        assert second["metadata"]["uid"] != first["metadata"]["uid"]
        assert await_phase(api, "anew", "Running")["metadata"]["uid"] == second["metadata"]["uid"]
        placed(api, pod("later", 1), "gpu-003")
        await_phase(api, "later", "Running")
        assert "deletionTimestamp" not in api.call("GET", f"{PODS}/anew")["metadata"]


def test_a_pod_ends_after_the_time_it_names(api: Api) -> None:
    with api:
        ending = pod("ending", 1)
        ending["metadata"]["annotations"] = {"gpufleet.io/simulated-run-time": "1s"}
        placed(api, ending, "gpu-001")
        assert await_phase(api, "ending", "Succeeded")["status"]["containerStatuses"][0]["state"][
            "terminated"
        ]


def test_applying_the_manifests_again_changes_nothing(api: Api) -> None:
    with api:
        path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/nodedevices.gpufleet.io"
        before = api.call("GET", path)["metadata"]["resourceVersion"]
        # Servers before 1.36 have no MutatingAdmissionPolicy.
        assert {one.split()[0].removesuffix("Binding") for one in manifests.install(api)} <= {
            "MutatingAdmissionPolicy"
        }
        assert api.call("GET", path)["metadata"]["resourceVersion"] == before


def test_a_kind_that_the_server_does_not_know_is_told(api: Api, tmp_path: Path) -> None:
    text = "apiVersion: example.com/v1\nkind: Unknown\nmetadata: {name: one}\n---\n# nothing\n"
    (tmp_path / "unknown.yaml").write_text(text, encoding="utf-8")
    with api:
        assert manifests.install(api, tmp_path) == ["Unknown one"]


def test_kube_scheduler_beside_it_places_pods(cluster: LocalCluster, api: Api) -> None:
    scheduler = cluster.start_kube_scheduler(program("kube-scheduler"))
    try:
        with api:
            api.call("POST", PODS, pod("placed", 8))
            assert await_phase(api, "placed", "Running")["spec"]["nodeName"].startswith("gpu-")
            api.call("DELETE", f"{PODS}/placed")
    finally:
        scheduler.stop()


@pytest.mark.parametrize(("name", "hint"), [("H1000-80GB", "did you mean H100"), ("zz", "a model such as")])
def test_an_unknown_model_is_refused_with_a_suggestion(name: str, hint: str) -> None:
    with pytest.raises(InputError, match=f"--gpu-model: no such model of GPU.*{hint}"):
        gpu_model(name)


def test_a_name_of_several_models_is_refused_with_their_names() -> None:
    with pytest.raises(InputError, match="A100-40GB, A100-80GB"):
        gpu_model("A100")
