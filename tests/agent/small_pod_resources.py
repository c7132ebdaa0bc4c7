"""A kubelet as far as the pod resources API goes."""

import asyncio
from pathlib import Path
from typing import Any

import grpc

from gpufleet.agent.kubelet.kubelet_api import pod_resources_pb2 as api
from gpufleet.agent.state.node_state import Held

LATE_S = 0.5
"""The library removes a closed socket's file when it gets round to it."""


class SmallPodResources:
    """Answers on a socket with what ``holders`` has, one message for each unit, as a kubelet does."""

    def __init__(self, socket: Path) -> None:
        self._socket = socket
        self._server: grpc.aio.Server | None = None
        self.holders: list[Held] = []

    async def start(self) -> None:
        """Listen."""
        self._server = grpc.aio.server()
        handlers: dict[str, grpc.RpcMethodHandler[Any, Any]] = {
            "List": grpc.unary_unary_rpc_method_handler(
                self._list,
                api.ListPodResourcesRequest.FromString,
                api.ListPodResourcesResponse.SerializeToString,
            ),
            "Get": grpc.unary_unary_rpc_method_handler(
                self._get,
                api.GetPodResourcesRequest.FromString,
                api.GetPodResourcesResponse.SerializeToString,
            ),
        }
        service = grpc.method_handlers_generic_handler("v1.PodResourcesLister", handlers)
        self._server.add_generic_rpc_handlers((service,))
        self._server.add_insecure_port(f"unix:{self._socket}")
        await self._server.start()

    async def stop(self) -> None:
        """End."""
        if self._server is not None:
            await self._server.stop(0)
            await asyncio.sleep(LATE_S)

    async def _list(self, _: api.ListPodResourcesRequest, __: Any) -> api.ListPodResourcesResponse:
        return api.ListPodResourcesResponse(pod_resources=[_message(one) for one in self.holders])

    async def _get(self, request: api.GetPodResourcesRequest, context: Any) -> api.GetPodResourcesResponse:
        for one in self.holders:
            if (one.namespace, one.pod) == (request.pod_namespace, request.pod_name):
                return api.GetPodResourcesResponse(pod_resources=_message(one))
        raise await context.abort(grpc.StatusCode.UNKNOWN, f"pod {request.pod_name} not found")


def _message(held: Held) -> api.PodResources:
    devices = [api.ContainerDevices(resource_name=held.resource, device_ids=[unit]) for unit in held.units]
    container = api.ContainerResources(name=held.container, devices=devices)
    return api.PodResources(name=held.pod, namespace=held.namespace, containers=[container])
