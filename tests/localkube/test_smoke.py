"""What gpufleet offers on the version of Kubernetes under test; `make test-kube VERSION=...` chooses it.

A whole local cluster as a person starts it, its live scheduler included; each test leaves the nodes empty.
"""

import subprocess
from collections.abc import Iterator

import msgspec
import pytest

from gpufleet.cli import main as cli
from gpufleet.localkube import manifests, persistent
from gpufleet.localkube.access.api import Object
from gpufleet.localkube.cluster import LocalCluster
from gpufleet.localkube.features import gang_api_version
from gpufleet.localkube.programs.releases import minor_version
from tests.localkube.cluster import KUBERNETES, program
from tests.localkube.real_node import PODS, awaited, get_pod
from tests.localkube.test_persistent import up

MUTATING_SINCE = (1, 36)
GRANT = "gpufleet.io/grant"


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    """`gpufleet up`, with two nodes of four GPUs and our scheduler at work."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_STATE_HOME", str(tmp_path_factory.mktemp("state")))
        done = up("--name=smoke", "--nodes=2", "--gpus-per-node=4")
        assert done.returncode == 0, done.stderr
        yield persistent.running("smoke")
        assert cli.main(["down", "--name=smoke"]) == 0


def create(
    cluster: LocalCluster, name: str, limits: Object, namespace: str = "default", **more: object
) -> None:
    """A pod of ours; ``more`` are fields of its spec, or annotations."""
    metadata = {"name": name, "annotations": more.pop("annotations", {})}
    container = {"name": "main", "image": "any", "resources": {"limits": limits}}
    spec = {
        "schedulerName": "gpufleet",
        "terminationGracePeriodSeconds": 0,
        "containers": [container],
        **more,
    }
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}
    with cluster.api() as api:
        api.call("POST", PODS.replace("default", namespace), pod)


def devices_of(cluster: LocalCluster, *names: str) -> list[str]:
    """The devices granted to these pods once all of them run; they are deleted."""
    devices = []
    for name in names:
        pod = await_running(cluster, name)
        grant = msgspec.json.decode(pod["metadata"]["annotations"][GRANT])
        devices += [device["id"] for granted in grant["containers"].values() for device in granted]
    with cluster.api() as api:
        for name in names:
            api.call("DELETE", f"{PODS}/{name}")
    return devices


def await_running(cluster: LocalCluster, name: str) -> Object:
    """The pod when it runs."""

    def running() -> Object | None:
        pod = get_pod(cluster, name)
        return pod if pod is not None and pod["status"].get("phase") == "Running" else None

    return awaited(f"{name} runs", running, lambda: str((get_pod(cluster, name) or {}).get("status")))


def test_whole_gpus_are_granted(running: LocalCluster) -> None:
    create(running, "one", {"nvidia.com/gpu": "1"})
    create(running, "four", {"nvidia.com/gpu": "4"})
    assert len(set(devices_of(running, "one", "four"))) == 5


def test_two_halves_share_a_gpu(running: LocalCluster) -> None:
    for name in ("left", "right"):
        create(running, name, {"gpufleet.io/gpu-share": "1"}, annotations={"gpufleet.io/gpu-fraction": "0.5"})
    assert len(set(devices_of(running, "left", "right"))) == 1


def test_a_gang_starts_whole(running: LocalCluster) -> None:
    annotations = {"gpufleet.io/gang": "g", "gpufleet.io/gang-min-members": "2"}
    for name in ("g-0", "g-1"):
        create(running, name, {"nvidia.com/gpu": "4"}, annotations=annotations)
    assert len(set(devices_of(running, "g-0", "g-1"))) == 8


def test_a_native_gang_starts_whole(running: LocalCluster) -> None:
    version = gang_api_version(KUBERNETES)
    if version is None:
        pytest.skip(f"Kubernetes {KUBERNETES} has no gangs of its own")
    group = {
        "apiVersion": f"scheduling.k8s.io/{version}",
        "kind": "PodGroup",
        "metadata": {"name": "native"},
        "spec": {"schedulingPolicy": {"gang": {"minCount": 2}}},
    }
    create(running, "n-0", {"nvidia.com/gpu": "4"}, schedulingGroup={"podGroupName": "native"})
    with running.api() as api:
        api.call("POST", f"/apis/scheduling.k8s.io/{version}/namespaces/default/podgroups", group)
    create(running, "n-1", {"nvidia.com/gpu": "4"}, schedulingGroup={"podGroupName": "native"})
    assert len(set(devices_of(running, "n-0", "n-1"))) == 8


def test_clusters_side_by_side_have_a_scheduler_each(running: LocalCluster) -> None:
    done = up("--name=beside", "--nodes=1", "--gpus-per-node=1")
    assert done.returncode == 0, done.stderr
    beside = persistent.running("beside")
    for cluster in (running, beside):
        create(cluster, "same", {"nvidia.com/gpu": "1"})
    assert devices_of(running, "same") != devices_of(beside, "same")
    assert cli.main(["down", "--name=beside"]) == 0


def test_nobody_else_writes_a_grant(running: LocalCluster) -> None:
    create(running, "guarded", {"nvidia.com/gpu": "1"})
    await_running(running, "guarded")
    kubectl = [str(program("kubectl")), f"--kubeconfig={running.kubeconfig}"]
    forge = [*kubectl, "annotate", "--overwrite", "pod", "guarded", f"{GRANT}=mine"]
    done = subprocess.run(forge, capture_output=True, text=True, check=False)
    assert done.returncode != 0
    assert "gpufleet-grant-guard" in done.stderr
    devices_of(running, "guarded")


def test_pods_as_before_are_completed_where_the_server_can(running: LocalCluster) -> None:
    """Beginning with the version that has MutatingAdmissionPolicy; before, `up` says that it is left out."""
    with running.api() as api:
        group = api.call("GET", "/apis/admissionregistration.k8s.io/v1")
        served = any(one["kind"] == "MutatingAdmissionPolicy" for one in group["resources"])
        assert served == (minor_version(KUBERNETES) >= MUTATING_SINCE)
        if not served:
            return
        labels = {"gpufleet.io/managed": "true"}
        api.call("POST", "/api/v1/namespaces", {"metadata": {"name": "managed", "labels": labels}})
        body = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": "as-before"},
            "spec": {
                "containers": [{"name": "c", "image": "i", "resources": {"limits": {"nvidia.com/gpu": "1"}}}]
            },
        }
        path = "/api/v1/namespaces/managed"

        def completed() -> bool:
            made = api.call("POST", f"{path}/pods?dryRun=All", body)
            return bool(made["spec"]["schedulerName"] == "gpufleet")

        awaited(
            "the service account", lambda: api.request("GET", f"{path}/serviceaccounts/default")[0] == 200
        )
        awaited("a completed pod", completed)


def test_what_the_server_does_not_know_is_said(running: LocalCluster) -> None:
    with running.api() as api:
        left_out = manifests.install(api)
    expected = [] if minor_version(KUBERNETES) >= MUTATING_SINCE else ["MutatingAdmissionPolicy"]
    assert sorted({one.split()[0].removesuffix("Binding") for one in left_out}) == expected
