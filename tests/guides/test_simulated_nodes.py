"""Each entry of the table on a real API server with our policies, our scheduler and simulated nodes.

All manifests lie in one cluster at once, applied by kubectl as a reader of a guide applies them. What holds
for a namespace (quotas, limits, Pod Security) is tried in a namespace of its own.
"""

from collections.abc import Iterator
from functools import partial
from pathlib import Path

import msgspec
import pytest

from gpufleet.cli.up import components, local_volumes
from gpufleet.doctor.checks.unknown_scheduler import UNHEARD_S
from gpufleet.localkube import manifests, simulated_nodes
from gpufleet.localkube.access.api import Api, Object
from gpufleet.localkube.cluster import LocalCluster
from gpufleet.localkube.control_plane import Options
from gpufleet.localkube.pools import cut
from gpufleet.localkube.simulated_nodes import NODES, SimulatedNodes, gpu_model
from tests.chart.standards_apps import copied, rendered_app, update
from tests.conventions.project import ROOT
from tests.guides.entries import ENTRIES, TEAM, Accepted, Entry, Refused, Runs, Waits
from tests.guides.guide_files import (
    NOT_YET,
    apply,
    condition,
    diagnosed,
    explained,
    kubectl,
    objects,
    pods,
    running,
)
from tests.guides.variant_objects import Variant
from tests.guides.variants import VARIANTS
from tests.localkube.cluster import KUBERNETES, a_cluster
from tests.localkube.real_node import awaited

A100, T4 = gpu_model("A100-80GB"), gpu_model("T4")
GPU = "nvidia.com/gpu"
OWN_LABELS = {
    "accelerator": "nvidia-a100",
    "gpu-memory": "80Gi",
    "gpu-type": "nvidia-a100",
    "node-type": "gpu",
}
TAINTS = {
    "true": (GPU, "true", "NoSchedule"),
    "present": (GPU, "present", "NoSchedule"),
    "word": ("gpu", "true", "NoSchedule"),
    "full": ("full", "", "NoSchedule"),
    "dedicated": ("dedicated", "gpu", "NoSchedule"),
    "bare": (GPU, "", "NoExecute"),
    "cloud": ("sku", "gpu", "NoSchedule"),
}
"""Pools with a taint, those in the three dialects of guides and in further ones among them."""

POOLS = (
    SimulatedNodes(5, 8, A100, prefix="a100-", labels=tuple(OWN_LABELS.items())),
    SimulatedNodes(1, 4, T4, prefix="true-", labels=(("pool", "taint-true"),)),
    SimulatedNodes(1, 4, T4, prefix="present-", labels=(("pool", "taint-present"),)),
    SimulatedNodes(1, 4, T4, prefix="word-", labels=(("pool", "taint-gpu"),)),
    SimulatedNodes(1, 3, T4, prefix="full-", labels=(("pool", "full"),)),
    SimulatedNodes(1, 2, T4, prefix="dedicated-", labels=(("pool", "taint-dedicated"),)),
    SimulatedNodes(1, 2, T4, prefix="bare-", labels=(("pool", "taint-bare"),)),
    SimulatedNodes(1, 2, T4, prefix="cloud-", labels=(("pool", "taint-cloud"),)),
    SimulatedNodes(1, 1, A100, prefix="mig-", mig=cut(A100, "7x1g.10gb", "--mig")),
    SimulatedNodes(1, 1, A100, prefix="mixed-", mig=cut(A100, "4g.40gb,2g.20gb,1g.10gb", "--mig")),
    SimulatedNodes(1, 1, A100, prefix="whole-", mig=cut(A100, "7g.80gb", "--mig")),
    SimulatedNodes(1, 1, gpu_model("MI300X"), prefix="amd-"),
    SimulatedNodes(1, 1, gpu_model("Max-1550"), prefix="intel-"),
)
MANAGED = {"gpufleet.io/managed": "true"}
NAMESPACES = {
    TEAM: {**MANAGED, "pod-security.kubernetes.io/enforce": "baseline"},
    "counts-nothing": MANAGED,
    "bounded": MANAGED,
    "given": MANAGED,
    "standards": MANAGED,
}
HPA_WAIT_S = 60.0
"""The controller of autoscalers looks every 15 seconds."""

ACCEPTED = tuple(one for one in ENTRIES if isinstance(one.simulated, Runs | Waits | Accepted))


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    """A cluster as `gpufleet up` makes it, to which every file is applied that the server takes."""
    parts = (local_volumes(), *components())
    options = Options(kubernetes=KUBERNETES, kube_scheduler=True)
    with a_cluster(tmp_path_factory.mktemp("guides"), options=options, components=parts) as running_cluster:
        with running_cluster.api() as api:
            furnish(running_cluster, api)
        running_cluster.await_service_account()
        running_cluster.furnished()
        for part in parts:
            if part.lease is not None:
                running_cluster.await_component(part)
        for namespace in dict.fromkeys(one.namespace for one in ACCEPTED):
            files = [one.file for one in ACCEPTED if one.namespace == namespace]
            apply(running_cluster, *files, namespace=namespace)
        given = [one.object for one in VARIANTS if not isinstance(one.outcome, Refused)]
        kubectl(running_cluster, "apply", "-f", "-", given=as_list(given))
        yield running_cluster


def furnish(cluster: LocalCluster, api: Api) -> None:
    """What is installed, namespaces, and nodes with their taints."""
    manifests.install(api)
    manifests.install(api, manifests.USUAL_OBJECTS)
    manifests.manage_default_namespace(api)
    for name, labels in NAMESPACES.items():
        metadata = {"name": name, "labels": labels}
        api.call(
            "POST", "/api/v1/namespaces", {"apiVersion": "v1", "kind": "Namespace", "metadata": metadata}
        )
    for pool in POOLS:
        simulated_nodes.create(cluster, pool)
    for pool_name, (key, value, effect) in TAINTS.items():
        taint = {"key": key, "value": value, "effect": effect}
        body = {"spec": {"taints": [taint]}}
        api.call("PATCH", f"{NODES}/{pool_name}-001", body, "application/merge-patch+json")
    for name in NAMESPACES:
        account = f"/api/v1/namespaces/{name}/serviceaccounts/default"
        awaited(account, partial(is_there, api, account))


def as_list(given: list[Object]) -> str:
    """Objects as kubectl reads them all at once."""
    return msgspec.json.encode({"apiVersion": "v1", "kind": "List", "items": given}).decode()


def is_there(api: Api, path: str) -> bool:
    """Whether the server has an object."""
    return api.request("GET", path)[0] == 200


def outcomes(kind: type) -> list[Entry]:
    """The entries that come to this."""
    return [one for one in ENTRIES if isinstance(one.simulated, kind)]


def variants(kind: type) -> list[Variant]:
    """The variants that come to this."""
    return [one for one in VARIANTS if isinstance(one.outcome, kind)]


@pytest.mark.parametrize("entry", outcomes(Runs), ids=lambda one: one.file)
def test_what_guides_teach_runs(cluster: LocalCluster, entry: Entry) -> None:
    wanted = entry.simulated
    assert isinstance(wanted, Runs)

    def run() -> bool:
        return len(running(cluster, wanted.pod, wanted.node)) == wanted.count

    awaited(f"{wanted} runs", run, lambda: str(explained(cluster, one_of(cluster, wanted.pod))))


def one_of(cluster: LocalCluster, beginning: str) -> str:
    """A pod of such a name."""
    return next(name for name in pods(cluster) if name.startswith(beginning))


@pytest.mark.parametrize("entry", outcomes(Waits), ids=lambda one: one.file)
def test_what_waits_is_told_its_cause_and_the_way_out(cluster: LocalCluster, entry: Entry) -> None:
    wanted = entry.simulated
    assert isinstance(wanted, Waits)
    if wanted.cause == "foreign":
        awaited("it is there", lambda: wanted.pod in pods(cluster))
    else:
        # By this reason a cluster autoscaler knows a pod for which a node may be added.
        awaited("it waits", lambda: condition(pods(cluster)[wanted.pod])[0] == "Unschedulable")
    answer = explained(cluster, wanted.pod)
    assert (answer.cause, answer.why) == (wanted.cause, wanted.why)
    assert answer.way_out[0] == wanted.way_out


@pytest.mark.parametrize("entry", outcomes(Refused), ids=lambda one: one.file)
def test_what_is_refused_is_refused_with_the_reason(cluster: LocalCluster, entry: Entry) -> None:
    assert isinstance(entry.simulated, Refused)
    assert entry.simulated.words in apply(cluster, entry.file, namespace=entry.namespace, code=1)


@pytest.mark.parametrize("variant", variants(Runs), ids=lambda one: one.name)
def test_a_variant_that_runs_runs(cluster: LocalCluster, variant: Variant) -> None:
    wanted = variant.outcome
    assert isinstance(wanted, Runs)
    awaited("it runs", lambda: len(running(cluster, wanted.pod, wanted.node)) == wanted.count)


@pytest.mark.parametrize("variant", variants(Waits), ids=lambda one: one.name)
def test_a_variant_that_waits_is_told_its_cause_and_the_way_out(
    cluster: LocalCluster, variant: Variant
) -> None:
    wanted = variant.outcome
    assert isinstance(wanted, Waits)

    def told() -> bool:
        answer = explained(cluster, wanted.pod)
        return answer.cause == wanted.cause and wanted.why in answer.why

    awaited("its cause is told", told, lambda: str(explained(cluster, wanted.pod)))
    assert wanted.way_out in explained(cluster, wanted.pod).way_out


@pytest.mark.parametrize("variant", variants(Refused), ids=lambda one: one.name)
def test_a_variant_that_is_refused_is_refused_with_the_reason(
    cluster: LocalCluster, variant: Variant
) -> None:
    assert isinstance(variant.outcome, Refused)
    given = msgspec.json.encode(variant.object).decode()
    assert variant.outcome.words in kubectl(cluster, "apply", "-f", "-", code=1, given=given)


def test_the_condition_names_the_taint_of_the_node_that_the_selector_chose(cluster: LocalCluster) -> None:
    words = "1 node would do if the pod tolerated their taint gpu=true:NoSchedule"
    awaited("the taint is named", lambda: words in condition(pods(cluster)["without-toleration"])[1])


@pytest.mark.parametrize("operator", ["Equal", "Exists"])
@pytest.mark.parametrize("pool", ["true", "present", "word", "dedicated", "bare", "cloud"])
def test_each_taint_of_guides_is_tolerated_in_both_ways(
    cluster: LocalCluster, pool: str, operator: str
) -> None:
    key, value, effect = TAINTS[pool]
    name = f"{operator.lower()}-{pool}"
    toleration = {"key": key, "operator": operator, "effect": effect}
    toleration |= {"value": value} if operator == "Equal" else {}
    label = "taint-gpu" if pool == "word" else f"taint-{pool}"
    make(cluster, a_pod(name, {GPU: "1"}, tolerations=[toleration], nodeSelector={"pool": label}))
    awaited(f"{name} runs", lambda: running(cluster, name, f"{pool}-"))


def a_pod(name: str, limits: dict[str, str] | None = None, **spec: object) -> Object:
    """A pod as short as guides have them."""
    container = {"name": "main", "image": "busybox:1.36", "resources": {"limits": limits or {}}}
    spec = {"terminationGracePeriodSeconds": 0, "containers": [container], **spec}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}


def make(cluster: LocalCluster, pod: Object, namespace: str = "default", code: int = 0) -> str:
    """What the server says of a pod."""
    given = msgspec.json.encode(pod).decode()
    return kubectl(cluster, "create", "-n", namespace, "-f", "-", code=code, given=given)


def test_a_quota_of_requests_counts(cluster: LocalCluster) -> None:
    said = make(cluster, a_pod("five", {GPU: "5"}), TEAM, code=1)
    assert "exceeded quota: gpu-quota, requested: requests.nvidia.com/gpu=5" in said
    assert "limited: requests.nvidia.com/gpu=4" in said


def test_a_quota_of_limits_counts_nothing_and_explain_says_so(cluster: LocalCluster) -> None:
    make(cluster, a_pod("many", {GPU: "64"}), "counts-nothing")
    notes = explained(cluster, "many", "counts-nothing").notes
    assert any("limits nothing by limits.nvidia.com/gpu" in note for note in notes)
    assert any("write that instead" in note for note in notes)


def test_a_limit_range_with_a_default_of_0_bounds_gpus_and_gives_none(cluster: LocalCluster) -> None:
    assert "maximum nvidia.com/gpu usage per Container is 2, but limit is 3" in make(
        cluster, a_pod("three", {GPU: "3"}), "bounded", code=1
    )
    make(cluster, a_pod("plain"), "bounded")
    plain = pods(cluster, "bounded")["plain"]
    assert plain["spec"]["schedulerName"] == "default-scheduler"
    assert plain["spec"]["containers"][0]["resources"]["limits"] == {GPU: "0"}
    awaited("it runs", lambda: running(cluster, "plain", "", "bounded"))


def test_a_maximum_alone_gives_gpus_to_whoever_asks_for_none_and_is_found(cluster: LocalCluster) -> None:
    make(cluster, a_pod("plain"), "given")
    assert pods(cluster, "given")["plain"]["spec"]["containers"][0]["resources"]["limits"] == {GPU: "2"}
    kubectl(cluster, "delete", "pod", "plain", "-n", "given")
    assert "gpu-maximum: gives 2 of nvidia.com/gpu to every container" in diagnosed(cluster)["quota-keys"]


def test_a_service_of_a_higher_class_gets_the_place_of_what_is_less_urgent(cluster: LocalCluster) -> None:
    place = {"tolerations": [{"key": "full", "operator": "Exists"}], "nodeSelector": {"pool": "full"}}
    for name in ("batch-a", "batch-b"):
        make(cluster, a_pod(name, {GPU: "1"}, **place))
    awaited("the node is full", lambda: len(running(cluster, "batch-", "full-")) == 2)
    make(cluster, a_pod("urgent", {GPU: "1"}, priorityClassName="inference-critical", **place))
    awaited("it runs", lambda: running(cluster, "urgent", "full-"))
    assert pods(cluster)["urgent"]["spec"]["priority"] == 100_000
    assert len([name for name in pods(cluster) if name in {"batch-a", "batch-b"}]) == 1


def test_an_autoscaler_on_gpu_use_says_that_nothing_serves_its_metric(cluster: LocalCluster) -> None:
    path = "/apis/autoscaling/v2/namespaces/default/horizontalpodautoscalers/llm"

    def inactive() -> Object | None:
        with cluster.api() as api:
            found = api.call("GET", path)["status"].get("conditions", [])
        return next((one for one in found if one["type"] == "ScalingActive"), None)

    said = awaited("the controller has looked", inactive, wait_s=HPA_WAIT_S)
    assert (said["status"], said["reason"]) == ("False", "FailedGetPodsMetric")
    with cluster.api() as api:
        groups = [one["name"] for one in api.call("GET", "/apis")["groups"]]
    assert ("custom.metrics.k8s.io" in groups) != ("HorizontalPodAutoscaler" in NOT_YET)


def test_the_doctor_names_each_pitfall_of_these_manifests(cluster: LocalCluster) -> None:
    # A pod counts as one of no scheduler when none has spoken of it for a while.
    awaited(
        "it is known",
        lambda: "gpu-fleet" in diagnosed(cluster).get("scheduler-unknown", ""),
        wait_s=2 * UNHEARD_S,
    )
    found = diagnosed(cluster)
    assert (
        "asks for dcgm_gpu_utilization, but no API serves custom.metrics.k8s.io" in found["metric-unserved"]
    )
    assert "does not tolerate gpu=true:NoSchedule" in found["taint-untolerated"]
    assert "no node has nvidia.com/gpu.product In [H100-80GB]" in found["selector-matches-nothing"]
    assert "gpu-quota-of-limits: bounds limits.nvidia.com/gpu" in found["quota-keys"]
    assert "gpu-limits" not in found["quota-keys"]
    assert "asks for nvidia.com/mig-3g.40gb" in found["fits-nowhere"]
    assert "no-prefix: bounds nvidia.com/gpu, which Kubernetes does not count" in found["quota-keys"]
    assert "GPUMemoryNearlyFull looks at dcgm_fb_used_bytes" in found["alert-metric-unserved"]
    assert "ServiceMonitor default/dcgm-exporter" in found["exporter-unscraped"]
    assert "nvidia.com/gpus is no resource of any node" in found["resource-misnamed"]
    assert "to be placed by gpu-fleet, of which nothing is heard" in found["scheduler-unknown"]
    assert "no-such" in found["volume-unbound"]


def test_the_doctor_says_that_nobody_makes_the_layout_of_a_label(cluster: LocalCluster) -> None:
    kubectl(cluster, "label", "node", "a100-003", "nvidia.com/mig.config=all-1g.10gb")
    found = diagnosed(cluster)["mig-config-failed"]
    assert "a100-003: a MIG layout is asked for, and no MIG manager is there to make it" in found
    kubectl(cluster, "label", "node", "a100-003", "nvidia.com/mig.config-")


def test_an_application_of_the_standards_chart_runs(cluster: LocalCluster, tmp_path: Path) -> None:
    here = copied(tmp_path)
    update(here)
    kubectl(cluster, "apply", "-f", str(ROOT / "examples" / "standards" / "priority-classes.yaml"))
    (claim, _) = objects("model-volume.yaml")
    rendered = f"{rendered_app(here, 'inference')}\n---\n{msgspec.json.encode(claim).decode()}"
    kubectl(cluster, "apply", "-n", "standards", "-f", "-", given=rendered)
    awaited("it runs", lambda: running(cluster, "sample-", "a100-", "standards"))
    # Its budget and its volume would keep a node from being drained.
    kubectl(cluster, "delete", "-n", "standards", "-f", "-", given=rendered)


def test_mig_on_demand_is_on_the_list_of_what_is_not_there(cluster: LocalCluster) -> None:
    waits = not pods(cluster)["mig-not-cut"]["spec"].get("nodeName")
    assert waits == ("MIG on demand" in NOT_YET)


def test_a_drain_waits_for_the_budget_and_then_empties_the_node(cluster: LocalCluster) -> None:
    awaited("two replicas", lambda: len(running(cluster, "llm-", "a100-")) == 2)
    name = running(cluster, "llm-", "a100-")[0]
    node = pods(cluster)[name]["spec"]["nodeName"]
    drain = ("drain", node, "--ignore-daemonsets", "--delete-emptydir-data", "--force")
    kubectl(cluster, *drain, "--timeout=90s")
    left = [one for one in pods(cluster).values() if one["spec"].get("nodeName") == node]
    assert [one for one in left if one["status"]["phase"] == "Running"] == []
    awaited("two replicas elsewhere", lambda: len(running(cluster, "llm-", "a100-")) == 2)
    kubectl(cluster, "scale", "deployment", "llm", "--replicas=1")
    awaited("one replica", lambda: len(running(cluster, "llm-", "a100-")) == 1)
    last = pods(cluster)[running(cluster, "llm-", "a100-")[0]]["spec"]["nodeName"]
    said = kubectl(cluster, "drain", last, *drain[2:], "--pod-selector=app=llm", "--timeout=4s", code=1)
    assert "Cannot evict pod as it would violate the pod's disruption budget" in said
