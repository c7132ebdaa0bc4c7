"""The kubelet is offered what the node has, as it has it, and nothing that a container could not name."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from pathlib import Path

import msgspec
import pytest

from gpufleet.agent.device_plugin import whole_device_registrar as registrar
from gpufleet.agent.device_plugin.delivery import Delivery
from gpufleet.agent.device_plugin.driver_files import Root
from gpufleet.agent.device_plugin.kubelet_link import GrpcKubeletLink
from gpufleet.agent.device_plugin.registration import KubeletRegistration
from gpufleet.agent.device_plugin.static_devices import DeviceFiles
from gpufleet.agent.device_plugin.whole_device_registrar import Setup, WholeDeviceRegistrar
from gpufleet.agent.state.disk import MachineDisk
from gpufleet.devices.health import Verdict
from gpufleet.devices.sharing.delivery_options import DeliveryOptions
from gpufleet.devices.sharing.plan import TimeSlice
from gpufleet.kube.clock import MachineClock
from tests.agent.plugin_world import GPU, SIMULATED, PluginWorld, a_gpu, a_node, a_pod, cut
from tests.agent.small_kubelet import PATIENCE_S, SmallKubelet

SHARED = "nvidia.com/gpu.shared"


class FullDisk(MachineDisk):
    """A disk on which nothing can be written while it is full."""

    full = False

    def write(self, path: Path, data: bytes, mode: int) -> None:
        """As Disk."""
        if self.full:
            raise OSError(28, "No space left on device")
        super().write(path, data, mode)


class Scene:
    """A kubelet, a registrar and what it follows."""

    def __init__(self, folder: Path, world: PluginWorld) -> None:
        self.world = world
        self.disk = FullDisk()
        self.cdi = folder / "cdi"
        sockets = folder / "sockets"
        sockets.mkdir()
        self.kubelet = SmallKubelet(sockets)
        self.registration = KubeletRegistration(MachineClock(), GrpcKubeletLink(sockets))
        setup = Setup(Delivery(SIMULATED), self.cdi, disk=self.disk)
        self.registrar = WholeDeviceRegistrar(
            msgspec.structs.replace(world.known, clock=MachineClock()), self.registration, setup
        )

    async def comes_true(self, what: Callable[[], bool]) -> None:
        """Return when it does."""
        async with asyncio.timeout(PATIENCE_S):
            while not what():  # noqa: ASYNC110 files tell nobody
                await asyncio.sleep(0.01)

    def written(self) -> list[str]:
        """The devices that containers can name."""
        files = sorted(self.cdi.glob("*.json"))
        return [device["name"] for file in files for device in json.loads(file.read_bytes())["devices"]]


def told(folder: Path, world: PluginWorld, story: Callable[[Scene], Awaitable[None]]) -> None:
    async def run() -> None:
        scene = Scene(folder, world)
        await scene.kubelet.start()
        parts = [asyncio.create_task(one.run()) for one in (scene.registration, scene.registrar)]
        try:
            await story(scene)
        finally:
            for part in parts:
                part.cancel()
            await asyncio.gather(*parts, return_exceptions=True)
            await scene.kubelet.stop()

    asyncio.run(run())


def test_what_the_node_has_is_offered_with_its_files_there_before(folder: Path) -> None:
    async def story(scene: Scene) -> None:
        await scene.kubelet.sees(GPU, ["GPU-0"])
        await scene.kubelet.sees("nvidia.com/mig-1g.5gb", ["MIG-1-0"])
        assert scene.written() == ["GPU-0", "GPU-1", "MIG-1-0"]

    told(folder, PluginWorld(a_node(a_gpu(0), cut(1, "1g.5gb"))), story)


def test_health_and_plans_are_followed(folder: Path) -> None:
    async def story(scene: Scene) -> None:
        await scene.kubelet.sees(GPU, ["GPU-0", "GPU-1"])
        scene.world.known.gpus.publish(a_node(a_gpu(0, health=Verdict.UNHEALTHY), a_gpu(1)))
        await scene.kubelet.sees(GPU, ["GPU-1"], ["GPU-0"])
        scene.world.known.gpus.publish(a_node(a_gpu(0), a_gpu(1)))
        await scene.kubelet.sees(GPU, ["GPU-0", "GPU-1"])
        scene.world.known.gpus.publish(a_node(a_gpu(0, TimeSlice(2), renamed=True), a_gpu(1)))
        await scene.kubelet.sees(GPU, ["GPU-1"])
        await scene.kubelet.sees(SHARED, ["GPU-0::0", "GPU-0::1"])
        scene.world.known.gpus.publish(a_node(a_gpu(0), a_gpu(1)))
        await scene.kubelet.sees(SHARED, [])
        await scene.kubelet.sees(GPU, ["GPU-0", "GPU-1"])

    told(folder, PluginWorld(a_node(a_gpu(0), a_gpu(1))), story)


def test_the_kubelet_gets_grants_and_refusals(folder: Path) -> None:
    async def story(scene: Scene) -> None:
        await scene.kubelet.sees(GPU, ["GPU-0", "GPU-1"])
        assert await scene.kubelet.prefer(GPU, ["GPU-0", "GPU-1"], 1) == ["GPU-1"]
        given = await scene.kubelet.allocate(GPU, ["GPU-1"])
        assert [one.name for one in given.cdi_devices] == ["gpufleet.io/gpu=GPU-1"]
        with pytest.raises(Exception, match="not offered"):
            await scene.kubelet.allocate(GPU, ["GPU-7"])

    told(folder, PluginWorld(a_node(a_gpu(0), a_gpu(1)), a_pod("a", 1, grant=["GPU-1"])), story)


def test_a_device_whose_file_cannot_be_written_is_sick_until_it_can(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(registrar, "POLL_EVERY_S", 0.05)

    async def story(scene: Scene) -> None:
        await scene.kubelet.sees(GPU, ["GPU-0"])
        scene.disk.full = True
        scene.world.known.gpus.publish(a_node(a_gpu(0), a_gpu(1)))
        await scene.kubelet.sees(GPU, ["GPU-0"], ["GPU-1"])
        assert "No space left on device" in scene.registrar.problem
        scene.disk.full = False
        await scene.kubelet.sees(GPU, ["GPU-0", "GPU-1"])
        assert scene.registrar.problem == ""

    told(folder, PluginWorld(a_node(a_gpu(0))), story)


def test_a_file_that_somebody_removed_is_written_again(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registrar, "POLL_EVERY_S", 0.05)

    async def story(scene: Scene) -> None:
        await scene.kubelet.sees(GPU, ["GPU-0"])
        (scene.cdi / "gpufleet.io-gpu-nvidia.json").unlink()
        await scene.comes_true(lambda: scene.written() == ["GPU-0"])

    told(folder, PluginWorld(a_node(a_gpu(0))), story)


def test_a_driver_that_cannot_be_seen_is_told(folder: Path) -> None:
    async def story(scene: Scene) -> None:
        await scene.kubelet.sees(GPU, ["GPU-0"])
        unseen = DeviceFiles(Root(folder), None, in_pod=True)
        await scene.registrar.hand_out(Delivery(unseen))
        assert "no files of the driver" in scene.registrar.problem

    told(folder, PluginWorld(a_node(a_gpu(0))), story)


def test_another_way_of_delivery_holds_from_then_on(folder: Path) -> None:
    async def story(scene: Scene) -> None:
        await scene.kubelet.sees(GPU, ["GPU-0"])
        await scene.registrar.hand_out(Delivery(SIMULATED, DeliveryOptions(("envvar",))))
        given = await scene.kubelet.allocate(GPU, ["GPU-0"])
        assert given.envs["NVIDIA_VISIBLE_DEVICES"] == "GPU-0"
        assert list(given.cdi_devices) == []

    told(folder, PluginWorld(a_node(a_gpu(0))), story)
