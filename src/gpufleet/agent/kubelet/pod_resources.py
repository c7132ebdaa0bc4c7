"""Asks the kubelet which container holds which devices (pod resources API v1).

It answers from memory, so it knows an allocation as soon as it is made. It names pods by namespace and
name, and leaves out init containers that end; ``holder_monitor`` fills both in from the kubelet's record.
"""

from pathlib import Path
from typing import Any

import grpc
import msgspec

from gpufleet.agent.kubelet.kubelet_api import pod_resources_pb2 as api
from gpufleet.agent.state.node_state import Held
from gpufleet.agent.state.state_errors import KubeletError

SOCKET = Path("/var/lib/kubelet/pod-resources/kubelet.sock")
# The kubelet answers from memory, on a socket of the node.
LIMIT_S = 5.0
MAXIMUM_BYTES = 16 * 1024 * 1024
"""As much as a kubelet sends."""

# A kubelet that has just come back is asked at once: nothing is remembered of a socket that was gone.
OPTIONS = (("grpc.use_local_subchannel_pool", 1), ("grpc.max_receive_message_length", MAXIMUM_BYTES))


class ClaimUse(msgspec.Struct, frozen=True):
    """A device of a claim that a pod has, as the kubelet says it."""

    namespace: str
    name: str
    driver: str
    pool: str
    device: str


class PodResources:
    """The kubelet behind one socket."""

    def __init__(self, socket: Path = SOCKET, limit_s: float = LIMIT_S) -> None:
        self._socket = socket
        self._limit_s = limit_s

    async def list(self) -> tuple[Held, ...]:
        """All that is held on this node, without the pods' UIDs. Raises KubeletError."""
        answer: api.ListPodResourcesResponse = await self._call(
            "List", api.ListPodResourcesRequest(), api.ListPodResourcesResponse
        )
        return tuple(held for pod in answer.pod_resources for held in _held(pod))

    async def claims(self) -> tuple[ClaimUse, ...]:
        """The devices of claims that pods of this node have, each once. Raises KubeletError.

        A kubelet before 1.34 says none unless a gate is open.
        """
        answer: api.ListPodResourcesResponse = await self._call(
            "List", api.ListPodResourcesRequest(), api.ListPodResourcesResponse
        )
        found = (
            ClaimUse(claim.claim_namespace, claim.claim_name, one.driver_name, one.pool_name, one.device_name)
            for pod in answer.pod_resources
            for container in pod.containers
            for claim in container.dynamic_resources
            for one in claim.claim_resources
        )
        return tuple(dict.fromkeys(found))

    async def get(self, namespace: str, pod: str) -> tuple[Held, ...]:
        """What one pod holds. Raises KubeletError, also for a pod that the kubelet does not know."""
        request = api.GetPodResourcesRequest(pod_name=pod, pod_namespace=namespace)
        answer: api.GetPodResourcesResponse = await self._call("Get", request, api.GetPodResourcesResponse)
        return tuple(_held(answer.pod_resources))

    async def _call(self, method: str, request: Any, answer: type[Any]) -> Any:
        async with grpc.aio.insecure_channel(f"unix:{self._socket}", options=OPTIONS) as channel:
            call = channel.unary_unary(
                f"/v1.PodResourcesLister/{method}",
                request_serializer=type(request).SerializeToString,
                response_deserializer=answer.FromString,
            )
            try:
                return await call(request, timeout=self._limit_s)
            except grpc.aio.AioRpcError as error:
                problem = (
                    f"the kubelet does not tell the holders of devices: {error.code().name} {error.details()}"
                )
                raise KubeletError(problem) from error


def _held(pod: api.PodResources) -> list[Held]:
    return [
        Held(
            pod.namespace, pod.name, container.name, devices.resource_name, tuple(sorted(devices.device_ids))
        )
        for container in pod.containers
        for devices in _by_resource(container)
    ]


def _by_resource(container: api.ContainerResources) -> list[api.ContainerDevices]:
    """A resource is listed once for each device or NUMA node, depending on the kubelet's version."""
    found: dict[str, list[str]] = {}
    for devices in container.devices:
        found.setdefault(devices.resource_name, []).extend(devices.device_ids)
    return [
        api.ContainerDevices(resource_name=name, device_ids=sorted(set(ids))) for name, ids in found.items()
    ]
