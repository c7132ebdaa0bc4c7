"""Taking back on a real server: a gang reclaims, a disruption budget keeps a pod, a quota is cut."""

import asyncio
import random
from collections.abc import Iterator
from typing import Any

import pytest

from gpufleet.cluster.settings import Settings
from gpufleet.explain.inquiry import ask
from gpufleet.kube.client import Client
from gpufleet.kube.clock import MachineClock
from gpufleet.kube.following_access import find_access
from gpufleet.kube.http_transport import HttpTransport
from gpufleet.localkube import manifests, simulated_nodes
from gpufleet.localkube.access.api import Api
from gpufleet.localkube.cluster import LocalCluster
from gpufleet.localkube.control_plane import Options
from gpufleet.localkube.simulated_nodes import SimulatedNodes, gpu_model
from tests.localkube.cluster import KUBERNETES, a_cluster
from tests.scheduler.real_scheduler import PODS, node_of, scheduler_at_work
from tests.waiting import until

QUEUES = "/apis/gpufleet.io/v1alpha1/fleetqueues"
BUDGETS = "/apis/policy/v1/namespaces/default/poddisruptionbudgets"
MERGE = "application/merge-patch+json"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    """A cluster with one node of sixteen GPUs, three trees of queues, and the scheduler at work."""
    with a_cluster(tmp_path_factory.mktemp("taking-back"), options=Options(kubernetes=KUBERNETES)) as running:
        with running.api() as api:
            manifests.install(api)
            for root in ("gangs", "cut"):
                add_queue(api, root)
                add_queue(api, f"{root}-a", 2, parent=root)
                add_queue(api, f"{root}-b", 2, parent=root)
            add_queue(api, "guarded", 2)
        simulated_nodes.create(running, SimulatedNodes(1, 16, gpu_model("H100-80GB")))
        with scheduler_at_work(running):
            yield running


def add_queue(api: Api, name: str, gpus: int | None = None, **spec: Any) -> None:
    quotas = [] if gpus is None else [{"resource": "gpu", "nominal": gpus}]
    kind = {"apiVersion": "gpufleet.io/v1alpha1", "kind": "FleetQueue"}
    api.call("POST", QUEUES, {**kind, "metadata": {"name": name}, "spec": {"quotas": quotas, **spec}})


def add_pod(api: Api, name: str, queue: str, *, gang: int = 0, priority: str = "", **labels: str) -> None:
    annotations = {"gpufleet.io/gang": queue, "gpufleet.io/gang-min-members": str(gang)} if gang else {}
    limits = {"limits": {"nvidia.com/gpu": "1"}}
    container = {"name": "c", "image": "example.com/none", "resources": limits}
    spec = {
        "schedulerName": "gpufleet",
        "containers": [container],
        "automountServiceAccountToken": False,
        "priorityClassName": priority,
    }
    metadata = {
        "name": name,
        "labels": {"gpufleet.io/queue": queue, **labels},
        "annotations": annotations,
    }
    api.call("POST", PODS, {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec})


def gone(api: Api, *names: str) -> list[str]:
    """Those of the pods that are there no more."""
    return [name for name in names if api.request("GET", f"{PODS}/{name}")[0] == 404]


def is_ready(api: Api, name: str) -> bool:
    conditions = api.call("GET", f"{PODS}/{name}")["status"].get("conditions", [])
    return any(one["type"] == "Ready" and one["status"] == "True" for one in conditions)


def notes(api: Api, reason: str) -> list[str]:
    """What the Events with this reason say."""
    listed = api.call("GET", "/apis/events.k8s.io/v1/namespaces/default/events")["items"]
    return [one["note"] for one in listed if one["reason"] == reason]


def test_a_gang_takes_back_its_quota_and_is_bound_whole(cluster: LocalCluster) -> None:
    with cluster.api() as api:
        lent = [f"lent-{number}" for number in range(4)]
        for name in lent:
            add_pod(api, name, "gangs-b")
        until(lambda: all(is_ready(api, name) for name in lent))
        for name in ("owed-0", "owed-1"):
            add_pod(api, name, "gangs-a", gang=2)
        until(lambda: node_of(api, "owed-0") != "" and node_of(api, "owed-1") != "")
        assert len(gone(api, *lent)) == 2
        until(lambda: len(notes(api, "Reclaimed")) == 2)
        assert "queue gangs-a takes back what queue gangs-b borrowed" in notes(api, "Reclaimed")[0]


def test_a_pod_that_a_budget_keeps_stays_and_the_other_goes(cluster: LocalCluster) -> None:
    with cluster.api() as api:
        kind = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass"}
        urgent = {**kind, "metadata": {"name": "urgent"}, "value": 1000}
        api.call("POST", "/apis/scheduling.k8s.io/v1/priorityclasses", urgent)
        spec = {"minAvailable": 1, "selector": {"matchLabels": {"role": "server"}}}
        body = {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "keep"}}
        api.call("POST", BUDGETS, {**body, "spec": spec})
        add_pod(api, "kept", "guarded", role="server")
        add_pod(api, "other", "guarded")
        until(lambda: is_ready(api, "kept") and is_ready(api, "other"))
        until(lambda: api.call("GET", f"{BUDGETS}/keep")["status"].get("currentHealthy") == 1)
        add_pod(api, "first", "guarded", priority="urgent")
        until(lambda: node_of(api, "first") != "")
        assert gone(api, "kept", "other") == ["other"]
        add_pod(api, "second", "guarded", priority="urgent")
        until(lambda: "quota" in why_of(api, "second"))
        assert gone(api, "kept") == []
        assert "disruption budgets keep default/kept" in " ".join(explained(cluster, "second"))


def why_of(api: Api, name: str) -> str:
    conditions = api.call("GET", f"{PODS}/{name}")["status"].get("conditions", [])
    return next((str(one.get("message", "")) for one in conditions if one["type"] == "PodScheduled"), "")


def explained(cluster: LocalCluster, name: str) -> tuple[str, ...]:
    """The notes of ``gpufleet explain``."""

    async def work() -> tuple[str, ...]:
        transport = HttpTransport(find_access(kubeconfig=cluster.kubeconfig), connections=8)
        try:
            client = Client(transport, MachineClock(), random.Random(1))
            answer = await ask(client, Settings(identity="explain"), name, "default", lambda _: None)
            return answer.notes
        finally:
            await transport.close()

    return asyncio.run(work())


def test_a_queue_that_is_cut_below_its_use_gives_back_only_what_is_asked_for(cluster: LocalCluster) -> None:
    with cluster.api() as api:
        lent = [f"cut-{number}" for number in range(2)]
        for name in lent:
            add_pod(api, name, "cut-b")
        add_pod(api, "cut-a-0", "cut-a")
        add_pod(api, "cut-a-1", "cut-a")
        until(lambda: all(is_ready(api, name) for name in (*lent, "cut-a-0", "cut-a-1")))
        cut = {"spec": {"quotas": [{"resource": "gpu", "nominal": 1}]}}
        more = {"spec": {"quotas": [{"resource": "gpu", "nominal": 3}]}}
        for queue, quotas in (("cut-b", cut), ("cut-a", more)):
            assert api.request("PATCH", f"{QUEUES}/{queue}", quotas, MERGE)[0] == 200
        assert gone(api, *lent) == []
        add_pod(api, "cut-a-2", "cut-a")
        until(lambda: node_of(api, "cut-a-2") != "")
        assert len(gone(api, *lent)) == 1
