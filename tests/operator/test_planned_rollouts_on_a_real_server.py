"""A rollout on a real API server with a real scheduler: it drains as the scheduler's engine plans it."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterator

import pytest

from gpufleet.cluster.settings import Settings
from gpufleet.drain.planning_process import PlanningProcess
from gpufleet.drain.planning_question import PlanningAnswer, PlanningQuestion
from gpufleet.kube.client import Client
from gpufleet.kube.connection import ClusterChoice
from gpufleet.localkube import manifests, simulated_nodes
from gpufleet.localkube.access.api import Api, Object
from gpufleet.localkube.cluster import LocalCluster
from gpufleet.localkube.control_plane import Options
from gpufleet.localkube.simulated_nodes import SimulatedNodes, gpu_model
from gpufleet.operator.service import Following
from tests.drain.work_on_nodes import PODS, REPLICA_SETS, gang, merge, nodes_of, pods_of, service
from tests.localkube.cluster import KUBERNETES, a_cluster
from tests.operator.real_server import POLICIES, AlwaysLeads, play
from tests.scheduler.real_scheduler import scheduler_at_work
from tests.waiting import until

IMAGE = "registry.example.com/driver@sha256:" + "4" * 64
BACKFILL = "gpufleet.io/backfill-until"
SYSTEM_PODS = "/api/v1/namespaces/gpufleet-system/pods"
CHECK_LABEL = "gpufleet.io/driver-check"
DRIVER_LABEL = "gpufleet.io/driver"
PATIENCE_S = 400.0


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    """Four nodes of four GPUs, and a scheduler."""
    with a_cluster(tmp_path_factory.mktemp("rollout"), options=Options(kubernetes=KUBERNETES)) as running:
        with running.api() as api:
            manifests.install(api)
            simulated_nodes.create(running, SimulatedNodes(4, 4, gpu_model("H100-80GB")))
        with scheduler_at_work(running):
            yield running


@pytest.fixture(autouse=True)
def _tidy(cluster: LocalCluster) -> Iterator[None]:
    """Each test begins on an empty cluster of open nodes, of which no rollout knows."""
    yield
    with cluster.api() as api:
        for path in (POLICIES, REPLICA_SETS):
            for one in api.call("GET", path)["items"]:
                api.call("DELETE", f"{path}/{one['metadata']['name']}?propagationPolicy=Background")
        for node in api.call("GET", "/api/v1/nodes")["items"]:
            found = node["metadata"]["annotations"]
            ours = dict.fromkeys(key for key in found if key.startswith("gpufleet.io/"))
            metadata = {"annotations": ours, "labels": {DRIVER_LABEL: None}}
            body = {"metadata": metadata, "spec": {"unschedulable": None}}
            merge(api, f"/api/v1/nodes/{node['metadata']['name']}", body)
        until(lambda: not api.call("GET", PODS)["items"], 120)


class Counted:
    """Plans in a process of its own, and counts the answers."""

    def __init__(self, cluster: LocalCluster) -> None:
        choice = ClusterChoice(cluster.kubeconfig)
        self._planner = PlanningProcess(choice, Settings(identity="operator"))
        self.answers = 0

    async def ask(self, question: PlanningQuestion) -> PlanningAnswer:
        """The answer."""
        answer = await self._planner.ask(question)
        self.answers += 1
        return answer


@contextlib.asynccontextmanager
async def _operator(client: Client, planner: Counted) -> AsyncIterator[None]:
    found = Following(client, AlwaysLeads(), "gpufleet-system", planner=planner)  # type: ignore[arg-type]
    task = asyncio.ensure_future(found.run())
    try:
        yield
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


def policy(api: Api, **rollout: object) -> None:
    """A policy that brings a driver to all nodes."""
    spec = {
        "nodeSelector": {"matchLabels": {"kubernetes.io/os": "linux"}},
        "driver": {"source": "Image", "image": IMAGE},
        "rollout": {"canaries": 0, **rollout},
    }
    body = {"apiVersion": "gpufleet.io/v1alpha1", "kind": "FleetPolicy", "metadata": {"name": "all"}}
    api.call("POST", POLICIES, {**body, "spec": spec})


def told(api: Api) -> Object:
    """What the status says of the rollout."""
    found: Object = api.call("GET", f"{POLICIES}/all").get("status", {}).get("rollout", {})
    return found


def play_nodes(api: Api) -> None:
    """What simulated nodes lack: pods of the driver get their nodes, and pods that check it end well."""
    for one in api.call("GET", SYSTEM_PODS)["items"]:
        path = f"{SYSTEM_PODS}/{one['metadata']['name']}"
        if "nodeName" not in one["spec"] and DRIVER_LABEL in one["metadata"].get("labels", {}):
            bind(api, one, path)
        elif CHECK_LABEL in one["metadata"].get("labels", {}) and one["status"].get("phase") == "Running":
            merge(api, f"{path}/status", {"status": {"phase": "Succeeded"}})


def bind(api: Api, pod: Object, path: str) -> None:
    """A pod of a DaemonSet goes to the node that its controller made it for."""
    required = pod["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    (term,) = required["nodeSelectorTerms"]
    (field,) = term["matchFields"]
    target = {"kind": "Node", "name": field["values"][0]}
    binding = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": pod["metadata"]["name"]}}
    api.request("POST", f"{path}/binding", {**binding, "target": target})


def test_a_gang_moves_once_in_a_rollout_of_all_nodes_to_places_that_are_kept(cluster: LocalCluster) -> None:
    with cluster.api() as api:
        gang(api, "train", ranks=2, gpus=4)
        before = nodes_of(api, "train")
        uids = {one["metadata"]["uid"] for one in pods_of(api, "train")}
        policy(api)

        def is_done() -> bool:
            play_nodes(api)
            uids.update(one["metadata"]["uid"] for one in pods_of(api, "train"))
            return told(api).get("state") == "Done"

        async def story(client: Client) -> None:
            async with _operator(client, Counted(cluster)):
                await asyncio.to_thread(until, is_done, PATIENCE_S)

        play(cluster, story)
        after = nodes_of(api, "train")
        assert len(after) == 2
        assert set(after).isdisjoint(before), "the gang went where drivers were changed before"
        assert len(uids) == 4, "each rank was started anew once"
        for node in api.call("GET", "/api/v1/nodes")["items"]:
            assert node["metadata"]["annotations"]["gpufleet.io/driver-image"] == IMAGE
            assert not node["spec"].get("unschedulable")


def test_work_that_ends_in_time_starts_beside_work_that_a_rollout_waits_for(cluster: LocalCluster) -> None:
    """A node waits for the end of work that says that it runs for five minutes; all others are full."""
    runs, planner = "gpufleet.io/run-time", Counted(cluster)
    with cluster.api() as api:
        service(api, "old", gpus=2, annotations={runs: "5m"})
        until(lambda: len(nodes_of(api, "old")) == 1)
        (place,) = nodes_of(api, "old")
        service(api, "full", gpus=4, replicas=3)
        until(lambda: len(nodes_of(api, "full")) == 3)
        policy(api)

        def said() -> Object:
            found: Object = api.call("GET", f"/api/v1/nodes/{place}")["metadata"]["annotations"]
            return found

        def others_start() -> None:
            until(lambda: BACKFILL in said(), PATIENCE_S)
            service(api, "long", gpus=1, annotations={runs: "2h"})
            service(api, "short", gpus=1, annotations={runs: "2m"})
            until(lambda: nodes_of(api, "short") == [place], PATIENCE_S)
            assert nodes_of(api, "long") == []
            api.call("DELETE", f"{REPLICA_SETS}/old?propagationPolicy=Background")
            until(lambda: not pods_of(api, "old"), PATIENCE_S)
            # Of two answers the second one was asked for when the work of before was gone.
            before = planner.answers
            until(lambda: planner.answers >= before + 2, PATIENCE_S)
            assert nodes_of(api, "short") == [place], "what started beside the drain is left to end"
            assert BACKFILL in said()
            api.call("DELETE", f"{REPLICA_SETS}/short?propagationPolicy=Background")
            until(lambda: DRIVER_LABEL in node_labels(api, place), PATIENCE_S)
            assert BACKFILL not in said()

        async def story(client: Client) -> None:
            async with _operator(client, planner):
                await asyncio.to_thread(others_start)

        play(cluster, story)


def node_labels(api: Api, name: str) -> Object:
    found: Object = api.call("GET", f"/api/v1/nodes/{name}")["metadata"]["labels"]
    return found
