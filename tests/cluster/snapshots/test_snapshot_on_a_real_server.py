"""A snapshot and a what-if on a real cluster, with the rights of who may only look, say what then happens."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from gpufleet.cluster.snapshots import decisions, document
from gpufleet.engine.instruction import Bind
from gpufleet.kube import resources
from gpufleet.localkube import manifests, simulated_nodes
from gpufleet.localkube.cluster import LocalCluster
from gpufleet.localkube.control_plane import Options
from gpufleet.localkube.simulated_nodes import SimulatedNodes, gpu_model
from tests.localkube.cluster import KUBERNETES, a_cluster
from tests.scheduler.real_scheduler import node_of, scheduler_at_work
from tests.scheduler.test_queues_on_a_real_server import QUEUES, add_pod, add_queue
from tests.waiting import until

SMALL = ("whatif", "--set-quota", "a.gpu=4")
LARGE = ("whatif", "--set-quota", "a.gpu=5")
BINDING = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    """A cluster with two nodes of four GPUs, two queues and three pods, and nobody who schedules."""
    with a_cluster(tmp_path_factory.mktemp("snapshot"), options=Options(kubernetes=KUBERNETES)) as running:
        with running.api() as api:
            manifests.install(api)
            simulated_nodes.create(running, SimulatedNodes(2, 4, gpu_model("H100-80GB")))
            api.call(
                "POST",
                BINDING,
                {
                    "apiVersion": "rbac.authorization.k8s.io/v1",
                    "kind": "ClusterRoleBinding",
                    "metadata": {"name": "looks"},
                    "roleRef": {
                        "apiGroup": "rbac.authorization.k8s.io",
                        "kind": "ClusterRole",
                        "name": "gpufleet-explain",
                    },
                    "subjects": [
                        {"apiGroup": "rbac.authorization.k8s.io", "kind": "Group", "name": "looking"}
                    ],
                },
            )
            for name in ("a", "b"):
                add_queue(api, name, quotas=[{"resource": "gpu", "nominal": 4, "borrowingLimit": 0}])
            for name, queue, gpus in (("fits", "a", 3), ("over", "a", 2), ("also", "b", 2)):
                add_pod(api, name, queue, gpus)
        yield running


def gpufleet(cluster: LocalCluster, *arguments: str) -> str:
    """What the command prints, for somebody who may only look."""
    kubeconfig = cluster.kubeconfig_for("bob", ["looking"])
    own = {**os.environ, "KUBECONFIG": str(kubeconfig)}
    command = [sys.executable, "-m", "gpufleet", *arguments]
    ended = subprocess.run(command, env=own, capture_output=True, text=True, check=False, timeout=300)
    assert ended.returncode == 0, ended.stderr
    return ended.stdout


def test_what_it_says_is_what_the_scheduler_does(cluster: LocalCluster, tmp_path: Path) -> None:
    path = tmp_path / "fleet"
    assert gpufleet(cluster, "snapshot", "-o", str(path)) == f"{path}: 2 nodes and 3 pods\n"
    assert "every decision the same" in gpufleet(cluster, "rerun", str(path))
    there = document.read(path.read_bytes().splitlines(keepends=True), str(path))
    assert not there.header.forbidden
    names = {pod.metadata.uid: pod.metadata.name for pod in there.picture.all(resources.PODS)}
    said = decisions.first_decisions(there.picture, there.settings, decisions.moment_of(there))
    bound = {names[one.uid]: one.node for step in said for one in step if isinstance(one, Bind)}
    assert sorted(bound) == ["also", "fits"]
    with scheduler_at_work(cluster), cluster.api() as api:
        until(lambda: all(node_of(api, name) for name in bound))
        assert {name: node_of(api, name) for name in bound} == bound

        until(lambda: json.loads(gpufleet(cluster, *SMALL, "-o", "json"))["starts"] == [])
        (starts,) = json.loads(gpufleet(cluster, *LARGE, "-o", "json"))["starts"]
        assert starts["name"] == "over"
        assert node_of(api, "over") == ""
        raised = {"spec": {"quotas": [{"resource": "gpu", "nominal": 5, "borrowingLimit": 0}]}}
        code, body = api.request("PATCH", f"{QUEUES}/a", raised, "application/merge-patch+json")
        assert code == 200, body
        until(lambda: node_of(api, "over") != "")
        assert starts["start"] == {"inS": 0.0, "nodes": {node_of(api, "over"): 1}}
