"""A plan on a real API server comes true with the live scheduler."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator

import pytest

from gpufleet.localkube import manifests, simulated_nodes
from gpufleet.localkube.api import Api, Object
from gpufleet.localkube.cluster import LocalCluster
from gpufleet.localkube.control_plane import Options
from gpufleet.localkube.simulated_nodes import SimulatedNodes, gpu_model
from tests.localkube.cluster import KUBERNETES, a_cluster
from tests.scheduler.real_scheduler import node_of, scheduler_at_work
from tests.waiting import until

REPLICA_SETS = "/apis/apps/v1/namespaces/default/replicasets"
PODS = "/api/v1/namespaces/default/pods"
NODES = ("gpu-001", "gpu-002")


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    """Two nodes of four GPUs, and a scheduler."""
    with a_cluster(tmp_path_factory.mktemp("defragment"), options=Options(kubernetes=KUBERNETES)) as running:
        with running.api() as api:
            manifests.install(api)
            simulated_nodes.create(running, SimulatedNodes(2, 4, gpu_model("H100-80GB")))
        with scheduler_at_work(running):
            yield running


def a_pod(gpus: int, **spec: object) -> Object:
    """A pod's content."""
    container = {"name": "main", "image": "x", "resources": {"limits": {"nvidia.com/gpu": str(gpus)}}}
    return {"schedulerName": "gpufleet", "containers": [container], **spec}


def place_one(api: Api, name: str, node: str, in_the_way: int) -> None:
    """A ReplicaSet of one pod with a GPU; it goes to this node while so many GPUs of the other are taken."""
    other = next(one for one in NODES if one != node)
    blocker = a_pod(in_the_way, nodeSelector={"kubernetes.io/hostname": other})
    api.call("POST", PODS, {"metadata": {"name": "blocker"}, "spec": blocker})
    until(lambda: node_of(api, "blocker") == other)
    template = {"metadata": {"labels": {"app": name}}, "spec": a_pod(1)}
    spec = {"replicas": 1, "selector": {"matchLabels": {"app": name}}, "template": template}
    api.call("POST", REPLICA_SETS, {"metadata": {"name": name}, "spec": spec})
    until(lambda: nodes_of(api).get(name) == node)
    api.call("DELETE", f"{PODS}/blocker")
    until(lambda: api.request("GET", f"{PODS}/blocker")[0] == 404)


def nodes_of(api: Api) -> dict[str, str]:
    """Where the pod of each ReplicaSet is that is not on its way out."""
    found: list[Object] = api.call("GET", PODS)["items"]
    return {
        one["metadata"]["labels"]["app"]: one["spec"]["nodeName"]
        for one in found
        if "labels" in one["metadata"] and "nodeName" in one["spec"]
        if "deletionTimestamp" not in one["metadata"]
    }


def defragment(cluster: LocalCluster, *options: str) -> subprocess.CompletedProcess[str]:
    """The command, run by an administrator."""
    own = {**os.environ, "KUBECONFIG": str(cluster.kubeconfig)}
    command = [sys.executable, "-m", "gpufleet", "defragment", *options]
    return subprocess.run(command, env=own, capture_output=True, text=True, check=False, timeout=300)


def test_what_is_planned_comes_true(cluster: LocalCluster) -> None:
    with cluster.api() as api:
        place_one(api, "left", "gpu-001", in_the_way=4)
        place_one(api, "right", "gpu-002", in_the_way=3)
        before = nodes_of(api)
        (move,) = plan(cluster)
        assert nodes_of(api) == before, "asking changes nothing"
        cordon(api, move["source"], on=True)
        api.call("DELETE", f"/api/v1/namespaces/{move['pod'].replace('/', '/pods/')}")
        until(lambda: len(nodes_of(api)) == 2 and set(nodes_of(api).values()) == {move["target"]})
        cordon(api, move["source"], on=False)
        assert plan(cluster) == []


def plan(cluster: LocalCluster) -> list[Object]:
    """The moves that the command names."""
    told = defragment(cluster, "-o", "json")
    assert told.returncode == 0, told.stderr
    moves: list[Object] = json.loads(told.stdout)["moves"]
    return moves


def cordon(api: Api, node: str, *, on: bool) -> None:
    """Whether new pods may go to a node."""
    api.call(
        "PATCH", f"/api/v1/nodes/{node}", {"spec": {"unschedulable": on}}, "application/merge-patch+json"
    )
