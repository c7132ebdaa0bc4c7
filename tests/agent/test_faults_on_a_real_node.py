"""Faults of a node on a real kubelet: at rest nobody disagrees (I4), and who runs is left alone (I12).

One node for all of them, whose agent is a process of the test. docs/faults-agent.md has the whole matrix.
"""

import hashlib
from collections.abc import Callable, Iterator, Sequence

import msgspec
import pytest

from gpufleet.agent.plugin.checkpoint import VERSION
from gpufleet.kube.keys import GPU_SHARE
from gpufleet.localkube.api import Object
from gpufleet.localkube.cluster import LocalCluster
from gpufleet.localkube.node_agent import await_resource
from gpufleet.model.resource_names import NVIDIA_GPU
from tests.agent.agent_process import AgentProcess
from tests.agent.fault_scene import Scene
from tests.localkube.cluster import a_scheduled_real_node
from tests.localkube.real_node import await_pod, run_pod

GPUS = tuple(f"GPU-0000000{digit}-5b7c-4e2f-9a51-5d3f8a0c0c5f" for digit in "abcd")
SHARING = f"""
version: gpufleet.io/v1alpha1
pools:
  default:
  - {{gpus: [{GPUS[0]}, {GPUS[1]}], exclusive: {{}}}}
  - {{gpus: rest, fractions: {{maxShares: 5}}}}
"""
SLOTS = 10
REFUSED = ("UnexpectedAdmissionError", "OutOfnvidia.com/gpu")


def machine(uuids: Sequence[str]) -> str:
    """A machine with these GPUs, numbered in this order."""
    listed = "".join(f"- {{id: {uuid}}}\n" for uuid in uuids)
    return f"gpuProduct: NVIDIA-H100-80GB-HBM3\ngpuMemory: 81559\ngpus:\n{listed}"


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    """A real node with two whole and two shared GPUs, its agent, and our scheduler."""
    folder = tmp_path_factory.mktemp("faults")
    (folder / "told").mkdir()
    with a_scheduled_real_node(folder, "faults") as cluster:
        agent = AgentProcess(cluster, folder, machine(GPUS), SHARING)
        agent.start()
        try:
            agent.await_registrations(2)
            await_resource(cluster, NVIDIA_GPU, 2)
            await_resource(cluster, GPU_SHARE, SLOTS)
            yield Scene(cluster, agent, folder / "told")
        finally:
            agent.kill()


def why_refused(cluster: LocalCluster, name: str) -> str:
    """The kubelet's words for a pod that it turned away."""
    status: Object = await_pod(cluster, name, "Failed")["status"]
    assert status["reason"] in REFUSED, status
    words: str = status["message"]
    return words


def test_fault_24_a_kubelet_that_restarts_finds_the_agent_and_every_pod_as_it_was(scene: Scene) -> None:
    cluster = scene.cluster
    with scene.pods_gone():
        scene.whole("steady")
        scene.share("part", "0.5")
        scene.await_running("steady", "part")
        lives = scene.lives()

        with scene.agent.away():
            cluster.node.restart_kubelet()
            run_pod(cluster, "meanwhile", "true", {"limits": {NVIDIA_GPU: "1"}})
            assert why_refused(cluster, "meanwhile")
            assert scene.lives() == lives
        scene.whole("later")
        scene.share("later-part", "0.5")
        scene.await_running("later", "later-part")
        scene.at_rest()
        now = scene.lives()
        assert {name: now[name] for name in lives} == lives


def flipped(whole: bytes) -> bytes:
    """One bit is another one, in the middle of the name of a call."""
    at = whole.index(b'"name"') + 12
    return whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :]


def of_version(version: int) -> Callable[[bytes], bytes]:
    """The same content, whole, but written by another version of the agent."""

    def changed(whole: bytes) -> bytes:
        data = msgspec.json.encode({**msgspec.json.decode(whole)["data"], "version": version})
        return msgspec.json.encode({"sha256": hashlib.sha256(data).hexdigest(), "data": msgspec.Raw(data)})

    return changed


DAMAGES: dict[str, Callable[[bytes], bytes]] = {
    "truncated": lambda whole: whole[: len(whole) // 2],
    "bit-flipped": flipped,
    "older-version": of_version(VERSION - 1),
    "newer-version": of_version(VERSION + 1),
    "of-an-earlier-moment": lambda whole: whole,
}


def test_fault_28_and_25_whatever_the_checkpoint_looks_like_a_call_is_answered_once(scene: Scene) -> None:
    """Each time a container is between Allocate and its start when the agent dies."""
    with scene.pods_gone():
        scene.whole("steady")
        scene.share("part", "0.5")
        scene.await_running("steady", "part")
        for damage in DAMAGES:
            scene.share(damage, "0.2", waits=True)
        for damage in DAMAGES:
            scene.await_call(damage)
        whole = scene.agent.checkpoint.read_bytes()
        for damage, damaged in DAMAGES.items():
            lives = scene.lives()
            with scene.agent.away():
                scene.agent.checkpoint.write_bytes(damaged(whole))
            scene.go(damage)
            scene.await_running(damage)
            scene.at_rest()
            now = scene.lives()
            assert {name: now[name] for name in lives} == lives, damage
