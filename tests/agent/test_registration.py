"""The kubelet knows what is offered, and knows it again after its restart."""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import cast

import grpc
import pytest

from gpufleet.agent.device_plugin.kubelet_link import GrpcKubeletLink, socket_name
from gpufleet.agent.device_plugin.plugin_server import PluginServer
from gpufleet.agent.device_plugin.registration import KubeletRegistration
from gpufleet.agent.device_plugin.unit_allocator import AllocateResponse, DeviceNode
from gpufleet.agent.state.state_errors import KubeletError, RefusedError
from gpufleet.agent.units.node_units import Unit
from gpufleet.kube.clock import MachineClock
from tests.agent.small_kubelet import PATIENCE_S, SmallKubelet

GPU = "nvidia.com/gpu"


class PlainAllocator:
    """An allocator that gives what it is asked for, but for one unit."""

    def __init__(self, resource: str = GPU, *, prepares: bool = False) -> None:
        self.resource = resource
        self.prefers = True
        self.prepares = prepares
        self.prepared: list[tuple[str, ...]] = []

    async def prefer(self, available: Sequence[str], required: Sequence[str], size: int) -> list[str]:
        """The last ones."""
        assert not required
        return list(available)[-size:]

    async def allocate(self, units: Sequence[str]) -> AllocateResponse:
        """All but "mine"."""
        if "mine" in units:
            raise RefusedError("mine was granted to pod team-a/train")
        if "broken" in units:
            raise ValueError("a bug")
        node = DeviceNode("/dev/nvidia0", "/dev/nvidia0")
        return AllocateResponse({"UNITS": ",".join(units)}, (node,), cdi_devices=("vendor.com/gpu=0",))

    async def prepare(self, units: Sequence[str]) -> None:
        """Remember."""
        self.prepared.append(tuple(units))


Story = Callable[[SmallKubelet, KubeletRegistration], Awaitable[None]]


def told(folder: Path, story: Story) -> None:
    """Tell a story of a kubelet and a registration that is kept up."""

    async def run() -> None:
        kubelet, registration = (
            SmallKubelet(folder),
            KubeletRegistration(MachineClock(), GrpcKubeletLink(folder)),
        )
        await kubelet.start()
        keeping = asyncio.create_task(registration.run())
        try:
            await story(kubelet, registration)
        finally:
            keeping.cancel()
            await asyncio.gather(keeping, return_exceptions=True)
            await kubelet.stop()

    asyncio.run(run())


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def knows(registration: KubeletRegistration) -> bool:
    return registration.registered


def units(*names: str, healthy: bool = True) -> list[Unit]:
    return [Unit(name, healthy=healthy, numa_node=0) for name in names]


def test_what_is_offered_is_seen_and_what_changes_is_seen_again(folder: Path) -> None:
    async def story(kubelet: SmallKubelet, registration: KubeletRegistration) -> None:
        allocator = PlainAllocator()
        await registration.offer(allocator, units("a", "b"))
        await kubelet.sees(GPU, ["a", "b"])
        assert [node.ID for node in kubelet.devices[GPU][0].topology.nodes] == [0]
        await registration.offer(allocator, [*units("a"), *units("b", healthy=False)])
        await kubelet.sees(GPU, ["a"], ["b"])
        asked = kubelet.registered[-1]
        assert (asked.version, asked.endpoint) == ("v1beta1", "gpufleet-nvidia.com-gpu.sock")
        assert asked.options.get_preferred_allocation_available
        assert not asked.options.pre_start_required

    told(folder, story)


def test_after_a_restart_of_the_kubelet_everything_is_registered_again(folder: Path) -> None:
    async def story(kubelet: SmallKubelet, registration: KubeletRegistration) -> None:
        await registration.offer(PlainAllocator(), units("a"))
        await registration.offer(PlainAllocator("gpufleet.io/gpu-share", prepares=True), units("s-0", "s-1"))
        await kubelet.sees(GPU, ["a"])
        await kubelet.stop()
        await kubelet.start()
        await kubelet.sees(GPU, ["a"])
        await kubelet.sees("gpufleet.io/gpu-share", ["s-0", "s-1"])

    told(folder, story)


def test_since_when_the_kubelet_knows_the_devices_is_told_and_changes_with_its_restart(folder: Path) -> None:
    async def story(kubelet: SmallKubelet, registration: KubeletRegistration) -> None:
        assert registration.offered_since.value == ""
        times = []
        await registration.offer(PlainAllocator(), units("a"))
        async with asyncio.timeout(PATIENCE_S):
            async for since in registration.offered_since.follow():
                times += [since] if since else []
                if len(times) == 2:
                    break
                if times:
                    await kubelet.stop()
                    await kubelet.start()
        assert times[0] < times[1]

    told(folder, story)


def test_the_kubelet_may_restart_again_and_again(folder: Path) -> None:
    async def story(kubelet: SmallKubelet, registration: KubeletRegistration) -> None:
        await registration.offer(PlainAllocator(), units("a"))
        for _ in range(3):
            await kubelet.sees(GPU, ["a"])
            await kubelet.stop()
            await kubelet.start()
        await kubelet.sees(GPU, ["a"])
        assert names(folder) == ["gpufleet-nvidia.com-gpu.sock", "kubelet.sock"]

    told(folder, story)


def test_a_socket_that_somebody_removed_is_opened_again(folder: Path) -> None:
    async def story(kubelet: SmallKubelet, registration: KubeletRegistration) -> None:
        await registration.offer(PlainAllocator(), units("a"))
        await kubelet.sees(GPU, ["a"])
        kubelet.devices.clear()
        (folder / "gpufleet-nvidia.com-gpu.sock").unlink()
        await kubelet.sees(GPU, ["a"])

    told(folder, story)


def test_a_folder_that_is_not_there_yet_is_waited_for(folder: Path) -> None:
    async def run() -> None:
        registration = KubeletRegistration(MachineClock(), GrpcKubeletLink(folder / "later"))
        await registration.offer(PlainAllocator(), units("a"))
        keeping = asyncio.create_task(registration.run())
        (folder / "later").mkdir()
        kubelet = SmallKubelet(folder / "later")
        await kubelet.start()
        await kubelet.sees(GPU, ["a"])
        keeping.cancel()
        await asyncio.gather(keeping, return_exceptions=True)
        await kubelet.stop()

    asyncio.run(run())


def test_a_path_that_is_too_long_for_a_socket_is_told(folder: Path) -> None:
    async def run() -> None:
        deep = folder / ("a" * 100)
        deep.mkdir()
        with pytest.raises(KubeletError, match="a socket's path has at most 107 characters"):
            await PluginServer(PlainAllocator(), deep / "a.sock").open()

    asyncio.run(run())


def test_a_kubelet_that_takes_no_registration_is_tried_again(folder: Path) -> None:
    async def story(kubelet: SmallKubelet, registration: KubeletRegistration) -> None:
        kubelet.refuses = True
        await registration.offer(PlainAllocator(), units("a"))
        async with asyncio.timeout(PATIENCE_S):
            while not registration.problem:  # noqa: ASYNC110 it tells nobody
                await asyncio.sleep(0.01)
        assert "nvidia.com/gpu was not registered" in registration.problem
        assert not knows(registration)
        kubelet.refuses = False
        await kubelet.sees(GPU, ["a"])

    told(folder, story)


def test_an_agent_that_starts_before_its_kubelet_waits_for_it(folder: Path) -> None:
    async def run() -> None:
        registration = KubeletRegistration(MachineClock(), GrpcKubeletLink(folder))
        await registration.offer(PlainAllocator(), units("a"))
        keeping = asyncio.create_task(registration.run())
        await asyncio.sleep(0.1)
        assert not knows(registration)
        kubelet = SmallKubelet(folder)
        await kubelet.start()
        await kubelet.sees(GPU, ["a"])
        assert knows(registration)
        keeping.cancel()
        await asyncio.gather(keeping, return_exceptions=True)
        assert names(folder) == ["kubelet.sock"]
        await kubelet.stop()

    asyncio.run(run())


def test_containers_get_what_the_steward_gives(folder: Path) -> None:
    async def story(kubelet: SmallKubelet, registration: KubeletRegistration) -> None:
        allocator = PlainAllocator(prepares=True)
        await registration.offer(allocator, units("a", "b", "c"))
        await kubelet.sees(GPU, ["a", "b", "c"])
        assert await kubelet.prefer(GPU, ["a", "b", "c"], 2) == ["b", "c"]
        given = await kubelet.allocate(GPU, ["b", "c"])
        assert dict(given.envs) == {"UNITS": "b,c"}
        assert [(one.host_path, one.permissions) for one in given.devices] == [("/dev/nvidia0", "rw")]
        assert [one.name for one in given.cdi_devices] == ["vendor.com/gpu=0"]
        await kubelet.start_container(GPU, ["b", "c"])
        assert allocator.prepared == [("b", "c")]

    told(folder, story)


def test_a_refusal_reaches_the_kubelet_with_its_sentence(folder: Path) -> None:
    async def story(kubelet: SmallKubelet, registration: KubeletRegistration) -> None:
        await registration.offer(PlainAllocator(), units("mine"))
        await kubelet.sees(GPU, ["mine"])
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await kubelet.allocate(GPU, ["mine"])
        assert refused.value.code() is grpc.StatusCode.FAILED_PRECONDITION
        assert refused.value.details() == "mine was granted to pod team-a/train"

    told(folder, story)


def test_a_bug_of_ours_is_told_without_its_details(folder: Path) -> None:
    async def story(kubelet: SmallKubelet, registration: KubeletRegistration) -> None:
        await registration.offer(PlainAllocator(), units("broken"))
        await kubelet.sees(GPU, ["broken"])
        with pytest.raises(grpc.aio.AioRpcError) as failed:
            await kubelet.allocate(GPU, ["broken"])
        assert failed.value.code() is grpc.StatusCode.INTERNAL
        assert "log" in (failed.value.details() or "")

    told(folder, story)


def test_what_is_withdrawn_is_offered_no_more(folder: Path) -> None:
    async def story(kubelet: SmallKubelet, registration: KubeletRegistration) -> None:
        await registration.offer(PlainAllocator(), units("a"))
        await kubelet.sees(GPU, ["a"])
        await registration.withdraw(GPU)
        await kubelet.sees(GPU, [])
        assert names(folder) == ["kubelet.sock"]

    told(folder, story)


class Deaf:
    """A server that takes a cancellation for its own, as gRPC's does when it comes just as it is done."""

    async def stop(self, _: float) -> None:
        """Not told to whoever waits."""
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.Event().wait()


def test_whoever_is_cancelled_while_a_socket_closes_ends(folder: Path) -> None:
    async def closing(socket: PluginServer) -> None:
        await socket.close()
        await asyncio.Event().wait()

    async def run() -> None:
        socket = PluginServer(PlainAllocator(), folder / "a.sock")
        socket._server = cast("grpc.aio.Server", Deaf())
        task = asyncio.create_task(closing(socket))
        await asyncio.sleep(0)
        task.cancel()
        async with asyncio.timeout(PATIENCE_S):
            await asyncio.gather(task, return_exceptions=True)
        assert task.cancelled()

    asyncio.run(run())


def test_sockets_of_different_resources_have_different_names() -> None:
    names = {
        socket_name(name) for name in ("nvidia.com/gpu", "nvidia.com/gpu.shared", "nvidia.com/mig-1g.5gb")
    }
    assert len(names) == 3
