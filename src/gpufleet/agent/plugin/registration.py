"""Makes the kubelet know our resources, again whenever it was restarted.

A kubelet that starts empties its folder of plugin sockets and makes its own anew; what it knew of us is
gone. So its socket and ours are looked at twice a second, and when its is another one, or one of ours is
gone, every socket of ours is opened anew and registered. Containers that run are not touched by any
of this.
"""

import asyncio
import logging
import re
from collections.abc import Iterable
from pathlib import Path

import grpc

from gpufleet.agent.kubelet.kubelet_api import device_plugin_pb2 as api
from gpufleet.agent.plugin.allocator import Allocator
from gpufleet.agent.plugin.plugin_server import PluginServer
from gpufleet.agent.state.errors import KubeletError
from gpufleet.agent.state.topic import Topic
from gpufleet.agent.units.node_units import Unit
from gpufleet.kube.clock import Clock

LOG = logging.getLogger(__name__)
DEVICE_PLUGINS = Path("/var/lib/kubelet/device-plugins")
KUBELET_SOCKET = "kubelet.sock"
VERSION = "v1beta1"
LOOK_EVERY_S = 0.5
REGISTER_LIMIT_S = 5.0

Sight = tuple[int, int]

# Channels to one address share what they know of it, also that it was gone a moment ago and is not to be
# tried for a while; a kubelet that has just come back must be tried at once.
ANEW = (("grpc.use_local_subchannel_pool", 1),)


class KubeletRegistration:
    """All resources of this node, known to its kubelet while ``run`` runs.

    ``problem`` says why the kubelet does not know them; empty while it does, and while none runs.
    ``offered_since`` is when it last learned of one, as the API writes times.
    """

    def __init__(self, clock: Clock, folder: Path = DEVICE_PLUGINS) -> None:
        self._clock = clock
        self.folder = folder
        self.problem = ""
        self.offered_since: Topic[str] = Topic("")
        self._sockets: dict[str, PluginServer] = {}
        self._known: Sight | None = None
        self._turn = asyncio.Lock()

    @property
    def registered(self) -> bool:
        """Whether the kubelet that runs now knows everything that is offered."""
        return self._known is not None and self._known == self._sight()

    async def offer(self, allocator: Allocator, units: Iterable[Unit]) -> None:
        """Offer these units of a resource, whether it is new or known."""
        known = self._sockets.get(allocator.resource)
        if known is not None:
            known.allocator = allocator
            known.publish(units)
            return
        async with self._turn:
            found = PluginServer(allocator, self.folder / socket_name(allocator.resource))
            self._sockets[allocator.resource] = found
            found.publish(units)
            if self._known is not None and not await self._introduced([found]):
                self._known = None

    async def withdraw(self, resource: str) -> None:
        """Offer nothing of a resource any more; the kubelet counts none of it from then on."""
        async with self._turn:
            found = self._sockets.pop(resource, None)
            if found is not None:
                found.publish(())
                await found.close()

    async def run(self) -> None:
        """Keep the kubelet informed until cancelled; closes every socket then."""
        try:
            while True:
                sight = self._sight()
                if sight is not None and (sight != self._known or not self._all_there()):
                    await self._introduce_all(sight)
                await self._clock.sleep(LOOK_EVERY_S)
        finally:
            self._known = None
            await asyncio.gather(*(one.close() for one in self._sockets.values()))

    def _all_there(self) -> bool:
        return all(one.path.exists() for one in self._sockets.values())

    async def _introduce_all(self, sight: Sight) -> None:
        async with self._turn:
            if await self._introduced(list(self._sockets.values())):
                self._known = sight

    async def _introduced(self, sockets: list[PluginServer]) -> bool:
        """Whether the kubelet took all of them; each is tried, whatever becomes of the others."""
        outcomes = await asyncio.gather(*(self._introduce(one) for one in sockets), return_exceptions=True)
        problems = []
        for outcome in outcomes:
            if isinstance(outcome, KubeletError):
                problems.append(str(outcome))
            elif outcome is not None:
                raise outcome
        problem = "; ".join(problems)
        if problem and problem != self.problem:
            LOG.warning("the kubelet does not know us yet", extra={"problem": problem})
        self.problem = problem
        if sockets and not problems:
            self.offered_since.publish(self._clock.now().strftime("%Y-%m-%dT%H:%M:%S.%fZ"))
            LOG.info(
                "registered with the kubelet",
                extra={"resources": [one.allocator.resource for one in sockets]},
            )
        return not problems

    async def _introduce(self, one: PluginServer) -> None:
        await one.close()
        await one.open()
        request = api.RegisterRequest(
            version=VERSION,
            endpoint=one.path.name,
            resource_name=one.allocator.resource,
            options=one.options,
        )
        async with grpc.aio.insecure_channel(f"unix:{self.folder / KUBELET_SOCKET}", options=ANEW) as channel:
            call = channel.unary_unary(
                f"/{VERSION}.Registration/Register",
                request_serializer=api.RegisterRequest.SerializeToString,
                response_deserializer=api.Empty.FromString,
            )
            try:
                await call(request, timeout=REGISTER_LIMIT_S)
            except grpc.aio.AioRpcError as error:
                problem = (
                    f"{one.allocator.resource} was not registered: {error.code().name} {error.details()}"
                )
                raise KubeletError(problem) from error

    def _sight(self) -> Sight | None:
        """What tells one kubelet's socket from another's; None where there is none."""
        try:
            status = (self.folder / KUBELET_SOCKET).stat()
        except OSError:
            return None
        return status.st_ino, status.st_ctime_ns


def socket_name(resource: str) -> str:
    """A resource's socket, another one for each; short, as a socket's path must be."""
    return f"gpufleet-{re.sub(r'[^a-z0-9.]+', '-', resource.lower())}.sock"
