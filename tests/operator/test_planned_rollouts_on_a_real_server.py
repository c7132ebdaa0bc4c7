"""A rollout on a real API server with a real scheduler: it drains as the scheduler's engine plans it."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterator

import pytest

from gpufleet.cluster.settings import Settings
from gpufleet.drain.planning_process import PlanningProcess
from gpufleet.kube.client import Client
from gpufleet.kube.connection import ClusterChoice
from gpufleet.localkube import manifests, simulated_nodes
from gpufleet.localkube.access.api import Api, Object
from gpufleet.localkube.cluster import LocalCluster
from gpufleet.localkube.control_plane import Options
from gpufleet.localkube.simulated_nodes import SimulatedNodes, gpu_model
from gpufleet.operator.service import Following
from tests.drain.work_on_nodes import gang, merge, nodes_of, pods_of
from tests.localkube.cluster import KUBERNETES, a_cluster
from tests.operator.real_server import POLICIES, AlwaysLeads, play
from tests.scheduler.real_scheduler import scheduler_at_work
from tests.waiting import until

IMAGE = "registry.example.com/driver@sha256:" + "4" * 64
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


@contextlib.asynccontextmanager
async def _operator(cluster: LocalCluster, client: Client) -> AsyncIterator[None]:
    planner = PlanningProcess(ClusterChoice(cluster.kubeconfig), Settings(identity="operator"))
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
            async with _operator(cluster, client):
                await asyncio.to_thread(until, is_done, PATIENCE_S)

        play(cluster, story)
        after = nodes_of(api, "train")
        assert len(after) == 2
        assert set(after).isdisjoint(before), "the gang went where drivers were changed before"
        assert len(uids) == 4, "each rank was started anew once"
        for node in api.call("GET", "/api/v1/nodes")["items"]:
            assert node["metadata"]["annotations"]["gpufleet.io/driver-image"] == IMAGE
            assert not node["spec"].get("unschedulable")
