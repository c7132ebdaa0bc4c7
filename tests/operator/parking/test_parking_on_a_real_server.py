"""Idle work on a real API server, with its own controllers: warned, parked with its volume kept, and woken.

The commands are those of docs/parking.md. There are no nodes: that a pod runs is written by the test. What
Kubeflow does with a Notebook is done by a stand-in, which keeps a StatefulSet as Kubeflow's controller would.
The controller of services has its test here too: it needs the same server and controllers.
"""

import datetime as dt
import itertools
from collections.abc import Iterator
from typing import Any

import pytest

from gpufleet.localkube.cluster import LocalCluster
from gpufleet.model.model_errors import WorldError
from gpufleet.operator.parking.hub_sessions import HubServer
from tests import waiting
from tests.chart import rendering
from tests.kube.manifests.real_server import Person
from tests.localkube.cluster import a_cluster
from tests.operator.parking.stage import (
    PATIENCE_S,
    POD,
    Stage,
)
from tests.operator.services.small_service import Service

CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
STAMP = "gpufleet.io/parking"
RULE = {"gpufleet.io/park-after": "10m", "gpufleet.io/park-warning": "1m"}
PARKING = {"operator": {"enabled": True, "parking": {"prometheusUrl": "http://prometheus:9090"}}}


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    """A cluster that knows Notebooks."""
    with a_cluster(tmp_path_factory.mktemp("parking")) as running:
        with Person(running, "root", ("system:masters",)) as admin:
            assert admin.ask("POST", CRDS, notebooks())[0] == 201
        yield running


@pytest.fixture
def admin(cluster: LocalCluster) -> Iterator[Person]:
    """An administrator."""
    with Person(cluster, "root", ("system:masters",)) as person:
        yield person


def notebooks() -> dict[str, Any]:
    """The definition of Notebooks, with any spec."""
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    names = {"kind": "Notebook", "plural": "notebooks", "singular": "notebook"}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "notebooks.kubeflow.org"},
        "spec": {"group": "kubeflow.org", "scope": "Namespaced", "names": names, "versions": [version]},
    }


def test_idle_work_is_warned_then_parked_with_its_volume_kept_and_woken_with_one_command(
    cluster: LocalCluster, admin: Person, capsys: pytest.CaptureFixture[str]
) -> None:
    stage = Stage(cluster, admin)
    stage.stateful_set("lab", RULE)
    stage.pod_runs("lab-0")
    stage.measurements.idle(stage.namespace, "lab-0")
    volume = stage.get("persistentvolumeclaims", "home-lab-0", "")["metadata"]["uid"]
    assert stage.turn() == 1
    assert stage.get("statefulsets", "lab")["spec"]["replicas"] == 1
    assert stage.turn() == 0
    assert stage.turn(dt.timedelta(minutes=2)) == 1
    stage.pod_is_gone("lab-0")
    assert stage.get("statefulsets", "lab")["spec"]["replicas"] == 0
    assert stage.get("persistentvolumeclaims", "home-lab-0", "")["metadata"]["uid"] == volume
    assert stage.turn() == 0
    assert stage.command("parked", "-A") == 0
    assert f"gpufleet wake statefulset/lab -n {stage.namespace}" in capsys.readouterr().out
    assert stage.command("wake", "statefulset/lab", "-n", stage.namespace, "--no-estimate") == 0
    stage.pod_runs("lab-0")
    assert stage.get("persistentvolumeclaims", "home-lab-0", "")["metadata"]["uid"] == volume
    stage.measurements.busy(stage.namespace, "lab-0")
    assert stage.turn() == 1
    back = stage.get("statefulsets", "lab")
    assert back["spec"]["replicas"] == 1
    assert STAMP not in back["metadata"]["annotations"]
    assert "gpufleet.io/parked" not in back["metadata"].get("labels", {})
    assert stage.reasons() == ["IdleWarning", "Parked", "Woken"]


def test_work_that_is_used_after_its_warning_is_not_parked(cluster: LocalCluster, admin: Person) -> None:
    stage = Stage(cluster, admin)
    stage.stateful_set("lab", {"gpufleet.io/park-after": "10m"})
    stage.pod_runs("lab-0")
    stage.measurements.idle(stage.namespace, "lab-0")
    stage.turn()
    stage.measurements.busy(stage.namespace, "lab-0")
    assert stage.turn(dt.timedelta(hours=1)) == 1
    assert stage.get("statefulsets", "lab")["spec"]["replicas"] == 1
    assert stage.reasons() == ["IdleWarning", "NotIdle"]


def test_work_that_is_not_measured_is_never_parked(cluster: LocalCluster, admin: Person) -> None:
    stage = Stage(cluster, admin)
    stage.stateful_set("lab", {"gpufleet.io/park-after": "10m"})
    stage.pod_runs("lab-0")
    assert stage.turn() == 0
    assert stage.turn(dt.timedelta(days=2)) == 0
    assert stage.reasons() == []


def test_a_rule_that_cannot_be_read_parks_nothing_and_is_told(cluster: LocalCluster, admin: Person) -> None:
    stage = Stage(cluster, admin)
    stage.stateful_set("lab", {"gpufleet.io/park-after": "soon"})
    stage.pod_runs("lab-0")
    stage.measurements.idle(stage.namespace, "lab-0")
    assert stage.turn() == 0
    assert stage.reasons() == ["NotParked"]
    assert admin.ask("DELETE", stage.path("statefulsets", "lab"))[0] == 200


def server_of_jupyterhub(user: str) -> dict[str, Any]:
    """A pod with labels, annotation and volume as KubeSpawner writes them."""
    labels = {
        "app": "jupyterhub",
        "app.kubernetes.io/component": "singleuser-server",
        "app.kubernetes.io/managed-by": "kubespawner",
        "app.kubernetes.io/name": "jupyterhub",
        "component": "singleuser-server",
        "hub.jupyter.org/network-access-hub": "true",
        "hub.jupyter.org/servername": "",
        "hub.jupyter.org/username": user,
    }
    home = {"name": f"volume-{user}", "persistentVolumeClaim": {"claimName": f"claim-{user}"}}
    annotations = {"hub.jupyter.org/username": user}
    metadata = {"name": f"jupyter-{user}", "labels": labels, "annotations": annotations}
    return {"metadata": metadata, "spec": {**POD, "restartPolicy": "OnFailure", "volumes": [home]}}


def test_an_idle_server_of_jupyterhub_is_warned_and_ends_and_its_volume_stays(
    cluster: LocalCluster, admin: Person
) -> None:
    """Ada's is idle, Bob's is at work, and of Cleo's nothing is known."""
    stage = Stage(cluster, admin, annotations=RULE)
    claim = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    for user in ("ada", "bob", "cleo"):
        volume = {"metadata": {"name": f"claim-{user}"}, "spec": claim}
        assert admin.ask("POST", stage.path("persistentvolumeclaims", group=""), volume)[0] == 201
        assert admin.ask("POST", stage.path("pods", group=""), server_of_jupyterhub(user))[0] == 201
        stage.pod_runs(f"jupyter-{user}")
    stage.measurements.idle(stage.namespace, "jupyter-ada")
    stage.measurements.busy(stage.namespace, "jupyter-bob")
    assert stage.turn() == 1
    assert STAMP in stage.get("pods", "jupyter-ada", "")["metadata"]["annotations"]
    assert stage.turn() == 0
    assert stage.turn(dt.timedelta(minutes=2)) == 1
    stage.pod_is_gone("jupyter-ada")
    assert stage.get("persistentvolumeclaims", "claim-ada", "")
    assert stage.turn(dt.timedelta(days=2)) == 0
    assert stage.get("pods", "jupyter-bob", "")
    assert stage.get("pods", "jupyter-cleo", "")
    assert stage.reasons() == ["IdleWarning", "Parked"]


class HubStandIn:
    """A hub that has seen some users, or does not answer."""

    def __init__(self, namespace: str) -> None:
        self.namespace = namespace
        self.seen: dict[HubServer, int] = {}
        self.is_there = True

    def last_seen(self) -> dict[HubServer, int]:
        """When each was there last."""
        if not self.is_there:
            raise WorldError("no answer")
        return self.seen


def test_a_server_whose_user_its_hub_has_seen_is_not_idle(cluster: LocalCluster, admin: Person) -> None:
    """Ada reads in an open notebook, of Bob's server the hub knows nothing, and Cleo went long ago."""
    stage = Stage(cluster, admin, annotations=RULE)
    stage.hub = hub = HubStandIn(stage.namespace)
    for user in ("ada", "bob", "cleo"):
        pod = server_of_jupyterhub(user)
        pod["spec"].pop("volumes")
        assert admin.ask("POST", stage.path("pods", group=""), pod)[0] == 201
        stage.pod_runs(f"jupyter-{user}")
        stage.measurements.idle(stage.namespace, f"jupyter-{user}")
    now_us = round(stage.clock.now().timestamp() * 1e6)
    hub.seen = {HubServer("ada", ""): now_us, HubServer("cleo", ""): now_us - 7 * 86_400 * 10**6}
    hub.is_there = False
    assert stage.turn() == 0
    hub.is_there = True
    assert stage.turn() == 1
    assert stage.reasons() == ["IdleWarning"]
    assert STAMP in stage.get("pods", "jupyter-cleo", "")["metadata"]["annotations"]


def test_a_disruption_budget_keeps_an_idle_server_of_jupyterhub(cluster: LocalCluster, admin: Person) -> None:
    stage = Stage(cluster, admin, annotations=RULE)
    selector = {"matchLabels": {"component": "singleuser-server"}}
    budget = {"metadata": {"name": "user"}, "spec": {"minAvailable": 1, "selector": selector}}
    assert admin.ask("POST", stage.path("poddisruptionbudgets", group="policy/v1"), budget)[0] == 201
    pod = server_of_jupyterhub("ada")
    pod["spec"].pop("volumes")
    assert admin.ask("POST", stage.path("pods", group=""), pod)[0] == 201
    stage.pod_runs("jupyter-ada")
    stage.measurements.idle(stage.namespace, "jupyter-ada")
    assert stage.turn() == 1
    assert stage.turn(dt.timedelta(minutes=2)) == 0
    assert "deletionTimestamp" not in stage.get("pods", "jupyter-ada", "")["metadata"]


class KubeflowStandIn:
    """Keeps the StatefulSet of a Notebook as Kubeflow's controller does: no pod while it is stopped."""

    def __init__(self, stage: Stage, name: str) -> None:
        self.stage, self.name = stage, name
        body = {
            "apiVersion": "kubeflow.org/v1",
            "kind": "Notebook",
            "metadata": {"name": name},
            "spec": {"template": {"spec": POD}},
        }
        status, made = stage.admin.ask("POST", stage.path("notebooks", group="kubeflow.org/v1"), body)
        assert status == 201, made
        stage.stateful_set(name, labels={"notebook-name": name})
        owner = {
            "apiVersion": "kubeflow.org/v1",
            "kind": "Notebook",
            "name": name,
            "uid": made["metadata"]["uid"],
            "controller": True,
        }
        stage.admin.merge(stage.path("statefulsets", name), {"metadata": {"ownerReferences": [owner]}})

    def keep(self) -> None:
        """Scale the StatefulSet as the Notebook says."""
        found = self.stage.get("notebooks", self.name, "kubeflow.org/v1")
        stopped = "kubeflow-resource-stopped" in found["metadata"].get("annotations", {})
        self.stage.admin.merge(
            self.stage.path("statefulsets", self.name), {"spec": {"replicas": 0 if stopped else 1}}
        )


def test_a_notebook_is_parked_by_the_rule_of_its_namespace_and_woken_by_an_annotation(
    cluster: LocalCluster, admin: Person
) -> None:
    stage = Stage(cluster, admin, annotations=RULE)
    kubeflow = KubeflowStandIn(stage, "lab")
    stage.pod_runs("lab-0")
    stage.measurements.idle(stage.namespace, "lab-0")
    assert stage.turn() == 1
    assert stage.turn(dt.timedelta(minutes=2)) == 1
    kubeflow.keep()
    stage.pod_is_gone("lab-0")
    assert stage.get("persistentvolumeclaims", "home-lab-0", "")
    path = stage.path("notebooks", "lab", "kubeflow.org/v1")
    admin.merge(path, {"metadata": {"annotations": {"gpufleet.io/wake": "now"}}})
    assert stage.turn() == 1
    kubeflow.keep()
    stage.pod_runs("lab-0")
    stage.measurements.busy(stage.namespace, "lab-0")
    assert stage.turn() == 1
    assert stage.reasons() == ["IdleWarning", "Parked", "Waking", "Woken"]


def test_work_is_parked_and_woken_by_hand_as_the_page_says(
    cluster: LocalCluster, admin: Person, capsys: pytest.CaptureFixture[str]
) -> None:
    stage = Stage(cluster, admin, "team-a")
    kubeflow = KubeflowStandIn(stage, "lab")
    stage.pod_runs("lab-0")
    assert stage.command("park", "statefulset/lab", "-n", "team-a") == 2
    assert "Notebook lab, which would undo it" in capsys.readouterr().err
    assert stage.command("park", "notebook/lab", "-n", "team-a") == 0
    assert "1 GPU given back" in capsys.readouterr().out
    kubeflow.keep()
    stage.pod_is_gone("lab-0")
    assert stage.command("park", "notebook/lab", "-n", "team-a") == 2
    assert stage.command("parked", "-A") == 0
    assert stage.command("wake", "notebook/lab", "-n", "team-a", "--no-estimate") == 0
    kubeflow.keep()
    stage.pod_runs("lab-0")
    assert stage.command("wake", "notebook/lab", "-n", "team-a", "--no-estimate") == 2


def test_before_work_wakes_the_engine_says_when_and_where_it_would_start(
    cluster: LocalCluster, admin: Person, capsys: pytest.CaptureFixture[str]
) -> None:
    stage = Stage(cluster, admin)
    stage.stateful_set("lab")
    stage.pod_runs("lab-0")
    assert stage.command("park", "lab", "-n", stage.namespace) == 0
    stage.pod_is_gone("lab-0")
    capacity = {"cpu": "64", "memory": "640Gi", "pods": "110", "nvidia.com/gpu": "16"}
    ready = [{"type": "Ready", "status": "True"}]
    assert admin.ask("POST", "/api/v1/nodes", {"metadata": {"name": "gpu-1"}})[0] == 201
    admin.merge("/api/v1/nodes/gpu-1", {"spec": {"taints": None}})
    status = {"capacity": capacity, "allocatable": capacity, "conditions": ready}
    assert admin.merge("/api/v1/nodes/gpu-1/status", {"status": status})[0] == 200
    capsys.readouterr()
    assert stage.command("wake", "lab", "-n", stage.namespace, "--plan") == 0
    said = capsys.readouterr().out
    assert admin.ask("DELETE", "/api/v1/nodes/gpu-1")[0] == 200
    assert said == f"{stage.namespace}/lab would start at once, on gpu-1.\n"
    assert stage.get("statefulsets", "lab")["spec"]["replicas"] == 0


@pytest.mark.parametrize("dies_after", [0, 1])
def test_killed_at_any_write_a_gang_is_parked_whole(
    cluster: LocalCluster, admin: Person, dies_after: int
) -> None:
    stage = Stage(cluster, admin)
    for name in ("a", "b"):
        stage.stateful_set(name, {**RULE, "gpufleet.io/gang": "train"})
        stage.pod_runs(f"{name}-0")
        stage.measurements.idle(stage.namespace, f"{name}-0")
    assert stage.turn(dies_after=dies_after) == dies_after
    stage.turn()
    stage.turn(dt.timedelta(minutes=2), dies_after=dies_after)
    stage.turn()
    assert [stage.get("statefulsets", name)["spec"]["replicas"] for name in ("a", "b")] == [0, 0]
    assert sorted(stage.reasons()) == ["IdleWarning", "IdleWarning", "Parked", "Parked"]


def test_with_the_rights_of_the_chart_it_parks_and_changes_nothing_else(
    cluster: LocalCluster, admin: Person
) -> None:
    objects = rendering.rendered(PARKING)
    made = {
        "ClusterRole": "/apis/rbac.authorization.k8s.io/v1/clusterroles",
        "ClusterRoleBinding": "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings",
        "ValidatingAdmissionPolicy": "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies",
        "ValidatingAdmissionPolicyBinding": (
            "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings"
        ),
    }
    for one in objects:
        if one["metadata"]["name"].startswith("gpufleet-parking"):
            status, answer = admin.ask("POST", made[one["kind"]], one)
            assert status == 201, answer
    stage = Stage(cluster, admin)
    stage.stateful_set("lab", {"example": "kept"})
    user = f"system:serviceaccount:{rendering.NAMESPACE}:gpufleet-operator"
    with Person(cluster, user) as operator:
        path = stage.path("statefulsets", "lab")
        tries = itertools.count()

        def is_refused() -> bool:
            other = {"spec": {"template": {"spec": {"nodeName": f"elsewhere-{next(tries)}"}}}}
            return operator.merge(path, other)[0] == 403

        waiting.until(is_refused, PATIENCE_S, "the guard does not hold")
        for refused in (
            {"metadata": {"annotations": {"example": None}}},
            {"metadata": {"labels": {"example": "new"}}},
            {"spec": {"persistentVolumeClaimRetentionPolicy": {"whenScaled": "Delete"}}},
        ):
            assert operator.merge(path, refused)[0] == 403, refused
        allowed = {"metadata": {"annotations": {STAMP: "{}"}}, "spec": {"replicas": 0}}
        assert operator.merge(path, allowed)[0] == 200


def test_kubernetes_ends_the_replica_that_frees_most_and_says_why_others_have_no_place(
    cluster: LocalCluster, admin: Person
) -> None:
    service = Service(Stage(cluster, admin), 3)
    for name in ("alone", "shared"):
        assert admin.ask("POST", "/api/v1/nodes", {"metadata": {"name": name}})[0] == 201
        has = {"status": {"allocatable": {"nvidia.com/gpu": "4"}, "capacity": {"nvidia.com/gpu": "4"}}}
        assert admin.merge(f"/api/v1/nodes/{name}/status", has)[0] == 200
    names = [one["metadata"]["name"] for one in service.pods()]
    # Without a cost Kubernetes would end one of the two that share a node.
    for name, node in zip(names, ("shared", "shared", "alone"), strict=True):
        service.runs(name, node)
    assert service.turn() == 1
    assert service.turn() == 0
    service.scaled(2)
    assert [one["metadata"]["name"] for one in service.pods()] == names[:2]
    service.scaled(4)
    for one in service.pods():
        if not one["spec"].get("nodeName"):
            service.waits(one["metadata"]["name"], "WaitingForQuota")
    assert service.turn() == 1
    said = service.condition()
    assert (said["status"], said["reason"]) == ("False", "WaitingForQuota")
    assert said["message"] == "2 replicas have a place, 2 wait: the queue is full"
    assert service.stage.reasons() == ["ReplicasNotPlaced"]
    # The controller of Deployments keeps the condition where it writes its own.
    service.scaled(2)
    assert service.condition() == said
    assert service.turn() == 1
    assert service.condition()["status"] == "True"
    assert service.turn() == 0
    service.scaled(3)
    for one in service.pods():
        if not one["spec"].get("nodeName"):
            service.waits(one["metadata"]["name"], "WaitingForQuota")
    assert service.turn() == 1
    # Without any replica none waits.
    service.scaled(0)
    assert service.turn() == 1
    assert service.condition()["status"] == "True"
    assert service.turn() == 0
