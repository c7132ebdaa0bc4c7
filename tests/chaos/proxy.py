"""A proxy between one scheduler process and a real API server: plain HTTP in, faults, TLS out.

The scheduler under test is a real process with a real kubeconfig; that its server is this proxy is all
that differs. Faults are those of ``gpufleet.simulation`` and of ``tests.chaos``: they stand between the two
as a ``FaultyTransport``. What reached the server, and what it said, is told to ``note``, so that the judge
knows who asked for what.
"""

import asyncio
import contextlib
from collections.abc import Callable, Sequence
from contextvars import ContextVar

from gpufleet.kube.transport import Request, Response, ResponseStream, Transport, TransportError
from gpufleet.simulation.api_server import Answered
from gpufleet.simulation.faults.interference import Fault, FaultyTransport

LONGEST_HEAD_BYTES = 65_536
CALL_LIMIT_S = 65.0
NOTHING_CAME = 0
"""The code of a request that got no answer."""


class CutAnswerError(TransportError):
    """The connection shall break in the middle of this answer."""

    def __init__(self, response: Response) -> None:
        self.response = response
        super().__init__("the answer is cut", reached=True)


class Passing:
    """One request on its way: through which proxy, and what the server answered, if it was reached."""

    def __init__(self, proxy: "Proxy", request: Request) -> None:
        self.proxy = proxy
        self.request = request
        self.response: Response | None = None


PASSING: ContextVar[Passing] = ContextVar("PASSING")
"""The request that a fault is just asked about."""

Note = Callable[[Answered, Response | None], None]


class Witness:
    """The way to the real server, which remembers with each request what came of it."""

    def __init__(self, way: Transport) -> None:
        self._way = way

    async def call(self, request: Request, *, timeout_s: float) -> Response:
        """Ask the server."""
        response = await self._way.call(request, timeout_s=timeout_s)
        PASSING.get().response = response
        return response

    async def open(self, request: Request, *, timeout_s: float) -> ResponseStream:
        """Open a watch."""
        return await self._way.open(request, timeout_s=timeout_s)

    async def close(self) -> None:
        """The way belongs to somebody else."""


class Proxy:
    """One door. ``close_door`` refuses connections, ``hold`` lets nothing through in either direction."""

    def __init__(self, way: Transport, faults: Sequence[Fault], user: str, note: Note) -> None:
        self.port = 0
        self._way = FaultyTransport(Witness(way), faults)
        self._user = user
        self._note = note
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._passable = asyncio.Event()
        self._passable.set()

    async def open_door(self) -> None:
        """Take connections, on the same port as before."""
        if self._server is None:
            self._server = await asyncio.start_server(
                self._serve, "127.0.0.1", self.port, limit=LONGEST_HEAD_BYTES
            )
            self.port = self._server.sockets[0].getsockname()[1]

    def close_door(self) -> None:
        """Refuse connections and break those there are."""
        if self._server is not None:
            self._server.close()
            self._server = None
        for task in self._tasks:
            task.cancel()

    def hold(self) -> None:
        """Nothing passes, and nobody is told; what is under way arrives after ``let_pass``."""
        self._passable.clear()

    def let_pass(self) -> None:
        """Everything passes again."""
        self._passable.set()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
                while True:
                    request = await _read_request(reader)
                    await self._pass_on(request, writer)
        finally:
            self._tasks.discard(task)
            writer.transport.abort()

    async def _pass_on(self, request: Request, writer: asyncio.StreamWriter) -> None:
        await self._passable.wait()
        passing = Passing(self, request)
        PASSING.set(passing)
        try:
            if request.method == "GET" and "watch=true" in request.target:
                await self._pass_stream(await self._way.open(request, timeout_s=CALL_LIMIT_S), writer)
                return
            code = NOTHING_CAME
            try:
                response = await self._way.call(request, timeout_s=CALL_LIMIT_S)
                code = response.status
            finally:
                served = passing.response
                at_s = asyncio.get_running_loop().time()
                said = code if served is None else served.status
                asked = Answered(at_s, self._user, request.method, request.target, said, request.body)
                self._note(asked, served)
            await self._passable.wait()
            writer.write(_head(response, f"Content-Length: {len(response.body)}") + response.body)
            await writer.drain()
        except CutAnswerError as cut:
            body = cut.response.body
            writer.write(_head(cut.response, f"Content-Length: {len(body)}") + body[: len(body) // 2])
            await writer.drain()
            await asyncio.sleep(0.01)
            raise ConnectionResetError from cut
        except TransportError as error:
            raise ConnectionResetError from error

    async def _pass_stream(self, stream: ResponseStream, writer: asyncio.StreamWriter) -> None:
        head = Response(stream.status, stream.headers, b"")
        try:
            writer.write(_head(head, "Transfer-Encoding: chunked"))
            async for chunk in stream.chunks():
                await self._passable.wait()
                writer.write(f"{len(chunk):x}\r\n".encode() + chunk + b"\r\n")
                await writer.drain()
            writer.write(b"0\r\n\r\n")
            await writer.drain()
        finally:
            await stream.close()


async def _read_request(reader: asyncio.StreamReader) -> Request:
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
    method, target, _ = head[0].split(" ")
    headers = {}
    for line in head[1:]:
        name, _, value = line.partition(":")
        headers[name.lower()] = value.strip()
    body = await reader.readexactly(int(headers.get("content-length", 0)))
    accept = headers.get("accept", "application/json")
    return Request(method, target, body, headers.get("content-type", "application/json"), accept)


def _head(response: Response, length: str) -> bytes:
    kept = [name for name in ("content-type", "retry-after") if name in response.headers]
    lines = [f"HTTP/1.1 {response.status} .", length, *(f"{name}: {response.headers[name]}" for name in kept)]
    return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")
