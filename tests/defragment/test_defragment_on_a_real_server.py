"""A plan on a real API server comes true, made by somebody with the rights of the page about it."""

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator

import msgspec
import pytest

from gpufleet.cli.main import ExitCode
from gpufleet.localkube import manifests, simulated_nodes
from gpufleet.localkube.access.api import Api, Object
from gpufleet.localkube.cluster import LocalCluster
from gpufleet.localkube.control_plane import Options
from gpufleet.localkube.simulated_nodes import SimulatedNodes, gpu_model
from tests.conventions.project import ROOT
from tests.localkube.cluster import KUBERNETES, a_cluster
from tests.scheduler.real_scheduler import node_of, scheduler_at_work
from tests.waiting import until

REPLICA_SETS = "/apis/apps/v1/namespaces/default/replicasets"
PODS = "/api/v1/namespaces/default/pods"
RBAC = "/apis/rbac.authorization.k8s.io/v1"
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


def defragment(cluster: LocalCluster, *options: str) -> "subprocess.Popen[str]":
    """The command, run by somebody who may look, and move."""
    own = {**os.environ, "KUBECONFIG": str(cluster.kubeconfig_for("mover", ("movers",)))}
    command = [sys.executable, "-m", "gpufleet", "defragment", *options]
    pipe = subprocess.PIPE
    return subprocess.Popen(command, env=own, stdout=pipe, stderr=pipe, text=True)


def give_rights(api: Api) -> None:
    """The role that the page tells of, and the one to look, for the group of those who move pods."""
    page = (ROOT / "docs" / "defragmentation.md").read_text(encoding="utf-8")
    found = re.search(r"```yaml\n(.*?kind: ClusterRole\n.*?)```", page, re.DOTALL)
    assert found is not None
    role = msgspec.yaml.decode(found[1])
    api.call("POST", f"{RBAC}/clusterroles", role)
    for name in ("gpufleet-explain", role["metadata"]["name"]):
        subject = {"kind": "Group", "name": "movers", "apiGroup": "rbac.authorization.k8s.io"}
        named = {"kind": "ClusterRole", "name": name, "apiGroup": "rbac.authorization.k8s.io"}
        binding = {"metadata": {"name": f"movers-{name}"}, "roleRef": named, "subjects": [subject]}
        api.call("POST", f"{RBAC}/clusterrolebindings", binding)


def test_what_is_planned_comes_true(cluster: LocalCluster) -> None:
    with cluster.api() as api:
        give_rights(api)
        place_one(api, "left", "gpu-001", in_the_way=4)
        place_one(api, "right", "gpu-002", in_the_way=3)
        before = nodes_of(api)
        (move,) = plan(cluster)
        assert nodes_of(api) == before, "asking changes nothing"
        stopped_half_way(cluster, api, move)
        (move,) = plan(cluster)
        made = defragment(cluster, "--apply", "--yes")
        _, told = made.communicate(timeout=300)
        assert made.returncode == 0, told
        first, last = told.splitlines()[-2:]
        assert first == f"1 of 1: {move['pod']} leaves {move['source']}"
        assert last.endswith(f" runs on {move['target']}")
        assert set(nodes_of(api).values()) == {move["target"]}
        assert not is_cordoned(api, move["source"])
        assert plan(cluster) == []


def stopped_half_way(cluster: LocalCluster, api: Api, move: Object) -> None:
    """Interrupt the command twice while the pod that moves cannot end; then let all be as it was before."""
    path = f"/api/v1/namespaces/{move['pod'].replace('/', '/pods/')}"
    held(api, path, ["example.com/stays"])
    making = defragment(cluster, "--apply", "--yes")
    until(lambda: "deletionTimestamp" in api.call("GET", path)["metadata"], 120)
    assert is_cordoned(api, move["source"])
    for _ in range(2):
        making.send_signal(signal.SIGINT)
    _, told = making.communicate(timeout=120)
    assert making.returncode == ExitCode.INTERRUPTED, told
    assert f"stopped while {move['pod']} has not ended" in told
    assert not is_cordoned(api, move["source"])
    held(api, path, [])
    until(lambda: api.request("GET", path)[0] == 404)
    until(lambda: len(nodes_of(api)) == 2)
    for name in ("left", "right"):
        api.call("DELETE", f"{REPLICA_SETS}/{name}")
    until(lambda: not nodes_of(api))
    place_one(api, "left", "gpu-001", in_the_way=4)
    place_one(api, "right", "gpu-002", in_the_way=3)


def plan(cluster: LocalCluster) -> list[Object]:
    """The moves that the command names."""
    asked = defragment(cluster, "-o", "json")
    found, told = asked.communicate(timeout=300)
    assert asked.returncode == 0, told
    moves: list[Object] = json.loads(found)["moves"]
    return moves


def held(api: Api, path: str, finalizers: list[str]) -> None:
    """Keep a pod from ending, or no longer."""
    api.call("PATCH", path, {"metadata": {"finalizers": finalizers}}, "application/merge-patch+json")


def is_cordoned(api: Api, node: str) -> bool:
    """True if nothing new may go to a node."""
    return bool(api.call("GET", f"/api/v1/nodes/{node}")["spec"].get("unschedulable"))
