"""What gpufleet offers on the version of Kubernetes under test; `make test-kube VERSION=...` chooses it.

A whole local cluster as a person starts it, its live scheduler included; each test leaves the nodes empty.
"""

import subprocess
from collections.abc import Iterator

import msgspec
import pytest

from gpufleet.cli import main as cli
from gpufleet.localkube import manifests, persistent
from gpufleet.localkube.access.api import Object, RefusedError
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
    """`gpufleet up`, with nodes of several kinds and both schedulers at work."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_STATE_HOME", str(tmp_path_factory.mktemp("state")))
        pools = ("2:H100-80GB:4", "1:A100-80GB:2:3g.40gb,2g.20gb", "1:MI300X:2", "1:none")
        done = up("--name=smoke", *(f"--pool={pool}" for pool in pools))
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


def plain_pod(cluster: LocalCluster, name: str, limits: Object, **more: object) -> Object:
    """A pod as guides write them, which names no scheduler, when it runs; it is deleted."""
    container = {"name": "main", "image": "any", "resources": {"limits": limits}}
    spec = {"terminationGracePeriodSeconds": 0, "containers": [container], **more}
    with cluster.api() as api:
        api.call("POST", PODS, {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec})
    found = await_running(cluster, name)
    with cluster.api() as api:
        api.call("DELETE", f"{PODS}/{name}")
    return found


def test_a_pod_without_gpus_that_names_no_scheduler_is_placed_by_kubernetes_own(
    running: LocalCluster,
) -> None:
    assert plain_pod(running, "plain", {"cpu": "1"})["spec"]["schedulerName"] == "default-scheduler"


@pytest.mark.parametrize("resource", ["nvidia.com/gpu", "nvidia.com/mig-3g.40gb", "amd.com/gpu"])
def test_yaml_of_guides_runs_in_the_default_namespace_unchanged(running: LocalCluster, resource: str) -> None:
    name = f"guide-{resource.partition('/')[2].replace('.', '-')}-{resource[:3]}"
    runtime = {"runtimeClassName": "nvidia"} if resource.startswith("nvidia") else {}
    found = plain_pod(running, name, {resource: "1"}, **runtime)
    expected = "gpufleet" if minor_version(KUBERNETES) >= MUTATING_SINCE else "default-scheduler"
    assert found["spec"]["schedulerName"] == expected


def test_a_claim_without_a_class_gets_a_volume_where_its_pod_runs_and_loses_it_at_its_end(
    running: LocalCluster,
) -> None:
    claims = PODS.replace("pods", "persistentvolumeclaims")
    claim = {
        "metadata": {"name": "data"},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "3Gi"}}},
    }
    with running.api() as api:
        api.call("POST", claims, claim)
    volume = {"name": "d", "persistentVolumeClaim": {"claimName": "data"}}
    node = plain_pod(running, "with-data", {"nvidia.com/gpu": "1"}, volumes=[volume])["spec"]["nodeName"]
    volumes = "/api/v1/persistentvolumes"
    with running.api() as api:
        name = api.call("GET", f"{claims}/data")["spec"]["volumeName"]
        made = api.call("GET", f"{volumes}/{name}")["spec"]
        assert made["capacity"] == {"storage": "3Gi"}
        terms = made["nodeAffinity"]["required"]["nodeSelectorTerms"]
        assert terms[0]["matchExpressions"][0]["values"] == [node]
        api.call("DELETE", f"{claims}/data")
        awaited("the volume goes", lambda: api.request("GET", f"{volumes}/{name}")[0] == 404 or None)


def test_the_kinds_of_monitoring_are_taken_and_checked(running: LocalCluster) -> None:
    rules = "/apis/monitoring.coreos.com/v1/namespaces/default/prometheusrules"
    alert = {"alert": "GPUUnderutilised", "expr": "DCGM_FI_DEV_GPU_UTIL < 10", "for": "30m"}

    def rule(name: str, **more: str) -> Object:
        groups = [{"name": "gpu", "rules": [{**alert, **more}]}]
        kind = {"apiVersion": "monitoring.coreos.com/v1", "kind": "PrometheusRule"}
        return {**kind, "metadata": {"name": name}, "spec": {"groups": groups}}

    with running.api() as api:
        api.call("POST", rules, rule("taken"))
        with pytest.raises(RefusedError, match=r"rules\[0\]\.for"):
            api.call("POST", rules, rule("refused", **{"for": "half an hour"}))


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
