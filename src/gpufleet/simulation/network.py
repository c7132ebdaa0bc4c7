"""The way from a process to the simulated server: the transport seam, with delays and with death.

Requests of a process that was killed never arrive; those under way have arrived, or not, as it comes.
Each await here may, rarely and by the seed, take far longer than usual: the states that only happen when
two things change places are reached on purpose.
"""

import asyncio
from collections.abc import AsyncIterator
from random import Random

import msgspec

from gpufleet.kube.transport import Request, Response, ResponseStream, TransportError
from gpufleet.simulation import watching
from gpufleet.simulation.api_server import JSON_HEADERS, ApiServer, refused
from gpufleet.simulation.process import CURRENT
from gpufleet.simulation.refusal import NoSuchPath, Refusal
from gpufleet.simulation.request_target import read_target


class Delays(msgspec.Struct, frozen=True):
    """How long a way takes: between the first two, and one time in ``rare_one_in`` up to the third."""

    least_s: float = 0.0002
    most_s: float = 0.003
    rare_s: float = 0.5
    rare_one_in: int = 200

    def draw_s(self, random: Random) -> float:
        """A delay for one way of a message."""
        if self.rare_one_in and random.randrange(self.rare_one_in) == 0:
            return random.uniform(self.most_s, self.rare_s)
        return random.uniform(self.least_s, self.most_s)


class SimulatedTransport:
    """A Transport to the simulated server, as one user.

    ``lag_s`` makes it one that learns of writes so much later: a second server behind a load balancer.
    """

    def __init__(
        self, server: ApiServer, user: str, random: Random, delays: Delays | None = None, lag_s: float = 0.0
    ) -> None:
        self.server = server
        self.user = user
        self.lag_s = lag_s
        self._random = random
        self._delays = Delays() if delays is None else delays
        self._closed = False

    async def call(self, request: Request, *, timeout_s: float) -> Response:
        """The server's answer. Raises TransportError where it takes too long."""
        self._check_open()
        arrived = False
        try:
            async with asyncio.timeout(timeout_s):
                await self._travel()
                # A request of a process that was killed on the way there never arrives.
                self._check_open()
                arrived = True
                answer = self.server.answer(request, self.user, self.seen())
                # The way back: the process may die or give up after the server has acted.
                await self._travel()
        except TimeoutError as error:
            raise TransportError(f"no answer within {timeout_s} s", reached=arrived) from error
        self._check_open(reached=True)
        return answer

    async def open(self, request: Request, *, timeout_s: float) -> ResponseStream:
        """A watch. Raises TransportError where its answer does not begin in time."""
        self._check_open()
        try:
            async with asyncio.timeout(timeout_s):
                await self._travel()
                stream = self._begin(request)
                await self._travel()
        except TimeoutError as error:
            raise TransportError(f"no answer within {timeout_s} s", reached=True) from error
        return stream

    def _begin(self, request: Request) -> "SimulatedStream":
        target = read_target(request.target)
        try:
            self.server.kind_at(target)
            if target is None or request.method != "GET" or not target.watching:
                answer = self.server.answer(request, self.user, self.seen())
                return SimulatedStream(answer.status, answer.headers, _once(answer.body), self)
            asked = watching.read_watch(self.server, target)
        except (Refusal, NoSuchPath) as refusal:
            answer = refused(refusal)
            self.server.note(request, self.user, answer.status)
            return SimulatedStream(answer.status, answer.headers, _once(answer.body), self)
        self.server.note(request, self.user, 200)
        lines = watching.stream(self.server, asked, self.seen)
        return SimulatedStream(200, dict(JSON_HEADERS), lines, self)

    async def close(self) -> None:
        """Every request from now on fails."""
        self._closed = True

    def seen(self) -> int:
        """The last revision that this way's server knows of."""
        store = self.server.store
        if not self.lag_s:
            return store.revision
        known_s = self.server.clock.monotonic_s() - self.lag_s
        # What it knows ends before the first write that it has not heard of.
        newer = (written.revision for written in store.history if written.at_s > known_s)
        return next(newer, store.revision + 1) - 1

    async def _travel(self) -> None:
        await asyncio.sleep(self._delays.draw_s(self._random))

    def delay_s(self) -> float:
        """How long a stream's next line is under way."""
        return self._delays.draw_s(self._random)

    def _check_open(self, *, reached: bool = False) -> None:
        process = CURRENT.get()
        if self._closed or (process is not None and not process.alive):
            raise TransportError("the connection is closed", reached=reached)


async def _once(body: bytes) -> AsyncIterator[bytes]:
    yield body


class SimulatedStream:
    """A watch under way."""

    def __init__(
        self, status: int, headers: dict[str, str], lines: AsyncIterator[bytes], way: SimulatedTransport
    ) -> None:
        self.status = status
        self.headers = headers
        self._lines = lines
        self._way = way
        self._closed = asyncio.Event()
        self._receiving: asyncio.Task[None] | None = None

    async def chunks(self) -> AsyncIterator[bytes]:
        """The lines as they arrive; ends when the server ends the watch or ``close`` was called."""
        queue: asyncio.Queue[tuple[float, bytes | None]] = asyncio.Queue()
        clock = self._way.server.clock

        async def receive() -> None:
            arrival_s = 0.0
            async for text in self._lines:
                # One connection: no line overtakes another.
                arrival_s = max(arrival_s, clock.monotonic_s() + self._way.delay_s())
                queue.put_nowait((arrival_s, text))
            queue.put_nowait((arrival_s, None))

        receiving = self._receiving = asyncio.get_running_loop().create_task(receive())
        closing = asyncio.ensure_future(self._closed.wait())
        getting = asyncio.ensure_future(queue.get())
        try:
            while not self._closed.is_set():
                await asyncio.wait([getting, closing], return_when=asyncio.FIRST_COMPLETED)
                if not getting.done():
                    return
                arrival_s, text = getting.result()
                await asyncio.sleep(max(0.0, arrival_s - clock.monotonic_s()))
                if text is None:
                    return
                yield text
                getting = asyncio.ensure_future(queue.get())
        finally:
            for task in (receiving, closing, getting):
                task.cancel()

    async def close(self) -> None:
        """Stop listening.

        A reader that failed between two lines is cleaned up whenever Python collects it. Until then the task
        would draw a delay for each line, and two runs of one seed would differ.
        """
        self._closed.set()
        if self._receiving is not None:
            self._receiving.cancel()
