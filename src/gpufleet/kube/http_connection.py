"""One connection to a server, for one request at a time.

An ``asyncio.Protocol`` rather than streams: a request is one write, and its answer usually one
callback, which is most of what makes ``http_transport`` cheap.
"""

import asyncio
from collections.abc import AsyncIterator, Callable

from gpufleet.kube.http_parser import MalformedAnswerError, ResponseParser
from gpufleet.kube.kube_errors import TransportError
from gpufleet.kube.transport import LARGEST_BODY_BYTES, Response

# A watch with a slow reader holds so much; then the server is left to wait.
STREAM_HOLDS_BYTES = 1024 * 1024


class ConnectionBroken(TransportError):
    """The connection ended before the answer was whole.

    ``unanswered`` is True where the server closed it before any byte of an answer: what happens
    to a connection that was kept open for too long.
    """

    def __init__(self, problem: str, *, unanswered: bool = False) -> None:
        self.unanswered = unanswered
        super().__init__(problem, reached=True)


class HttpConnection(asyncio.Protocol):
    """A connection that is open. ``on_lost`` is called once, when it is not any more."""

    def __init__(self, on_lost: Callable[["HttpConnection"], None]) -> None:
        self._loop = asyncio.get_running_loop()
        self._on_lost = on_lost
        self._parser = ResponseParser()
        self._waiter: asyncio.Future[None] | None = None
        self._broken: ConnectionBroken | None = None
        self._streaming = False
        self._paused = False
        self._transport: asyncio.Transport | None = None
        self.exchanges = 0
        self.idle_since_s = 0.0
        self.lost = self._loop.create_future()

    @property
    def usable(self) -> bool:
        """Whether another request can be sent."""
        transport = self._transport
        return (
            self._broken is None
            and self._waiter is None
            and transport is not None
            and not transport.is_closing()
            # A new connection has had no answer that could be complete.
            and (not self.exchanges or (self._parser.complete and self._parser.keep_alive))
        )

    async def exchange(
        self, payload: bytes, method: str, timeout_s: float, most_bytes: int = LARGEST_BODY_BYTES
    ) -> Response:
        """Send a request and wait for its whole answer, of at most so many bytes. Raises TransportError."""
        await self._send(payload, method, timeout_s, most_bytes, streaming=False)
        parser = self._parser
        self.idle_since_s = self._loop.time()
        return Response(parser.status, parser.headers, parser.take_body())

    async def begin(self, payload: bytes, method: str, timeout_s: float) -> "HttpStream":
        """Send a request and wait until its answer begins. Raises TransportError."""
        await self._send(payload, method, timeout_s, LARGEST_BODY_BYTES, streaming=True)
        return HttpStream(self, self._parser.status, self._parser.headers)

    def abort(self) -> None:
        """Close at once, whatever is under way."""
        if self._transport is not None:
            self._transport.abort()

    async def _send(
        self, payload: bytes, method: str, timeout_s: float, most_bytes: int, *, streaming: bool
    ) -> None:
        transport = self._transport
        if transport is None or transport.is_closing():
            raise TransportError("the connection was closed before the request was sent", reached=False)
        self.exchanges += 1
        self._streaming = streaming
        self._parser.begin(method, most_bytes)
        waiter = self._waiter = self._loop.create_future()
        transport.write(payload)
        timer = self._loop.call_later(timeout_s, self._fail, "no answer in time")
        try:
            await waiter
        except BaseException:
            # The answer may still come, and no caller would take it: the connection is closed.
            transport.abort()
            raise
        finally:
            timer.cancel()
            self._waiter = None

    async def next_piece(self) -> bytes:
        """The next bytes of a streamed answer; empty at its end. Raises TransportError."""
        parser = self._parser
        while not parser.pieces:
            if parser.complete:
                return b""
            if self._broken is not None:
                raise self._broken
            self._waiter = self._loop.create_future()
            try:
                await self._waiter
            finally:
                self._waiter = None
        piece = parser.take_body()
        if self._paused and self._transport is not None:
            self._paused = False
            self._transport.resume_reading()
        return piece

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """asyncio: the connection is open."""
        assert isinstance(transport, asyncio.Transport)  # noqa: S101  (for the type checker)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        """asyncio: bytes came."""
        parser = self._parser
        waiter = self._waiter
        if self._broken is not None:
            return
        # Bytes that nothing waits for would be taken for the next answer.
        if waiter is None and not self._streaming:
            self._fail("the server spoke without being asked")
            return
        try:
            parser.feed(data)
        except MalformedAnswerError as error:
            self._fail(str(error))
            return
        if self._streaming:
            self._deliver(waiter)
        elif parser.complete:
            self._resolve(waiter)
        elif parser.held_bytes > parser.most_bytes:
            self._fail(f"the answer is larger than {parser.most_bytes} bytes")

    def connection_lost(self, exc: Exception | None) -> None:
        """asyncio: the connection is gone."""
        if self._broken is None:
            # An answer without a length is whole when its connection ends; any other is cut short then.
            try:
                self._parser.end()
            except MalformedAnswerError as error:
                detail = f"{error}: {exc}" if exc is not None else str(error)
                self._break(detail, unanswered=not self._parser.begun)
            else:
                self._resolve(self._waiter)
        if not self.lost.done():
            self.lost.set_result(None)
        self._on_lost(self)

    def _deliver(self, waiter: asyncio.Future[None] | None) -> None:
        if self._parser.status:
            self._resolve(waiter)
        if not self._paused and self._parser.held_bytes > STREAM_HOLDS_BYTES:
            transport = self._transport
            if transport is not None and not transport.is_closing():
                self._paused = True
                transport.pause_reading()

    def _fail(self, problem: str) -> None:
        self._break(problem)
        self.abort()

    def _break(self, problem: str, *, unanswered: bool = False) -> None:
        if self._broken is None:
            self._broken = ConnectionBroken(problem, unanswered=unanswered)
        waiter = self._waiter
        if waiter is not None and not waiter.done():
            waiter.set_exception(self._broken)

    @staticmethod
    def _resolve(waiter: asyncio.Future[None] | None) -> None:
        if waiter is not None and not waiter.done():
            waiter.set_result(None)


class HttpStream:
    """An answer that is still coming; its connection is used for nothing else any more."""

    def __init__(self, connection: HttpConnection, status: int, headers: dict[str, str]) -> None:
        self._connection = connection
        self.status = status
        self.headers = headers

    async def chunks(self) -> AsyncIterator[bytes]:
        """The body as it arrives, cut anywhere. Raises TransportError when the connection breaks."""
        while piece := await self._connection.next_piece():
            yield piece

    async def close(self) -> None:
        """Stop listening; more than once does no harm."""
        self._connection.abort()
