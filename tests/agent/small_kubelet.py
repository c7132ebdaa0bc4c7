"""A kubelet as far as device plugins see one: it takes registrations and asks the plugin back.

It stands only for the other end of the sockets; the real one is met in the tests of the real node.
"""

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import grpc

from gpufleet.agent.device_plugin.kubelet_link import ANEW
from gpufleet.agent.device_plugin.plugin_server import listen_at
from gpufleet.agent.kubelet.kubelet_api import device_plugin_pb2 as api

PATIENCE_S = 20.0


class SmallKubelet:
    """Listens on kubelet.sock in a folder; ``registered`` are the plugins, the newest last.

    While it ``refuses`` it takes no registration.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.registered: list[api.RegisterRequest] = []
        self.devices: dict[str, list[api.Device]] = {}
        self._server: grpc.aio.Server | None = None
        self._starts = 0
        self.refuses = False
        self._watches: list[asyncio.Task[None]] = []
        self._news = asyncio.Condition()

    async def start(self) -> None:
        """Empty the folder, as a kubelet does, and listen."""
        for left in self.folder.iterdir():
            left.unlink(missing_ok=True)
        self.registered.clear()
        self.devices.clear()
        self._server = grpc.aio.server()
        handler = grpc.unary_unary_rpc_method_handler(
            self._register, api.RegisterRequest.FromString, api.Empty.SerializeToString
        )
        service = grpc.method_handlers_generic_handler("v1beta1.Registration", {"Register": handler})
        self._server.add_generic_rpc_handlers((service,))
        self._starts += 1
        await listen_at(self._server, self.folder / "kubelet.sock", self._starts)

    async def stop(self) -> None:
        """End, and leave the folder as it is: a kubelet that ends does not tidy up."""
        for watch in self._watches:
            watch.cancel()
        await asyncio.gather(*self._watches, return_exceptions=True)
        self._watches.clear()
        if self._server is not None:
            await self._server.stop(0)

    async def sees(self, resource: str, healthy: Sequence[str], sick: Sequence[str] = ()) -> None:
        """Return when exactly these units are offered."""
        async with asyncio.timeout(PATIENCE_S), self._news:
            await self._news.wait_for(
                lambda: (
                    resource in self.devices
                    and {(one.ID, one.health) for one in self.devices[resource]}
                    == {*((one, "Healthy") for one in healthy), *((one, "Unhealthy") for one in sick)}
                )
            )

    async def prefer(self, resource: str, available: Sequence[str], size: int) -> list[str]:
        """Ask which units suit."""
        asked = api.ContainerPreferredAllocationRequest(available_deviceIDs=available, allocation_size=size)
        request = api.PreferredAllocationRequest(container_requests=[asked])
        answer = await self._ask(resource, "GetPreferredAllocation", request, api.PreferredAllocationResponse)
        return list(answer.container_responses[0].deviceIDs)

    async def allocate(self, resource: str, units: Sequence[str]) -> api.ContainerAllocateResponse:
        """Ask what a container gets."""
        request = api.AllocateRequest(container_requests=[api.ContainerAllocateRequest(devices_ids=units)])
        answer = await self._ask(resource, "Allocate", request, api.AllocateResponse)
        given: api.ContainerAllocateResponse = answer.container_responses[0]
        return given

    async def start_container(self, resource: str, units: Sequence[str]) -> None:
        """Say that a container is about to start."""
        request = api.PreStartContainerRequest(devices_ids=units)
        await self._ask(resource, "PreStartContainer", request, api.PreStartContainerResponse)

    async def _register(self, request: api.RegisterRequest, context: Any) -> api.Empty:
        if self.refuses:
            await context.abort(grpc.StatusCode.UNAVAILABLE, "not now")
        self.registered.append(request)
        self._watches.append(asyncio.create_task(self._watch(request.resource_name, request.endpoint)))
        return api.Empty()

    async def _watch(self, resource: str, endpoint: str) -> None:
        async with grpc.aio.insecure_channel(f"unix:{self.folder / endpoint}", options=ANEW) as channel:
            call = channel.unary_stream(
                "/v1beta1.DevicePlugin/ListAndWatch",
                request_serializer=api.Empty.SerializeToString,
                response_deserializer=api.ListAndWatchResponse.FromString,
            )
            try:
                async for answer in call(api.Empty()):
                    async with self._news:
                        self.devices[resource] = list(answer.devices)
                        self._news.notify_all()
            except grpc.aio.AioRpcError:
                return

    async def _ask(self, resource: str, method: str, request: Any, answer: Any) -> Any:
        endpoint = next(one.endpoint for one in reversed(self.registered) if one.resource_name == resource)
        async with grpc.aio.insecure_channel(f"unix:{self.folder / endpoint}", options=ANEW) as channel:
            call = channel.unary_unary(
                f"/v1beta1.DevicePlugin/{method}",
                request_serializer=type(request).SerializeToString,
                response_deserializer=answer.FromString,
            )
            return await call(request, timeout=PATIENCE_S)
