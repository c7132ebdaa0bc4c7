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


def pass_checks(api: Api) -> None:
    """Simulated nodes run no programs: here the check pods end well."""
    for one in api.call("GET", SYSTEM_PODS)["items"]:
        is_check = CHECK_LABEL in one["metadata"].get("labels", {})
        if is_check and one["status"].get("phase") == "Running":
            path = f"{SYSTEM_PODS}/{one['metadata']['name']}/status"
            merge(api, path, {"status": {"phase": "Succeeded"}})


def test_a_gang_moves_once_in_a_rollout_of_all_nodes_to_places_that_are_kept(cluster: LocalCluster) -> None:
    with cluster.api() as api:
        gang(api, "train", ranks=2, gpus=4)
        before = nodes_of(api, "train")
        uids = {one["metadata"]["uid"] for one in pods_of(api, "train")}
        policy(api)

        def is_done() -> bool:
            pass_checks(api)
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
