"""The sockets of a driver answer the kubelet in each version, and each claim for itself."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Coroutine
from pathlib import Path
from typing import Any

import grpc
import msgspec
import pytest

from gpufleet.agent.dra.device_health import HealthSource
from gpufleet.agent.dra.kubelet_plugin import HEALTH_SERVICES, PLUGIN_SERVICES, KubeletPlugin
from gpufleet.agent.kubelet.kubelet_api import dra_health_pb2 as health_api
from gpufleet.agent.kubelet.kubelet_api import dra_plugin_pb2 as api
from gpufleet.agent.kubelet.kubelet_api import plugin_registration_pb2 as registration_api
from gpufleet.agent.state.state_errors import KubeletError
from gpufleet.devices.health import Verdict
from gpufleet.kube.clock import MachineClock
from tests.agent.dra.claim_world import NVIDIA, POOL, World
from tests.agent.node_values import a_gpu, a_node


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path, a_gpu("GPU-0", minor=0), a_gpu("GPU-1", minor=1))


Call = Callable[[str, str, Any, Any], Coroutine[Any, Any, Any]]


def served(world: World, story: Callable[[KubeletPlugin], Coroutine[Any, Any, None]]) -> None:
    """A story with an open plugin."""

    async def whole() -> None:
        async with a_plugin(world) as plugin:
            await story(plugin)

    asyncio.run(whole())


@contextlib.asynccontextmanager
async def a_plugin(world: World) -> AsyncIterator[KubeletPlugin]:
    health = HealthSource(world.gpus, world.pools)
    plugin = KubeletPlugin(NVIDIA, world.folder / "k", world.preparer, health, MachineClock())
    await plugin.open()
    try:
        yield plugin
    finally:
        await plugin.close()


async def asked(socket: Path, method: str, request: Any, answer: Any) -> Any:
    """What a call is answered."""
    async with grpc.aio.insecure_channel(f"unix:{socket}") as channel:
        call = channel.unary_unary(
            method,
            request_serializer=type(request).SerializeToString,
            response_deserializer=answer.FromString,
        )
        return await call(request, timeout=10)


def claims(*named: tuple[str, str]) -> list[api.Claim]:
    return [api.Claim(namespace="team", name=name, uid=uid) for name, uid in named]


def test_the_kubelet_learns_name_socket_and_versions(world: World) -> None:
    async def story(plugin: KubeletPlugin) -> None:
        registration = "/pluginregistration.Registration/"
        info = await asked(
            plugin.registration_socket,
            f"{registration}GetInfo",
            registration_api.InfoRequest(),
            registration_api.PluginInfo,
        )
        assert (info.type, info.name, info.endpoint) == ("DRAPlugin", NVIDIA, str(plugin.socket))
        assert list(info.supported_versions) == [
            "v1.DRAPlugin",
            "v1beta1.DRAPlugin",
            "v1.DRAResourceHealth",
            "v1alpha1.DRAResourceHealth",
        ]
        for status, problem in ((False, "the kubelet refused it: no"), (True, "")):
            told = registration_api.RegistrationStatus(plugin_registered=status, error="no")
            answer = registration_api.RegistrationStatusResponse
            await asked(plugin.registration_socket, f"{registration}NotifyRegistrationStatus", told, answer)
            assert plugin.problem == problem

    served(world, story)


@pytest.mark.parametrize("service", PLUGIN_SERVICES)
def test_each_claim_of_a_call_is_answered_for_itself(world: World, service: str) -> None:
    world.allocated("good", "gpu-0", "gpu-1", request="gpu/large")

    async def story(plugin: KubeletPlugin) -> None:
        request = api.NodePrepareResourcesRequest(claims=claims(("good", "uid-good"), ("bad", "uid-bad")))
        path = f"/{service}/NodePrepareResources"
        answer = await asked(plugin.socket, path, request, api.NodePrepareResourcesResponse)
        assert answer.claims["uid-bad"].error == "claim team/bad does not exist"
        devices = answer.claims["uid-good"].devices
        assert [(list(one.request_names), one.pool_name, one.device_name) for one in devices] == [
            (["gpu"], POOL, "gpu-0"),
            (["gpu"], POOL, "gpu-1"),
        ]
        assert [list(one.cdi_device_ids) for one in devices] == [
            [f"gpufleet.io/claim=uid-good-{NVIDIA}-gpu-{number}"] for number in range(2)
        ]
        undo = api.NodeUnprepareResourcesRequest(claims=claims(("good", "uid-good"), ("bad", "uid-bad")))
        path = f"/{service}/NodeUnprepareResources"
        undone = await asked(plugin.socket, path, undo, api.NodeUnprepareResourcesResponse)
        assert {uid: one.error for uid, one in undone.claims.items()} == {"uid-good": "", "uid-bad": ""}
        assert world.files() == []

    served(world, story)


@pytest.mark.parametrize("service", HEALTH_SERVICES)
def test_health_is_told_at_once_and_with_each_change(world: World, service: str) -> None:
    async def story(plugin: KubeletPlugin) -> None:
        async with grpc.aio.insecure_channel(f"unix:{plugin.socket}") as channel:
            watch = channel.unary_stream(
                f"/{service}/NodeWatchResources",
                request_serializer=health_api.NodeWatchResourcesRequest.SerializeToString,
                response_deserializer=health_api.NodeWatchResourcesResponse.FromString,
            )(health_api.NodeWatchResourcesRequest(), timeout=10)
            first: Any = await watch.read()
            assert [(one.device.device_name, one.health) for one in first.devices] == [
                ("gpu-0", health_api.HEALTHY),
                ("gpu-1", health_api.HEALTHY),
            ]
            sick = msgspec.structs.replace(
                a_gpu("GPU-1", minor=1), health=Verdict.UNHEALTHY, reason="Xid 79: gone"
            )
            world.gpus.publish(a_node(a_gpu("GPU-0", minor=0), sick))
            second: Any = await watch.read()
            assert [(one.health, one.message) for one in second.devices] == [
                (health_api.HEALTHY, ""),
                (health_api.UNHEALTHY, "Xid 79: gone"),
            ]

    served(world, story)


def test_sockets_are_gone_when_it_ends_and_a_long_path_is_told(world: World) -> None:
    async def story(plugin: KubeletPlugin) -> None:
        assert plugin.is_there
        await plugin.close()
        assert not plugin.socket.exists()
        assert not plugin.registration_socket.exists()
        health = HealthSource(world.gpus, world.pools)
        far = KubeletPlugin(NVIDIA, world.folder / ("k" * 120), world.preparer, health, MachineClock())
        with pytest.raises(KubeletError, match="at most 107 characters"):
            await far.open()

    served(world, story)
