"""On a real kubelet, an edit of the configuration changes what a node offers, and never what a pod holds."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from gpufleet.agent.reports.node_condition import ANNOTATION
from gpufleet.kube.keys import GPU_SHARE
from gpufleet.localkube.access.api import Object
from gpufleet.localkube.cluster import LocalCluster
from gpufleet.localkube.node.agent_program import agent_folder
from gpufleet.localkube.node.configuration import NODE_NAME
from gpufleet.localkube.node_agent import await_resource, start_agent
from gpufleet.model.resource_names import NVIDIA_GPU
from tests.localkube.cluster import a_scheduled_real_node
from tests.localkube.real_node import await_pod, awaited, delete_pod, processes_of, run_pod

NODE = f"/api/v1/nodes/{NODE_NAME}"
REPORT = f"/apis/gpufleet.io/v1alpha1/nodedevices/{NODE_NAME}"
EVENTS = "/apis/events.k8s.io/v1/namespaces/default/events"
WHOLE = "version: gpufleet.io/v1alpha1\npools: {default: [{gpus: rest, exclusive: {}}]}"
FRACTIONS = "version: gpufleet.io/v1alpha1\npools: {default: [{gpus: rest, fractions: {maxShares: 5}}]}"
IN_TURNS = "version: v1\nsharing: {timeSlicing: {resources: [{name: nvidia.com/gpu, replicas: 4}]}}"
MISSPELT = "version: v1\nsharing: {timeSlcing: {}}"
STAY = "exec sleep 100000"


@pytest.fixture(scope="module")
def real(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    """A cluster with our scheduler whose real node has an agent with two simulated GPUs, offered whole."""
    with a_scheduled_real_node(tmp_path_factory.mktemp("real"), "sharing") as running:
        agent_folder(running.folder).mkdir(mode=0o700, exist_ok=True)
        declare(running, WHOLE)
        flags = (f"--config={config(running)}", "--sample-every-s=1")
        start_agent(running, "gpus: [{model: H100-80GB, count: 2}]\n", flags)
        await_resource(running, NVIDIA_GPU, 2)
        yield running


def config(cluster: LocalCluster) -> Path:
    """The file that says how the node's GPUs are shared."""
    return agent_folder(cluster.folder) / "sharing.yaml"


def declare(cluster: LocalCluster, text: str) -> None:
    """Share the node's GPUs so."""
    config(cluster).write_text(text, encoding="utf-8")


def read(cluster: LocalCluster, path: str) -> Object:
    with cluster.api() as api:
        return api.call("GET", path)


def notes(cluster: LocalCluster, reason: str) -> list[str]:
    """What Events say under this reason."""
    return [one["note"] for one in read(cluster, EVENTS)["items"] if one["reason"] == reason]


def test_an_edit_is_followed_but_by_what_is_held_and_a_bad_one_is_told(real: LocalCluster) -> None:
    run_pod(real, "steady", STAY, {"limits": {NVIDIA_GPU: "1"}})
    processes = processes_of(await_pod(real, "steady", "Running"))
    awaited("its holder is reported", lambda: read(real, REPORT)["spec"].get("holders"))
    declare(real, IN_TURNS)
    await_resource(real, NVIDIA_GPU, 1 + 4)
    (note,) = awaited("the change that waits is told", lambda: notes(real, "SharingChangeWaits"))
    assert "default/steady" in note
    declare(real, MISSPELT)
    (note,) = awaited("the refusal is told", lambda: notes(real, "SharingConfigRefused"))
    assert "did you mean timeSlicing" in note
    awaited("the node says so", lambda: "timeSlcing" in annotation(real))
    await_resource(real, NVIDIA_GPU, 1 + 4)
    assert processes_of(await_pod(real, "steady", "Running")) == processes
    delete_pod(real, "steady")
    await_resource(real, NVIDIA_GPU, 4 + 4)
    declare(real, FRACTIONS)
    await_resource(real, GPU_SHARE, 5 + 5)
    await_resource(real, NVIDIA_GPU, 0)
    awaited("the node says nothing any more", lambda: "sharing" not in annotation(real))


def annotation(cluster: LocalCluster) -> str:
    """What the node says of its problems."""
    found: str = read(cluster, NODE)["metadata"].get("annotations", {}).get(ANNOTATION, "")
    return found


def test_a_pod_that_uses_more_memory_than_its_share_is_reported_and_warned(real: LocalCluster) -> None:
    declare(real, FRACTIONS)
    await_resource(real, GPU_SHARE, 5 + 5)
    placed = {"nodeName": "", "schedulerName": "gpufleet", "nodeSelector": {"type": "real"}}
    for name, used_mib in (("greedy", "30000"), ("modest", "10000")):
        run_pod(
            real,
            name,
            STAY,
            {"limits": {GPU_SHARE: "1"}},
            annotations={"gpufleet.io/gpu-fraction": "0.25"},
            labels={"gpufleet.io/simulated-memory-mib": used_mib},
            **placed,
        )
    uid = await_pod(real, "greedy", "Running")["metadata"]["uid"]
    await_pod(real, "modest", "Running")

    def offenders() -> dict[str, int]:
        holders = read(real, REPORT)["spec"].get("holders", [])
        return {one["podUID"]: one["usedMemoryMiB"] for one in holders if "usedMemoryMiB" in one}

    assert awaited("it is reported", offenders) == {uid: 30016}
    (note,) = awaited("its owner is warned", lambda: notes(real, "GPUMemoryExceeded"))
    assert "it uses 30016 MiB" in note
