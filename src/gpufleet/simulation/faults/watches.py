"""Faults of watches and lists: cut, expired, silent, doubled, late, from another server."""

import asyncio
from collections.abc import AsyncIterator

from gpufleet.kube.transport import Request, Response, ResponseStream, TransportError
from gpufleet.simulation.admission_policies import SCHEDULER_USER
from gpufleet.simulation.faults.interference import Fault, status, whole_lines
from gpufleet.simulation.network import SimulatedTransport
from gpufleet.simulation.world import SchedulerProcess, World

EXPIRED_EVENT = (
    b'{"type":"ERROR","object":{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure",'
    b'"message":"too old resource version: 1 (2)","reason":"Expired","code":410}}\n'
)
LAG_S = 4.0
"""How far behind the other server is: far enough to hide a Binding that was just written."""


class WatchCut(Fault):
    """A connection breaks in the middle of a line, each time one byte later than the last time."""

    name = "watch-cut"

    async def chunks(self, lines: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
        async for line in whole_lines(lines):
            if self.chance(0.2):
                # Another byte each time: a reader must not depend on where in a line it is cut.
                yield line[: self.acted % max(len(line), 1)]
                raise TransportError("connection reset by peer", reached=True)
            yield line


class WatchGone(Fault):
    """A watch is answered 410: its revision is forgotten."""

    name = "watch-410-status"

    async def before_open(self, request: Request) -> Response | ResponseStream | None:
        if self.chance(0.7):
            return status(410, "Expired", "The resourceVersion for the provided watch is too old.")
        return None

    async def chunks(self, lines: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
        async for line in whole_lines(lines):
            yield line
            if self.active and self.random.random() < 0.4:
                # The server ends the watch in order, so that it is asked for again.
                return


class WatchGoneLater(Fault):
    """A watch is told in its stream that its revision is forgotten."""

    name = "watch-410-event"

    async def chunks(self, lines: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
        async for line in whole_lines(lines):
            if self.chance(0.15):
                yield EXPIRED_EVENT
                return
            yield line


class ListGone(WatchGone):
    """A continue token expires in the middle of a list; pages are made small, so that there is a middle."""

    name = "list-410-mid-page"

    def rewrite(self, request: Request) -> Request:
        if request.method != "GET" or "limit=" not in request.target:
            return request
        head, _, tail = request.target.partition("limit=")
        _, separator, rest = tail.partition("&")
        # Three a page: even a small cluster then has pages to tear apart.
        target = f"{head}limit=3{separator}{rest}"
        return Request("GET", target, accept=request.accept)

    async def before_call(self, request: Request, owner: SchedulerProcess | None) -> Response | None:
        if request.method == "GET" and "continue=" in request.target and self.chance(0.3):
            return status(410, "Expired", "The provided continue parameter is too old")
        return None


class WatchSilent(Fault):
    """A watch stays open and says nothing any more, not even bookmarks."""

    name = "watch-silent"
    blinds_s = 100.0
    lasts_s = 200.0

    async def chunks(self, lines: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
        async for line in whole_lines(lines):
            if self.chance(0.2):
                # For ever, as a connection does whose other side is gone: only a deadline of the reader ends
                # it.
                await asyncio.Event().wait()
            yield line


class EventsTwice(Fault):
    """Every event comes twice."""

    name = "events-twice"

    async def chunks(self, lines: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
        async for line in whole_lines(lines):
            yield line
            if self.chance(1.0):
                yield line


class KindsOutOfOrder(Fault):
    """Each watch is late by a time of its own, so that kinds come out of order."""

    name = "out-of-order-kinds"

    async def chunks(self, lines: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
        late_s = self.random.uniform(0.0, 6.0)
        async for line in whole_lines(lines):
            if self.chance(1.0):
                await asyncio.sleep(late_s)
            yield line


class LaggingServer(Fault):
    """Reconnecting leads to another server that is some seconds behind."""

    name = "lagging-second-server"

    async def prepare(self, world: World) -> None:
        self._way = SimulatedTransport(
            world.server, SCHEDULER_USER, self.random, world.plan.delays, lag_s=LAG_S
        )

    async def before_call(self, request: Request, owner: SchedulerProcess | None) -> Response | None:
        if request.method == "GET" and self.chance(0.3):
            return await self._way.call(request, timeout_s=30)
        return None

    async def before_open(self, request: Request) -> Response | ResponseStream | None:
        return await self._way.open(request, timeout_s=30) if self.chance(0.8) else None

    async def chunks(self, lines: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
        async for line in whole_lines(lines):
            yield line
            if self.active and self.random.random() < 0.4:
                return
