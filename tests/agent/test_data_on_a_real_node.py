"""On a real node, what work reads and runs is there before it starts: copied, and pulled by its containerd.

A pod that has to end keeps its GPUs for a while. In this time the agent copies a dataset from a folder and a
model from a registry, and the node's containerd pulls an image of the registry; all of it is reported before
the pod that waits for the GPUs has a node. The registry is the program docker-registry.
"""

import io
import json
import os
import shutil
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from gpufleet.localkube.access.api import Object
from gpufleet.localkube.cluster import LocalCluster
from gpufleet.localkube.node.configuration import CONTAINERD_SOCKET, NODE_NAME
from gpufleet.localkube.node.images import shell_layer
from gpufleet.localkube.node_agent import await_resource, machine_of, start_agent
from gpufleet.localkube.simulated_nodes import SimulatedNodes, gpu_model
from gpufleet.model.resource_names import NVIDIA_GPU
from tests.agent.data.sources.registries import RealRegistry, image_of, real_registry
from tests.agent.data.test_copying import marked
from tests.localkube.cluster import a_scheduled_real_node
from tests.localkube.real_node import PODS, a_pod, await_end, await_pod, awaited, get_pod

REPORT = f"/apis/gpufleet.io/v1alpha1/nodedata/{NODE_NAME}"
BY_US: Object = {"nodeName": "", "schedulerName": "gpufleet", "nodeSelector": {"type": "real"}}
GPUS: Object = {"limits": {NVIDIA_GPU: "2"}}
LEAVES_AT_A_WORD = "trap '' TERM; while ! test -e /word/go; do sleep 0.2; done"
LARGE_BYTES = 65 << 20
"""A little more than the smallest image that is reported."""


class Real(NamedTuple):
    """A cluster, and the folders and the registry of its agent."""

    cluster: LocalCluster
    cache: Path
    word: Path
    registry: RealRegistry


@pytest.fixture(scope="module")
def real(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Real]:
    """A cluster whose real node has an agent with two simulated GPUs, a store, a cache and a registry."""
    folder = tmp_path_factory.mktemp("data")
    store, cache, word = (folder / name for name in ("store", "cache", "word"))
    for one in (store, cache, word):
        one.mkdir()
    marked(store)
    with real_registry(folder) as registry, a_scheduled_real_node(folder / "c", "agent") as running:
        registry.push("models/org/name", "v1", {"weights": b"w" * 100_000})
        layers = (shell_layer(Path(shutil.which("busybox") or "/bin/busybox")), large_layer())
        manifest, config = image_of(layers, ("/bin/sh",))
        registry.push_all("team/large", "1", manifest, (config, *layers))
        flags = [
            f"--data-store={store}",
            f"--data-store=oci+{registry.address}/models",
            f"--data-cache={cache}",
            f"--runtime-socket={CONTAINERD_SOCKET}",
            f"--pull-registry={registry.host}/team",
        ]
        start_agent(running, machine_of(SimulatedNodes(0, 2, gpu_model("H100-80GB"))), flags)
        await_resource(running, NVIDIA_GPU, 2)
        yield Real(running, cache, word, registry)


def large_layer() -> bytes:
    """A layer that no compression makes small."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as archive:
        entry = tarfile.TarInfo("weights")
        entry.size = LARGE_BYTES
        archive.addfile(entry, io.BytesIO(os.urandom(LARGE_BYTES)))
    return packed.getvalue()


def report(cluster: LocalCluster) -> dict[str, Any]:
    """The node's NodeData."""
    with cluster.api() as api:
        found: dict[str, Any] = api.call("GET", REPORT)
    return found


def complete(cluster: LocalCluster) -> set[str]:
    """What the node reports that it has whole."""
    entries = report(cluster)["spec"].get("entries", [])
    return {f"{one['kind']}/{one['name']}" for one in entries if one["complete"]}


def test_data_and_image_are_there_before_the_pod_has_its_node(real: Real) -> None:
    cluster = real.cluster
    image = f"{real.registry.host}/team/large:1"
    low = a_pod("low", LEAVES_AT_A_WORD, GPUS, terminationGracePeriodSeconds=600, **BY_US)
    low["spec"]["volumes"] = [{"name": "word", "hostPath": {"path": str(real.word)}}]
    low["spec"]["containers"][0]["volumeMounts"] = [{"name": "word", "mountPath": "/word"}]
    with cluster.api() as api:
        api.call("POST", PODS, low)
    await_pod(cluster, "low", "Running")
    reads = {"gpufleet.io/data": "model/org/name@v1, dataset/own/set"}
    high = a_pod("high", "ls /weights", GPUS, annotations=reads, priority=10, **BY_US)
    high["spec"]["containers"][0]["image"] = image
    with cluster.api() as api:
        body = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "high"}}
        api.call("POST", "/apis/scheduling.k8s.io/v1/priorityclasses", {**body, "value": 10})
        high["spec"] |= {"priorityClassName": "high"}
        del high["spec"]["priority"]
        api.call("POST", PODS, high)
    wanted = {"model/org/name", "dataset/own/set", f"image/{image}"}
    awaited("all is there", lambda: wanted <= complete(cluster), lambda: json.dumps(report(cluster)))
    waiting = get_pod(cluster, "high") or {}
    assert "nodeName" not in waiting["spec"]
    assert (real.cache / "model--org--name@v1" / "weights").read_bytes() == b"w" * 100_000
    (real.word / "go").touch()
    assert await_end(cluster, "high") == 0
