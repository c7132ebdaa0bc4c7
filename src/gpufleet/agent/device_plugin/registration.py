"""Makes the kubelet know our resources, again whenever it was restarted.

A kubelet that starts empties its folder of plugin sockets and makes its own anew; what it knew of us is
gone. So its socket and ours are looked at twice a second, and when its is another one, or one of ours is
gone, every socket of ours is opened anew and registered. Containers that run are not touched by any
of this.
"""

import asyncio
import logging
from collections.abc import Iterable
from typing import Protocol

from gpufleet.agent.device_plugin.unit_allocator import Allocator
from gpufleet.agent.state.state_errors import KubeletError
from gpufleet.agent.state.topic import Topic
from gpufleet.agent.units.node_units import Unit
from gpufleet.kube.clock import Clock

LOG = logging.getLogger(__name__)
# A kubelet that restarted has no devices until the plugins are back, and pods wait for them.
POLL_EVERY_S = 0.5

RunningKubelet = tuple[int, int]
"""What tells one start of a kubelet from another."""


class ResourceServer(Protocol):
    """What serves one resource to the kubelet; ``plugin_server`` is the real one."""

    allocator: Allocator

    @property
    def is_there(self) -> bool:
        """Whether the kubelet can still find it."""

    def publish(self, units: Iterable[Unit]) -> None:
        """Offer exactly these units from now on."""

    async def open(self) -> None:
        """Begin to serve. Raises KubeletError."""

    async def close(self) -> None:
        """Stop serving."""


class KubeletLink(Protocol):
    """The way to the kubelet of this node; ``kubelet_link`` is the real one."""

    def running_kubelet(self) -> RunningKubelet | None:
        """The kubelet that runs now; None where none does."""

    def server(self, allocator: Allocator) -> ResourceServer:
        """A server for the resource of an allocator, not yet open."""

    async def register(self, server: ResourceServer) -> None:
        """Tell the kubelet of an open server. Raises KubeletError."""


class KubeletRegistration:
    """All resources of this node, known to its kubelet while ``run`` runs.

    ``problem`` says why the kubelet does not know them; empty while it does, and while none runs.
    ``offered_since`` is when it last learned of one, as the API writes times.
    """

    def __init__(self, clock: Clock, link: KubeletLink) -> None:
        self._clock = clock
        self._link = link
        self.problem = ""
        self.offered_since: Topic[str] = Topic("")
        self._sockets: dict[str, ResourceServer] = {}
        self._known: RunningKubelet | None = None
        self._turn = asyncio.Lock()

    @property
    def registered(self) -> bool:
        """Whether the kubelet that runs now knows everything that is offered."""
        return self._known is not None and self._known == self._link.running_kubelet()

    async def offer(self, allocator: Allocator, units: Iterable[Unit]) -> None:
        """Offer these units of a resource, whether it is new or known."""
        known = self._sockets.get(allocator.resource)
        if known is not None:
            known.allocator = allocator
            known.publish(units)
            return
        async with self._turn:
            found = self._link.server(allocator)
            self._sockets[allocator.resource] = found
            found.publish(units)
            # Without a kubelet that knows us nothing is told: ``run`` will introduce all resources at once.
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
                running_kubelet = self._link.running_kubelet()
                if running_kubelet is not None and (running_kubelet != self._known or not self._all_there()):
                    await self._introduce_all(running_kubelet)
                await self._clock.sleep(POLL_EVERY_S)
        finally:
            self._known = None
            await asyncio.gather(*(one.close() for one in self._sockets.values()))

    def _all_there(self) -> bool:
        return all(one.is_there for one in self._sockets.values())

    async def _introduce_all(self, running_kubelet: RunningKubelet) -> None:
        async with self._turn:
            if await self._introduced(list(self._sockets.values())):
                self._known = running_kubelet

    async def _introduced(self, sockets: list[ResourceServer]) -> bool:
        """Whether the kubelet took all of them; each is tried, whatever becomes of the others."""
        # One resource that fails must not keep the others from the kubelet.
        outcomes = await asyncio.gather(*(self._introduce(one) for one in sockets), return_exceptions=True)
        problems = []
        for outcome in outcomes:
            if isinstance(outcome, KubeletError):
                problems.append(str(outcome))
            # A bug, not a kubelet that is away.
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

    async def _introduce(self, one: ResourceServer) -> None:
        # Opened anew for each kubelet: an old one may still have a connection to the socket.
        await one.close()
        await one.open()
        await self._link.register(one)
