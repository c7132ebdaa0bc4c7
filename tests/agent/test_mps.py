"""One MPS daemon for each GPU that is shared by MPS, with its limits, started again when it dies.

The daemon is a simulation (``fake_mps_control``); no GPU and none of its settings is touched.
"""

import asyncio
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from gpufleet.agent.sharing import mps
from gpufleet.agent.sharing.mps import MpsDaemons, MpsMount, MpsOptions
from gpufleet.agent.sharing.programs import MachinePrograms
from gpufleet.agent.state.node_state import Gpu, NodeGpus
from gpufleet.agent.state.topic import Topic
from gpufleet.devices.sharing.delivery_options import DeliveryOptions
from gpufleet.devices.sharing.plan import Exclusive, Mode, Mps, SharingPlan
from gpufleet.kube.clock import MachineClock
from tests.conventions.project import ROOT
from tests.devices.fleets import fleet_of

PROGRAM = ROOT / "tests" / "agent" / "fake_mps_control.py"
FACTS = fleet_of("model: H100-80GB, count: 2").gpus
LIMIT_S = 20.0


@pytest.fixture(autouse=True)
def _in_a_hurry(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("POLL_EVERY_S", "PAUSE_FIRST_S", "ASK_AGAIN_S"):
        monkeypatch.setattr(mps, name, 0.02)


class Node:
    """A node whose GPUs are shared as a test says."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        programs = folder / "bin"
        programs.mkdir()
        for name in (mps.CONTROL, mps.SETTINGS):
            (programs / name).write_text(f"#!/bin/sh\nexec {sys.executable} {PROGRAM} $@\n", encoding="utf-8")
            (programs / name).chmod(0o755)
        self.gpus: Topic[NodeGpus] = Topic(NodeGpus("gpu-1"))
        self.delivery: Topic[DeliveryOptions | None] = Topic(None)
        options = MpsOptions(root=folder / "mps", programs=programs)
        self.daemons = MpsDaemons(self.gpus, self.delivery, MachinePrograms(), MachineClock(), options)

    def shares(self, *modes: Mode) -> None:
        """The GPUs are offered so from now on."""
        gpus = [Gpu(facts, SharingPlan(facts.uuid, mode)) for facts, mode in zip(FACTS, modes, strict=False)]
        self.gpus.publish(NodeGpus("gpu-1", gpus=tuple(gpus)))

    def told(self, gpu: int) -> list[str]:
        """What the daemon of a GPU was told, from its start on."""
        path = self.folder / "mps" / FACTS[gpu].uuid / "log" / "told"
        return path.read_text(encoding="utf-8").splitlines() if path.exists() else []

    def mark(self, gpu: int) -> Path:
        """There while the daemon of a GPU runs."""
        return self.folder / "mps" / FACTS[gpu].uuid / "pipe" / "control"

    async def until(self, holds: Callable[[], bool]) -> None:
        """Wait until something holds."""
        give_up_at_s = time.monotonic() + LIMIT_S
        while not holds():
            assert time.monotonic() < give_up_at_s, self.daemons.problems.value
            await asyncio.sleep(0.01)


def on_a_node(folder: Path, story: Callable[[Node], Awaitable[None]]) -> None:
    async def work() -> None:
        node = Node(folder)
        running = asyncio.create_task(node.daemons.run())
        try:
            await story(node)
        finally:
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)

    asyncio.run(work())


def test_each_gpu_has_a_daemon_of_its_own_with_its_limits(tmp_path: Path) -> None:
    async def story(node: Node) -> None:
        node.shares(Mps(4, 8192, 20), Mps(2, None, 50))
        await node.until(lambda: len(node.daemons.ready.value) == 2)
        assert [node.mark(gpu).read_text(encoding="utf-8") for gpu in (0, 1)] == [gpu.uuid for gpu in FACTS]
        assert node.told(0)[1:] == [
            "set_default_active_thread_percentage 20",
            "set_default_device_pinned_mem_limit 0 8192M",
        ]
        assert node.told(1)[1:] == ["set_default_active_thread_percentage 50"]

    on_a_node(tmp_path, story)


def test_a_daemon_gets_an_environment_that_is_all_ours(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SECRET", "x")

    async def story(node: Node) -> None:
        node.shares(Mps(2, None, 50))
        await node.until(lambda: bool(node.daemons.ready.value))
        said = node.told(0)[0]
        assert "CUDA_MPS_LOG_DIRECTORY CUDA_MPS_PIPE_DIRECTORY CUDA_VISIBLE_DEVICES" in said
        assert "SECRET" not in said
        assert "KUBECONFIG" not in said

    on_a_node(tmp_path, story)


def test_a_daemon_that_dies_is_started_again_with_its_limits(tmp_path: Path) -> None:
    async def story(node: Node) -> None:
        node.shares(Mps(4, 8192, 20))
        await node.until(lambda: len(node.told(0)) == 3)
        node.mark(0).unlink()
        await node.until(lambda: len(node.told(0)) == 6 and bool(node.daemons.ready.value))
        assert node.told(0)[4:] == node.told(0)[1:3]

    on_a_node(tmp_path, story)


def test_a_daemon_that_runs_already_is_found_and_told_its_limits(tmp_path: Path) -> None:
    async def story(node: Node) -> None:
        for name in ("pipe", "log"):
            (node.mark(0).parent.parent / name).mkdir(parents=True)
        node.mark(0).touch()
        node.shares(Mps(4, 8192, 20))
        await node.until(lambda: bool(node.daemons.ready.value))
        assert not any(line.startswith("started") for line in node.told(0))
        assert node.told(0)[0] == "set_default_active_thread_percentage 20"

    on_a_node(tmp_path, story)


def test_a_daemon_goes_on_for_its_clients_when_the_agent_ends(tmp_path: Path) -> None:
    async def story(node: Node) -> None:
        node.shares(Mps(4, 8192, 20))
        await node.until(lambda: bool(node.daemons.ready.value))

    on_a_node(tmp_path, story)
    assert list(tmp_path.glob("mps/*/pipe/control"))


def test_a_daemon_quits_when_its_gpu_is_shared_in_another_way_and_others_stay(tmp_path: Path) -> None:
    async def story(node: Node) -> None:
        node.shares(Mps(4, 8192, 20), Mps(4, 8192, 20))
        await node.until(lambda: len(node.daemons.ready.value) == 2)
        node.shares(Exclusive(), Mps(4, 8192, 20))
        await node.until(lambda: node.told(0)[-1] == "quit")
        await node.until(lambda: node.daemons.ready.value == {FACTS[1].uuid})
        assert not node.mark(0).exists()
        assert node.mark(1).exists()
        assert len(node.told(1)) == 3

    on_a_node(tmp_path, story)


def test_a_daemon_that_an_earlier_agent_left_quits_when_its_gpu_is_shared_in_another_way(
    tmp_path: Path,
) -> None:
    async def story(node: Node) -> None:
        for name in ("pipe", "log"):
            (node.mark(0).parent.parent / name).mkdir(parents=True)
        node.mark(0).touch()
        node.shares(Exclusive())
        await node.until(lambda: node.told(0) == ["quit"])

    on_a_node(tmp_path, story)


def test_a_daemon_that_does_not_start_is_told_and_tried_again(tmp_path: Path) -> None:
    async def story(node: Node) -> None:
        refuses = node.mark(0).parent.parent / "log" / "refuses"
        refuses.parent.mkdir(parents=True)
        refuses.touch()
        node.shares(Mps(4, 8192, 20))
        await node.until(lambda: bool(node.daemons.problems.value))
        assert "did not start: Cannot find MPS control daemon process" in node.daemons.problems.value[0]
        assert not node.daemons.ready.value
        refuses.unlink()
        await node.until(lambda: bool(node.daemons.ready.value))
        assert node.daemons.problems.value == ()

    on_a_node(tmp_path, story)


def test_a_program_that_is_not_there_is_told(tmp_path: Path) -> None:
    async def story(node: Node) -> None:
        (tmp_path / "bin" / mps.CONTROL).unlink()
        node.shares(Mps(4, 8192, 20))
        await node.until(lambda: bool(node.daemons.problems.value))
        assert "No such file" in node.daemons.problems.value[0]

    on_a_node(tmp_path, story)


def test_a_container_gets_the_pipes_of_its_gpu_and_the_daemons_shared_memory(tmp_path: Path) -> None:
    access = Node(tmp_path).daemons.access(FACTS[0].uuid)
    inside = access.environment["CUDA_MPS_PIPE_DIRECTORY"]
    assert access.mounts == (
        MpsMount(f"{tmp_path}/mps/{FACTS[0].uuid}/pipe", inside),
        MpsMount("/dev/shm", "/dev/shm"),  # noqa: S108 - what is mounted
    )


def test_the_folder_of_nvidias_config_file_is_used(tmp_path: Path) -> None:
    async def story(node: Node) -> None:
        node.shares(Mps(4, 8192, 20))
        await node.until(lambda: bool(node.daemons.ready.value))
        node.delivery.publish(DeliveryOptions(("cdi-cri",), mps_root=f"{tmp_path}/other"))
        await node.until((tmp_path / "other" / FACTS[0].uuid / "pipe" / "control").exists)
        await node.until(lambda: node.told(0)[-1] == "quit")
        assert node.daemons.access(FACTS[0].uuid).mounts[0].host_path.startswith(f"{tmp_path}/other/")

    on_a_node(tmp_path, story)
