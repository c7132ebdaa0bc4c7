"""Faults of a node on a real kubelet: at rest nobody disagrees (I4), and who runs is left alone (I12).

One node for all of them, whose agent is a process of the test. docs/faults-agent.md has the whole matrix.
"""

import asyncio
import hashlib
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from http import HTTPStatus
from pathlib import Path

import msgspec
import pytest

from gpufleet.agent.device_plugin.open_call_record import VERSION
from gpufleet.agent.events.lost_holder_events import REASON
from gpufleet.agent.gpus.gpu_monitor import read_boot_id
from gpufleet.agent.kubelet.kubelet_checkpoint import FILE as RECORD
from gpufleet.kube.following_access import find_access
from gpufleet.kube.http_transport import HttpTransport
from gpufleet.kube.keys import GPU_SHARE
from gpufleet.kube.transport import Request
from gpufleet.localkube import manifests
from gpufleet.localkube.access.api import Object
from gpufleet.localkube.agent_identity import ACCOUNT, agent_kubeconfig
from gpufleet.localkube.cluster import LocalCluster
from gpufleet.localkube.node import node_supervisor
from gpufleet.localkube.node_agent import await_resource
from gpufleet.model.resource_names import NVIDIA_GPU
from tests.agent.agent_process import BOOT_ID, AgentProcess
from tests.agent.churn import new_leader
from tests.agent.fault_scene import REPORT, Life, Scene
from tests.localkube.cluster import a_scheduled_real_node
from tests.localkube.real_node import PODS, await_pod, awaited, get_pod, processes_of, run_pod

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
GATE = "example.com/not-yet"
NEXT_BOOT = "6f1e0b0a-3c55-4d7e-9a51-5d3f8a0c0c5f"


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


@contextmanager
def kubelet_paused(cluster: LocalCluster) -> Iterator[None]:
    """A block of which the kubelet learns everything at once afterwards."""
    kubelet = cluster.node.pid("kubelet")
    os.kill(kubelet, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(kubelet, signal.SIGCONT)


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


def test_fault_26_what_is_bound_while_the_agent_is_dead_fails_with_a_reason_and_frees_its_grant(
    scene: Scene,
) -> None:
    cluster = scene.cluster
    with scene.pods_gone():
        scene.whole("steady")
        scene.await_running("steady")
        lives = scene.lives()
        scene.await_offered()
        with kubelet_paused(cluster):
            scene.whole("unlucky")
            scene.share("unlucky-part", "0.75")
            scene.await_granted("unlucky", "unlucky-part")
            scene.agent.kill()
        with scene.agent.away():
            assert why_refused(cluster, "unlucky")
            assert why_refused(cluster, "unlucky-part")
        scene.at_rest()
        new_leader(cluster)
        scene.whole("next")
        scene.share("next-part", "0.75")
        scene.share("other-part", "0.75")
        scene.await_running("next", "next-part", "other-part")
        scene.at_rest()
        now = scene.lives()
        assert {name: now[name] for name in lives} == lives


def test_fault_27_twins_in_swapped_order_have_each_a_device_that_everybody_agrees_on(scene: Scene) -> None:
    """The kubelet asks for the elder first; the agent has known the younger for longer."""
    cluster = scene.cluster
    with scene.pods_gone():
        # A kubelet forgets pods that are gone when it allocates; one that starts anew would still count them.
        scene.share("steady-part", "0.1")
        scene.await_running("steady-part")
        lives = scene.lives()
        with cluster.node.kubelet_stopped():
            scene.whole("elder", schedulingGates=[{"name": GATE}])
            scene.share("elder-part", "0.2", schedulingGates=[{"name": GATE}])
            time.sleep(1.1)  # creation times have whole seconds
            scene.whole("younger")
            scene.share("younger-part", "0.6")
            scene.await_granted("younger", "younger-part")
            for name in ("elder", "elder-part"):
                with cluster.api() as api:
                    change = {"spec": {"schedulingGates": None}}
                    api.call("PATCH", f"{PODS}/{name}", change, "application/merge-patch+json")
            scene.await_granted("elder", "elder-part")
        scene.await_running("elder", "elder-part", "younger", "younger-part")
        scene.at_rest()
        assert scene.swapped() == {"elder", "younger"}
        assert scene.lives()["steady-part"] == lives["steady-part"]


def test_fault_29_after_a_reboot_each_pod_has_its_own_gpu_under_its_new_number(
    scene: Scene, tmp_path: Path
) -> None:
    cluster, agent = scene.cluster, scene.agent
    with scene.pods_gone():
        scene.whole("old", restartPolicy="Always")
        scene.share("old-part", "0.5", restartPolicy="Always")
        scene.await_running("old", "old-part")
        before = scene.report()
        assert before.boot_id == read_boot_id()
        lives = scene.lives()

        reboot(scene, tmp_path)
        awaited("the report is of the new boot", lambda: scene.report().boot_id == NEXT_BOOT, agent.story)
        assert [one.id for one in scene.report().devices] == list(reversed(GPUS))
        for name, life in lives.items():
            awaited(f"{name} is settled", lambda name=name, life=life: settled(scene, name, life.containers))  # type: ignore[misc]
        scene.at_rest()
        new_leader(cluster)
        scene.whole("new")
        scene.share("new-part", "0.75")
        scene.await_running("new", "new-part")
        scene.at_rest()


def reboot(scene: Scene, folder: Path) -> None:
    """Everything dies, what lies in memory is gone, and the GPUs are found in another order."""
    cluster, agent = scene.cluster, scene.agent
    os.kill(cluster.node.pid("kubelet"), signal.SIGSTOP)
    agent.kill()
    for name in scene.lives():
        for process in processes_of(get_pod(cluster, name) or {}):
            with suppress(ProcessLookupError):  # the first process of a container takes the others with it
                os.kill(process, signal.SIGKILL)
    for path in cluster.node.cdi_dir.iterdir():
        path.unlink()
    scene.forget_told()
    agent.boot_id = folder / "boot_id"
    agent.boot_id.write_text(f"{NEXT_BOOT}\n", encoding="ascii")
    inside = ["nsenter", f"--target={node_supervisor.first_process(cluster.folder)}", "--mount"]
    subprocess.run([*inside, "mount", "--bind", str(agent.boot_id), BOOT_ID], check=True)
    agent.describe(machine(list(reversed(GPUS))))
    agent.start()
    cluster.node.restart_kubelet()


def settled(scene: Scene, name: str, containers: tuple[str, ...]) -> bool:
    """Whether a pod runs again in another container, or was turned away for a reason."""
    pod = get_pod(scene.cluster, name) or {"status": {}}
    if pod["status"].get("phase") == "Failed":
        return pod["status"].get("reason") in REFUSED
    life = scene.lives().get(name)
    return life is not None and life.containers != containers


UNWRITTEN = "NodeDevices is not written"


def refused(kubeconfig: Path) -> bool:
    """Whether the API server knows this token no more; it remembers a good one for ten seconds."""

    async def ask() -> int:
        transport = HttpTransport(find_access(kubeconfig=kubeconfig))
        answer = await transport.call(Request("GET", REPORT), timeout_s=5)
        await transport.close()
        return answer.status

    return asyncio.run(ask()) == HTTPStatus.UNAUTHORIZED


def test_fault_37_credentials_that_are_replaced_are_used_without_a_restart(scene: Scene) -> None:
    cluster, agent = scene.cluster, scene.agent
    with scene.pods_gone():
        scene.whole("steady")
        scene.await_running("steady")
        lives, pid = scene.lives(), agent.pid
        with cluster.api() as api:
            api.call("DELETE", ACCOUNT)
            manifests.install(api)
        awaited("the old token is refused", lambda: refused(agent.kubeconfig))
        scene.share("part", "0.5")
        scene.await_running("part")
        awaited("the report is not written", lambda: UNWRITTEN in agent.story(None), agent.story)
        assert [one.pod_uid for one in scene.report().holders] == [scene.uid("steady")]
        agent_kubeconfig(cluster, cluster.node.name)
        scene.at_rest()
        now = scene.lives()
        assert {name: now[name] for name in lives} == lives
        assert agent.pid == pid


RECORD_LOSSES: dict[str, Callable[[Path], object]] = {
    "cut": lambda record: record.write_bytes(record.read_bytes()[: record.stat().st_size // 2]),
    "removed": Path.unlink,
    "emptied": lambda record: record.write_bytes(b""),
}
"""What happens to the kubelet's record of devices."""


def kubelet_forgets(scene: Scene, how: str, *, agent: str = "", report: bool = False) -> None:
    """The kubelet is killed and its record of devices lost, and with it what somebody else knew.

    ``agent`` is "anew" where it dies at the same time, and "folder" where its folder is lost too.
    """
    node = scene.cluster.node
    with node.kubelet_stopped():
        if agent:
            scene.agent.kill()
        if agent == "folder":
            shutil.rmtree(scene.agent.state)
        RECORD_LOSSES[how](node.kubelet_socket_dir / RECORD)
        if report:
            with scene.cluster.api() as api:
                api.call("DELETE", REPORT)
    if agent:
        with scene.agent.away():
            pass
    scene.await_offered()


def another_comes_and_goes(scene: Scene) -> None:
    """The kubelet writes its record anew for a pod that is gone soon."""
    scene.whole("passer")
    scene.await_running("passer")
    gone(scene, "passer")


def gone(scene: Scene, *names: str) -> None:
    """These pods are deleted, and nothing is left of them."""
    with scene.cluster.api() as api:
        for name in names:
            api.request("DELETE", f"{PODS}/{name}", {"gracePeriodSeconds": 1})
    for name in names:
        awaited(f"{name} is gone", lambda name=name: get_pod(scene.cluster, name) is None)  # type: ignore[misc]


def next_pods_leave_alone(scene: Scene, lives: dict[str, Life]) -> None:
    """The next pods have their own devices, and who ran runs on with its own, as the report says."""
    scene.whole("next")
    scene.share("next-part", "0.5")
    scene.await_running("next", "next-part")
    now = scene.lives()
    assert {name: now[name] for name in lives} == lives
    assert not set(gpus_seen(now["next"])) & set(gpus_seen(lives["steady"]))
    assert now["next"].told.devices != lives["steady"].told.devices
    held = {one.device: one.pod_uid for one in scene.report().holders if one.kind == "whole"}
    assert held[gpus_seen(lives["steady"])[0]] == scene.uid("steady")
    gone(scene, "next", "next-part")


def gpus_seen(life: Life) -> list[str]:
    """The GPUs that a container sees."""
    return life.told.values("GPUFLEET_DEVICES")


def test_fault_41_a_kubelet_that_lost_its_record_gives_no_device_of_a_running_pod(scene: Scene) -> None:
    with scene.pods_gone():
        scene.whole("steady", restartPolicy="Always")
        scene.share("part", "0.5")
        scene.await_running("steady", "part")
        lives = scene.lives()
        another_comes_and_goes(scene)
        for how in RECORD_LOSSES:
            kubelet_forgets(scene, how)
            next_pods_leave_alone(scene, lives)
        awaited(
            "the report says so", lambda: unknown_to_kubelet(scene) == {"steady", "part"}, scene.agent.story
        )
        awaited("an Event says so", lambda: "steady" in told_of_loss(scene.cluster), scene.agent.story)
        starts_anew_on_its_own(scene, "steady")


def unknown_to_kubelet(scene: Scene) -> set[str]:
    """The pods that hold something by the report, and not by the kubelet's word."""
    names = {scene.uid(name): name for name in scene.lives()}
    return {names[one.pod_uid] for one in scene.report().holders if one.unknown_to_kubelet}


def told_of_loss(cluster: LocalCluster) -> set[str]:
    """The pods whose owners are told."""
    with cluster.api() as api:
        events = api.call("GET", "/apis/events.k8s.io/v1/namespaces/default/events")["items"]
    return {one["regarding"]["name"] for one in events if one["reason"] == REASON}


def starts_anew_on_its_own(scene: Scene, name: str) -> None:
    """Its program dies, and the container that comes next has the same GPU."""
    before, uid = scene.lives()[name], scene.uid(name)
    (scene.folder / uid).unlink()
    for process in before.processes:
        with suppress(ProcessLookupError):  # the first process of a container takes the others with it
            os.kill(process, signal.SIGKILL)
    awaited(f"{name} starts anew", lambda: settled(scene, name, before.containers), scene.agent.story)
    assert scene.lives()[name].told.devices == before.told.devices
    assert name not in unknown_to_kubelet(scene)


def test_fault_42_two_memories_that_are_lost_together_are_made_up_for_by_the_others(scene: Scene) -> None:
    with scene.pods_gone():
        scene.whole("steady")
        scene.share("part", "0.5")
        scene.await_running("steady", "part")
        lives = scene.lives()
        kubelet_forgets(scene, "removed", agent="folder")
        next_pods_leave_alone(scene, lives)
        kubelet_forgets(scene, "cut", report=True)
        next_pods_leave_alone(scene, lives)
        scene.cluster.node.restart("containerd", signal.SIGKILL)
        kubelet_forgets(scene, "removed", agent="anew")
        next_pods_leave_alone(scene, lives)
