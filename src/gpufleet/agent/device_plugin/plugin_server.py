"""One resource on its socket: the device plugin API v1beta1, carried to an allocator and back.

The kubelet is sent the whole list whenever it changes. A refusal goes back as FAILED_PRECONDITION with its
sentence, which the kubelet writes into the pod's status; anything unexpected as INTERNAL, logged here
with its story. ``registration`` opens sockets and makes the kubelet know them.
"""

import asyncio
import contextlib
import errno
import logging
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import grpc

from gpufleet.agent.device_plugin.unit_allocator import AllocateResponse, Allocator
from gpufleet.agent.kubelet.kubelet_api import device_plugin_pb2 as api
from gpufleet.agent.state.state_errors import KubeletError, RefusedError
from gpufleet.agent.units.node_units import Unit

LOG = logging.getLogger(__name__)
SERVICE = "v1beta1.DevicePlugin"
HEALTHY, UNHEALTHY = "Healthy", "Unhealthy"
# An answer under way is made from memory in milliseconds.
CLOSE_S = 1.0
PATH_LONGEST = 107
"""What an address of a socket has room for (unix(7))."""


if TYPE_CHECKING:
    Context = grpc.aio.ServicerContext[Any, Any]
    Handler = grpc.RpcMethodHandler[Any, Any]


class PluginServer:
    """Serves one allocator's resource while it is open."""

    def __init__(self, allocator: Allocator, path: Path) -> None:
        self.allocator = allocator
        self.path = path
        self._openings = 0
        self._units: tuple[Unit, ...] = ()
        self._changed = asyncio.Event()
        self._server: grpc.aio.Server | None = None

    @property
    def is_there(self) -> bool:
        """Whether the socket's file is there; a kubelet that starts removes it."""
        return self.path.exists()

    @property
    def options(self) -> api.DevicePluginOptions:
        """What the kubelet has to know of us."""
        allocator = self.allocator
        return api.DevicePluginOptions(
            pre_start_required=allocator.prepares, get_preferred_allocation_available=allocator.prefers
        )

    def publish(self, units: Iterable[Unit]) -> None:
        """Offer exactly these from now on."""
        offered = tuple(units)
        if offered != self._units:
            self._units = offered
            self._wake()

    async def open(self) -> None:
        """Listen, in place of whatever lies at the path. Raises KubeletError where that cannot be."""
        server = grpc.aio.server()
        handlers = {
            "GetDevicePluginOptions": _one(self._options, api.Empty),
            "ListAndWatch": grpc.unary_stream_rpc_method_handler(
                self._list_and_watch, api.Empty.FromString, _bytes
            ),
            "GetPreferredAllocation": _one(self._prefer, api.PreferredAllocationRequest),
            "Allocate": _one(self._allocate, api.AllocateRequest),
            "PreStartContainer": _one(self._prepare, api.PreStartContainerRequest),
        }
        server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(SERVICE, handlers),))
        self._openings += 1
        self._server = server
        try:
            await listen_at(server, self.path, self._openings)
        except (OSError, RuntimeError) as error:
            await self.close()
            reason = error.strerror if isinstance(error, OSError) else "gRPC could not bind a socket there"
            raise KubeletError(f"{self.path} cannot be listened on: {reason}") from error

    async def close(self) -> None:
        """Stop serving; the kubelet's watches end at once, other calls under way are given a moment."""
        server, self._server = self._server, None
        if server is None:
            return
        with contextlib.suppress(OSError):
            self.path.unlink()
        self._wake()
        # What gRPC waits with may take a cancellation that comes just when it is done for its own, and then
        # the task that closes the server would never end. So ``stop`` runs in a task of its own.
        await asyncio.shield(asyncio.create_task(server.stop(CLOSE_S)))

    async def _options(self, _: api.Empty, __: "Context") -> api.DevicePluginOptions:
        return self.options

    async def _list_and_watch(self, _: api.Empty, __: "Context") -> AsyncIterator[api.ListAndWatchResponse]:
        server, sent = self._server, None
        while True:
            changed = self._changed
            if sent != self._units:
                sent = self._units
                yield api.ListAndWatchResponse(devices=[_device(unit) for unit in sent])
            # The server was closed, or opened anew for another kubelet: this watch is over.
            if self._server is not server:
                return
            await changed.wait()

    def _wake(self) -> None:
        """Let every watch look again."""
        # A new event first, so that no change between waking and waiting again is lost.
        waiting, self._changed = self._changed, asyncio.Event()
        waiting.set()

    async def _prefer(
        self, request: api.PreferredAllocationRequest, context: "Context"
    ) -> api.PreferredAllocationResponse:
        answers = []
        for asked in request.container_requests:
            call = self.allocator.prefer(
                asked.available_deviceIDs, asked.must_include_deviceIDs, asked.allocation_size
            )
            units = await self._guarded(call, context)
            answers.append(api.ContainerPreferredAllocationResponse(deviceIDs=units))
        return api.PreferredAllocationResponse(container_responses=answers)

    async def _allocate(self, request: api.AllocateRequest, context: "Context") -> api.AllocateResponse:
        answers = []
        for asked in request.container_requests:
            given = await self._guarded(self.allocator.allocate(asked.devices_ids), context)
            answers.append(_answer(given))
        return api.AllocateResponse(container_responses=answers)

    async def _prepare(
        self, request: api.PreStartContainerRequest, context: "Context"
    ) -> api.PreStartContainerResponse:
        await self._guarded(self.allocator.prepare(request.devices_ids), context)
        return api.PreStartContainerResponse()

    async def _guarded(self, call: Awaitable[Any], context: "Context") -> Any:
        try:
            return await call
        except RefusedError as refusal:
            LOG.warning("refused", extra={"resource": self.allocator.resource, "reason": str(refusal)})
            await context.abort(grpc.StatusCode.FAILED_PRECONDITION, str(refusal))
        except grpc.aio.AbortError:
            raise
        except Exception:
            LOG.exception("a call of the kubelet failed", extra={"resource": self.allocator.resource})
            await context.abort(grpc.StatusCode.INTERNAL, "the node agent failed; its log has the story")


async def listen_at(server: grpc.aio.Server, path: Path, opening: int) -> None:
    """Start a server at a path, in place of whatever lies there. Raises OSError and RuntimeError.

    gRPC removes the file of a listener that it closes by its name, some time after it closed it, and also
    where another listener made a new file there. So the listener is bound under a name that no other opening
    has, and the file is then moved to the path, which gRPC does not know.
    """
    bound = path.with_name(f".{path.stem}.{opening}")
    longest = max(len(os.fsencode(one)) for one in (bound, path))
    if longest > PATH_LONGEST:
        raise OSError(errno.ENAMETOOLONG, f"a socket's path has at most {PATH_LONGEST} characters")
    server.add_insecure_port(f"unix:{bound}")
    await server.start()
    bound.replace(path)


def _one(handler: Callable[[Any, "Context"], Awaitable[Any]], request: Any) -> "Handler":
    return grpc.unary_unary_rpc_method_handler(handler, request.FromString, _bytes)


def _bytes(message: Any) -> bytes:
    encoded: bytes = message.SerializeToString()
    return encoded


def _device(unit: Unit) -> api.Device:
    nodes = [] if unit.numa_node is None else [api.NUMANode(ID=unit.numa_node)]
    return api.Device(
        ID=unit.id,
        health=HEALTHY if unit.healthy else UNHEALTHY,
        topology=api.TopologyInfo(nodes=nodes) if nodes else None,
    )


def _answer(given: AllocateResponse) -> api.ContainerAllocateResponse:
    return api.ContainerAllocateResponse(
        envs=given.environment,
        mounts=[
            api.Mount(container_path=one.container_path, host_path=one.host_path, read_only=one.read_only)
            for one in given.mounts
        ],
        devices=[
            api.DeviceSpec(
                container_path=one.container_path, host_path=one.host_path, permissions=one.permissions
            )
            for one in given.device_nodes
        ],
        annotations=given.annotations,
        cdi_devices=[api.CDIDevice(name=name) for name in given.cdi_devices],
    )
