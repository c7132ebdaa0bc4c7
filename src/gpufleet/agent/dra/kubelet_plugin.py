"""The sockets of one driver at the kubelet: its registration, its claims, and the health of its devices.

The kubelet finds the registration socket in its registry, also after a restart of its own, and asks there for
the name and the other socket. Claims are served as DRA v1 and as v1beta1, which are one on the wire, and
health as v1 and v1alpha1. A claim that cannot be prepared is refused with its sentence, and no other claim of
the call with it.
"""

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import grpc

from gpufleet.agent.device_plugin.plugin_server import CLOSE_S, listen_at
from gpufleet.agent.dra.claim_configuration import base_request
from gpufleet.agent.dra.claim_files import qualified_name
from gpufleet.agent.dra.claim_preparer import ClaimName, ClaimPreparer
from gpufleet.agent.dra.device_health import DeviceHealth, HealthSource
from gpufleet.agent.dra.prepared_claims import PreparedClaim
from gpufleet.agent.kubelet.kubelet_api import dra_health_pb2 as health_api
from gpufleet.agent.kubelet.kubelet_api import dra_plugin_pb2 as api
from gpufleet.agent.kubelet.kubelet_api import plugin_registration_pb2 as registration_api
from gpufleet.agent.state.state_errors import KubeletError, RefusedError
from gpufleet.kube.clock import Clock

LOG = logging.getLogger(__name__)
TYPE = "DRAPlugin"
PLUGIN_SERVICES = (
    "k8s.io.kubelet.pkg.apis.dra.v1.DRAPlugin",
    "k8s.io.kubelet.pkg.apis.dra.v1beta1.DRAPlugin",
)
"""Under these names the kubelet calls, by its version; the messages are the same."""

HEALTH_SERVICES = ("v1.DRAResourceHealth", "v1alpha1.DRAResourceHealth")
"""Under these names the kubelet watches health, by its version; the messages are the same."""

VERSIONS = ("v1.DRAPlugin", "v1beta1.DRAPlugin", *HEALTH_SERVICES)
"""What the kubelet chooses from."""

REGISTRATION_SERVICE = "pluginregistration.Registration"
SOCKET = "dra.sock"
# The folder of the kubelet may be made before the kubelet starts.
FOLDER_MODE = 0o750
HEALTH_EVERY_S = 10.0
"""How often health is told where nothing changes; a kubelet that hears nothing takes it for unknown."""

HEALTH_VALID_S = 30
"""For how long what was told of a device is taken for true."""

if TYPE_CHECKING:
    Context = grpc.aio.ServicerContext[Any, Any]
    Handler = grpc.RpcMethodHandler[Any, Any]


class DriverSocket(Protocol):
    """Where the kubelet calls one driver. The simulation has another one than ``KubeletPlugin``."""

    problem: str

    @property
    def is_there(self) -> bool:
        """Whether the kubelet finds it."""
        ...

    async def open(self) -> None:
        """Let the kubelet call. Raises KubeletError."""
        ...

    async def close(self) -> None:
        """Let the kubelet call no more."""
        ...


MakeSocket = Callable[[str, Path, ClaimPreparer, HealthSource, Clock], DriverSocket]
"""Makes the socket of a driver, by the driver's name and the kubelet's folder."""


class KubeletPlugin:
    """Serves one driver while it is open."""

    def __init__(
        self, driver: str, kubelet_root: Path, preparer: ClaimPreparer, health: HealthSource, clock: Clock
    ) -> None:
        self.driver = driver
        self.socket = kubelet_root / "plugins" / driver / SOCKET
        self.registration_socket = kubelet_root / "plugins_registry" / f"{driver}-reg.sock"
        self._preparer = preparer
        self._health = health
        self._clock = clock
        self._servers: list[grpc.aio.Server] = []
        self._openings = 0
        self.problem = "the kubelet did not register it yet"
        """Why the kubelet does not call; empty once it took the driver."""

    @property
    def is_there(self) -> bool:
        """Whether both sockets are where the kubelet looks."""
        return bool(self._servers) and self.socket.exists() and self.registration_socket.exists()

    async def open(self) -> None:
        """Listen, first for calls and then for the registration. Raises KubeletError."""
        claims = {
            "NodePrepareResources": _one(self._prepare, api.NodePrepareResourcesRequest),
            "NodeUnprepareResources": _one(self._unprepare, api.NodeUnprepareResourcesRequest),
        }
        watch = grpc.unary_stream_rpc_method_handler(
            self._watch_health, health_api.NodeWatchResourcesRequest.FromString, _bytes
        )
        calls = [grpc.method_handlers_generic_handler(name, claims) for name in PLUGIN_SERVICES]
        calls += [
            grpc.method_handlers_generic_handler(name, {"NodeWatchResources": watch})
            for name in HEALTH_SERVICES
        ]
        registration = {
            "GetInfo": _one(self._info, registration_api.InfoRequest),
            "NotifyRegistrationStatus": _one(self._registered, registration_api.RegistrationStatus),
        }
        await self._listen(self.socket, calls)
        known = grpc.method_handlers_generic_handler(REGISTRATION_SERVICE, registration)
        await self._listen(self.registration_socket, [known])

    async def close(self) -> None:
        """Stop serving, the registration first, so that the kubelet knows that it is over."""
        for path in (self.registration_socket, self.socket):
            with contextlib.suppress(OSError):
                path.unlink()
        servers, self._servers = self._servers[::-1], []
        for server in servers:
            # A task of its own: gRPC may take a cancellation that comes when it is done for its own.
            await asyncio.shield(asyncio.create_task(server.stop(CLOSE_S)))

    async def _listen(self, path: Path, handlers: list[Any]) -> None:
        server = grpc.aio.server()
        server.add_generic_rpc_handlers(tuple(handlers))
        self._openings += 1
        self._servers.append(server)
        try:
            path.parent.mkdir(mode=FOLDER_MODE, parents=True, exist_ok=True)
            await listen_at(server, path, self._openings)
        except (OSError, RuntimeError) as error:
            await self.close()
            reason = error.strerror if isinstance(error, OSError) else "gRPC could not bind a socket there"
            raise KubeletError(f"{path} cannot be listened on: {reason}") from error

    async def _info(self, _: registration_api.InfoRequest, __: "Context") -> registration_api.PluginInfo:
        return registration_api.PluginInfo(
            type=TYPE, name=self.driver, endpoint=str(self.socket), supported_versions=VERSIONS
        )

    async def _registered(
        self, status: registration_api.RegistrationStatus, _: "Context"
    ) -> registration_api.RegistrationStatusResponse:
        self.problem = "" if status.plugin_registered else f"the kubelet refused it: {status.error}"
        LOG.info(
            "the kubelet answered the registration", extra={"driver": self.driver, "problem": self.problem}
        )
        return registration_api.RegistrationStatusResponse()

    async def _prepare(
        self, request: api.NodePrepareResourcesRequest, _: "Context"
    ) -> api.NodePrepareResourcesResponse:
        claims = [ClaimName(one.namespace, one.uid, one.name) for one in request.claims]
        answers = await asyncio.gather(*(self._prepared(one) for one in claims))
        named = {claim.uid: answer for claim, answer in zip(claims, answers, strict=True)}
        return api.NodePrepareResourcesResponse(claims=named)

    async def _prepared(self, claim: ClaimName) -> api.NodePrepareResourceResponse:
        try:
            made = await self._preparer.prepare(self.driver, claim)
        except RefusedError as refusal:
            LOG.warning("refused", extra={"driver": self.driver, "reason": str(refusal)})
            return api.NodePrepareResourceResponse(error=str(refusal))
        except Exception:
            LOG.exception("a claim failed", extra={"driver": self.driver, "claim": claim.title})
            return api.NodePrepareResourceResponse(error="the node agent failed; its log has the story")
        return api.NodePrepareResourceResponse(devices=_devices(made))

    async def _unprepare(
        self, request: api.NodeUnprepareResourcesRequest, _: "Context"
    ) -> api.NodeUnprepareResourcesResponse:
        answers = {one.uid: await self._unprepared(one.uid) for one in request.claims}
        return api.NodeUnprepareResourcesResponse(claims=answers)

    async def _unprepared(self, uid: str) -> api.NodeUnprepareResourceResponse:
        try:
            await self._preparer.unprepare(self.driver, uid)
        except RefusedError as refusal:
            LOG.warning("not taken back", extra={"driver": self.driver, "reason": str(refusal)})
            return api.NodeUnprepareResourceResponse(error=str(refusal))
        except Exception:
            LOG.exception("a claim failed", extra={"driver": self.driver, "claim": uid})
            return api.NodeUnprepareResourceResponse(error="the node agent failed; its log has the story")
        return api.NodeUnprepareResourceResponse()

    async def _watch_health(
        self, _: health_api.NodeWatchResourcesRequest, __: "Context"
    ) -> AsyncIterator[health_api.NodeWatchResourcesResponse]:
        servers = self._servers
        # The server was closed, or opened anew for another kubelet: this watch is over.
        while self._servers is servers:
            changed = self._health.changed
            now_s = int(self._clock.now().timestamp())
            told = [_health(one, now_s) for one in self._health.of(self.driver)]
            yield health_api.NodeWatchResourcesResponse(devices=told)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(HEALTH_EVERY_S):
                    await changed.wait()


def _devices(claim: PreparedClaim) -> list[api.Device]:
    return [
        api.Device(
            # The kubelet compares with the request that a container names, which has no alternatives.
            request_names=[base_request(one.request)],
            pool_name=one.pool,
            device_name=one.device,
            cdi_device_ids=[qualified_name(claim, one)],
            share_id=one.share_id,
        )
        for one in claim.devices
    ]


def _health(one: DeviceHealth, now_s: int) -> health_api.DeviceHealth:
    return health_api.DeviceHealth(
        device=health_api.DeviceIdentifier(pool_name=one.pool, device_name=one.device),
        health=one.status,
        last_updated_time=now_s,
        health_check_timeout_seconds=HEALTH_VALID_S,
        message=one.message,
    )


def _one(handler: Callable[[Any, "Context"], Awaitable[Any]], request: Any) -> "Handler":
    return grpc.unary_unary_rpc_method_handler(handler, request.FromString, _bytes)


def _bytes(message: Any) -> bytes:
    encoded: bytes = message.SerializeToString()
    return encoded
