"""From the release before to this one and back: what people wrote stays, and pods run on.

The packages are real, the API server and its controllers too; kubelets are simulated.
"""

import asyncio
from collections.abc import Iterator
from http.client import TOO_MANY_REQUESTS
from typing import Any

import msgspec
import pytest

from gpufleet.cli.main import main
from gpufleet.kube.connection import ClusterChoice, connect
from gpufleet.kube.definition_skew import missing_fields
from gpufleet.kube.resources import OWN_KINDS
from gpufleet.localkube import simulated_nodes
from gpufleet.localkube.access.api import APPLY, RefusedError
from gpufleet.localkube.cluster import LocalCluster
from gpufleet.localkube.simulated_nodes import SimulatedNodes, gpu_model
from gpufleet.model.identifiers import FleetPolicyName
from gpufleet.operator.rollout.stamp import RolloutPhase, Stamp
from tests.chart.chart_before import ARCHIVE
from tests.chart.helm_in_cluster import in_cluster, kept, of_release
from tests.chart.kept_kinds import KEPT_KINDS
from tests.chart.rendering import CHART, NAMESPACE, RELEASE, as_options
from tests.kube.manifests.real_server import PODS, Person, a_grant
from tests.localkube.cluster import a_cluster
from tests.localkube.real_node import awaited

KINDS = OWN_KINDS
API = "gpufleet.io/v1alpha1"
NODES = "/api/v1/nodes"
RIGHTS = ("ServiceAccount", "Role", "RoleBinding", "ClusterRole", "ClusterRoleBinding")
AT = f"/apis/{API}"
QUEUE = {
    "parent": "company",
    "priority": 5,
    "weight": "2.5",
    "ordering": "Strict",
    "state": "Held",
    "quotas": [
        {"resource": "gpu", "nominal": 8, "borrowingLimit": 4, "lendingLimit": 2, "hardLimit": 16},
        {"resource": "cost", "nominal": "12.5"},
    ],
    "preemption": {
        "withinQueue": "Any",
        "reclaim": "LowerPriority",
        "borrowing": "LowerPriority",
        "borrowingPriorityMax": 3,
        "preemptAfter": "5m",
        "reclaimAfter": "10m",
        "elasticAfter": "15m",
    },
    "runTimeMax": "24h",
    "halfLife": "72h",
    "reserveAfter": "1h",
    "learnRunTimes": True,
    "namespaces": ["team-a"],
    "namespaceSelector": {
        "matchLabels": {"team": "a"},
        "matchExpressions": [{"key": "stage", "operator": "In", "values": ["research"]}],
    },
    "localQueues": [{"namespace": "team-a", "name": "default"}],
}
"""Every field that a FleetQueue of the release before had, but for prices, which stand on the root."""

ROOT_QUEUE = {"prices": [{"model": "H100-80GB", "price": "2.5"}]}
POLICY = {
    "nodeSelector": {"matchLabels": {"pool": "none"}},
    "labels": {"example.com/pool": "a"},
}
PROJECT = {"namespaces": ["vision"], "members": [{"group": "vision", "role": "Member"}]}
NEW = {"operator.enabled": True, "operator.projects.enabled": True}
NOMINATION = {
    "holder": "gang:team-a/train",
    "number": 1,
    "places": [{"pod": "team-a/train-0", "node": "gpu-001", "devices": ["GPU-1"]}],
    "immuneTo": ["company"],
}
"""What a leader has written down of work for which others end; the last field is new."""


@pytest.fixture(scope="module")
def before(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    """The release before in a cluster with two nodes, queues, and pods at work."""
    with a_cluster(tmp_path_factory.mktemp("upgrade"), "upgrade") as cluster:
        in_cluster(cluster, "install", RELEASE, ARCHIVE, "--create-namespace")
        simulated_nodes.create(cluster, SimulatedNodes(2, 8, gpu_model("H100-80GB")))
        with cluster.api() as api:
            api.call("POST", "/api/v1/namespaces", {"metadata": {"name": "team-a"}})
            for name, spec in (("company", ROOT_QUEUE), ("team-a", QUEUE)):
                api.call("POST", f"{AT}/fleetqueues?fieldValidation=Strict", queue(name, spec))
        run_a_pod(cluster)
        yield cluster


def queue(name: str, spec: dict[str, Any]) -> dict[str, Any]:
    return {"apiVersion": API, "kind": "FleetQueue", "metadata": {"name": name}, "spec": spec}


def run_a_pod(cluster: LocalCluster) -> None:
    """A pod of a user with a grant of that release's version, bound as its scheduler binds."""
    account = "system:serviceaccount:gpufleet-system:gpufleet-scheduler"
    limits = {"limits": {"nvidia.com/gpu": "1"}}
    container = {"name": "c", "image": "example.com/none", "resources": limits}
    spec = {"schedulerName": "gpufleet", "containers": [container], "automountServiceAccountToken": False}
    with Person(cluster, "root", ("system:masters",)) as person:
        assert person.create({"metadata": {"name": "at-work"}, "spec": spec})[0] == 201
    with Person(cluster, account, ("system:masters",)) as person:
        body = {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {"name": "at-work", "annotations": {"gpufleet.io/grant": a_grant(1)}},
            "target": {"apiVersion": "v1", "kind": "Node", "name": "gpu-001"},
        }
        status, answer = person.ask("POST", f"{PODS}/at-work/binding", body)
        assert status == 201, answer
    awaited("it runs", lambda: get(cluster, f"{PODS}/at-work")["status"]["phase"] == "Running")


def get(cluster: LocalCluster, path: str) -> dict[str, Any]:
    def answered() -> dict[str, Any] | None:
        with cluster.api() as api:
            try:
                found: dict[str, Any] = api.call("GET", path)
            except RefusedError as error:
                if error.status == TOO_MANY_REQUESTS:
                    return None
                raise
        return found

    # A definition that was just written has no storage for a moment, and the server asks for patience.
    return awaited(f"an answer to {path}", answered)


def told(one: dict[str, Any]) -> tuple[object, ...]:
    """An object without what a server changes when it is written again as it is."""
    metadata = one["metadata"]
    kept_metadata = {key: metadata.get(key) for key in ("name", "uid", "generation", "labels", "annotations")}
    return kept_metadata, one.get("spec"), one.get("status")


def of_users(cluster: LocalCluster) -> dict[str, object]:
    """All that people and leaders wrote, and the pods that run for them."""
    found: dict[str, object] = {}
    for path in (f"{AT}/fleetqueues", f"{AT}/nodedevices", PODS):
        found |= {f"{path}/{one['metadata']['name']}": told(one) for one in get(cluster, path)["items"]}
    return found


def missing(cluster: LocalCluster) -> tuple[str, ...]:
    """Fields that this release knows, and that the definitions in the cluster would drop."""

    async def ask() -> tuple[str, ...]:
        async with connect(ClusterChoice(cluster.kubeconfig, "")) as connection:
            return await missing_fields(connection.client, KINDS)

    return asyncio.run(ask())


def nominated(cluster: LocalCluster) -> object:
    """What stands in the status of a queue after a leader of this release wrote it."""
    with cluster.api() as api:
        body = {"status": {"nominations": [NOMINATION]}}
        path = f"{AT}/fleetqueues/team-a/status"
        written = api.call("PATCH", path, body, content_type="application/merge-patch+json")
    return written["status"]["nominations"]


def test_the_release_before_drops_what_it_does_not_know(before: LocalCluster) -> None:
    """So that the upgrade has something to bring; and the check of this release says so."""
    assert {"FleetPolicy", "GpuProject"} <= set(missing(before))
    assert "FleetQueue status.nominations[].immuneTo" in missing(before)


def test_an_upgrade_keeps_what_people_wrote_and_drops_no_field(before: LocalCluster) -> None:
    was = of_users(before)
    assert len(was) == 5
    in_cluster(before, "upgrade", RELEASE, CHART, *as_options(NEW))
    awaited("definitions of this release", lambda: missing(before) == (), lambda: str(missing(before)))
    assert of_users(before) == was
    assert of_release(before) == kept(in_cluster(before, "get", "manifest", RELEASE))
    assert nominated(before) == [NOMINATION]
    with before.api() as api:
        for plural, kind, spec in (
            ("fleetpolicies", "FleetPolicy", POLICY),
            ("gpuprojects", "GpuProject", PROJECT),
        ):
            made = api.call(
                "POST",
                f"{AT}/{plural}?fieldValidation=Strict",
                {"apiVersion": API, "kind": kind, "metadata": {"name": "new"}, "spec": spec},
            )
            assert made["spec"].items() >= spec.items()


def test_the_way_back_keeps_objects_of_both_releases(before: LocalCluster) -> None:
    """Definitions stay with their objects; a field that the release before does not know is not shown."""
    was = of_users(before)
    in_cluster(before, "rollback", RELEASE, "1")
    awaited("its definition", lambda: "FleetQueue status.nominations[].immuneTo" in missing(before))
    for plural in ("fleetpolicies", "gpuprojects"):
        assert [one["metadata"]["name"] for one in get(before, f"{AT}/{plural}")["items"]] == ["new"]
    now = of_users(before)
    assert now.keys() == was.keys()
    assert {name for name in was if now[name] != was[name]} == {f"{AT}/fleetqueues/team-a"}
    known = {key: value for key, value in NOMINATION.items() if key != "immuneTo"}
    queue_now = get(before, f"{AT}/fleetqueues/team-a")
    assert queue_now["spec"].items() >= QUEUE.items()
    assert queue_now["status"]["nominations"] == [known]


def test_what_was_not_written_meanwhile_is_whole_after_the_next_upgrade(before: LocalCluster) -> None:
    in_cluster(before, "upgrade", RELEASE, CHART, *as_options(NEW))
    awaited("definitions of this release", lambda: missing(before) == ())
    assert get(before, f"{AT}/fleetqueues/team-a")["status"]["nominations"] == [NOMINATION]


DEFINITIONS = {("CustomResourceDefinition", f"{kind.plural}.gpufleet.io") for kind in KINDS}
OF_OTHERS = {"key": "example.com/repair", "effect": "NoExecute"}
LEAVING = "system:serviceaccount:gpufleet-system:gpufleet-leave"


def test_an_uninstall_in_the_middle_of_an_upgrade_and_of_rollouts_leaves_nothing_of_ours(
    before: LocalCluster,
) -> None:
    """Last: it takes everything away. The chart's Job has no node here: its command runs with its rights."""
    webhook = {"admission.webhook.enabled": True, "operator.nodeSelector": {"example.com/none": "here"}}
    options = as_options({**NEW, **webhook})
    in_cluster(before, "upgrade", RELEASE, CHART, "--wait", "--timeout=5s", *options, code=1)
    assert len(of_webhooks(before)) > 1
    nodes = [leave_in(before, phase, is_ours=is_ours) for phase in RolloutPhase for is_ours in (True, False)]
    hooks = in_cluster(before, "get", "hooks", RELEASE)
    in_cluster(before, "uninstall", RELEASE, "--no-hooks")
    awaited(
        "nothing but definitions", lambda: of_release(before) == DEFINITIONS, lambda: str(of_release(before))
    )
    assert of_webhooks(before) == []
    give_rights(before, hooks)
    config = before.kubeconfig_for(LEAVING, ("system:serviceaccounts", "system:authenticated"))
    assert main(["leave", "--yes", f"--namespace={NAMESPACE}", f"--kubeconfig={config}"]) == 0
    for name, is_ours in nodes:
        found = get(before, f"{NODES}/{name}")
        # A cordon of an administrator is not undone, and all else of ours is gone.
        assert found["spec"].get("unschedulable", False) is not is_ours
        # Kubernetes itself writes a cordon as a taint too, and takes it away, a moment later.
        taints = {one["key"] for one in found["spec"]["taints"]} - {"node.kubernetes.io/unschedulable"}
        assert taints == {OF_OTHERS["key"]}
        assert set(found["metadata"]["labels"]) == {"zone"}
        assert not [key for key in found["metadata"].get("annotations", {}) if "gpufleet" in key]
    assert finalizers(before) == set()


def leave_in(cluster: LocalCluster, phase: RolloutPhase, *, is_ours: bool) -> tuple[str, bool]:
    """A cordoned node in this phase of a rollout: its name, and whether the rollout cordoned it."""
    name = f"{phase.value.lower()}-{'ours' if is_ours else 'theirs'}"
    stamp = Stamp(FleetPolicyName("p"), "new", "old", phase, 1, 2, is_cordon_ours=is_ours)
    notes = {
        "gpufleet.io/rollout": msgspec.json.encode(stamp).decode(),
        "gpufleet.io/policy-taints": "gpu-only:NoSchedule",
    }
    taints = [{"key": "gpu-only", "effect": "NoSchedule"}, OF_OTHERS]
    spec = {"unschedulable": True, "taints": taints}
    metadata = {"name": name, "labels": {"zone": "a"}, "annotations": notes}
    applied = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": {"tier": "gold"}}}
    with cluster.api() as api:
        api.call("POST", NODES, {"metadata": metadata, "spec": spec})
        for manager in ("gpufleet-policy", "gpufleet-agent-labels"):
            api.call("PATCH", f"{NODES}/{name}?fieldManager={manager}", applied, APPLY)
    return name, is_ours


def of_webhooks(cluster: LocalCluster) -> list[str]:
    """The webhooks of the API server that call gpufleet."""
    found = []
    for kind in ("ValidatingWebhookConfiguration", "MutatingWebhookConfiguration"):
        items = get(cluster, KEPT_KINDS[kind])["items"]
        found += [
            its["name"] for one in items for its in one.get("webhooks", ()) if "gpufleet" in its["name"]
        ]
    return found


def give_rights(cluster: LocalCluster, hooks: str) -> None:
    """The rights that the Job of the chart brings, as helm would make them before it starts."""
    objects = [msgspec.yaml.decode(one) for one in hooks.split("\n---\n")]
    with cluster.api() as api:
        for one in objects:
            if one and "helm.sh/hook" in one["metadata"].get("annotations", {}) and one["kind"] in RIGHTS:
                root, _, plural = KEPT_KINDS[one["kind"]].rpartition("/")
                where = f"/namespaces/{NAMESPACE}" if "namespace" in one["metadata"] else ""
                api.apply(f"{root}{where}/{plural}/{one['metadata']['name']}", one)


def finalizers(cluster: LocalCluster) -> set[str]:
    """Those of gpufleet, on whatever is left."""
    paths = [*KEPT_KINDS.values(), NODES, "/api/v1/namespaces", "/api/v1/pods"]
    paths += [f"{AT}/{kind.plural}" for kind in KINDS]
    found = (its for path in paths for one in get(cluster, path)["items"] for its in names_of(one))
    return {one for one in found if "gpufleet" in one}


def names_of(one: dict[str, Any]) -> list[str]:
    found: list[str] = one["metadata"].get("finalizers", [])
    return found
