"""A small HTTP and HTTPS server for scrapes and probes: /metrics, /health, /healthz and /readyz.

A daemon that answers more than that gives ``others``, which gets every other request as it came. One whose
figures grow old between its own looks gives ``renew``, for a reader that wants new ones: /metrics?newest.

What a client can make it hold is bounded: connections, the time of a TLS handshake, the length of a request,
the time in which it has to arrive, the time in which its answer has to be taken, and bytes on their way,
which go out piece by piece. A connection counts from its first moment, before its handshake, to its last.
Where there are as many connections as may be, the one that has kept the server waiting for longest makes
room for the next: a probe is answered however many clients are stuck.
"""

import asyncio
import logging
import socket
import ssl
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing, suppress
from http import HTTPStatus

import msgspec

from gpufleet.daemon.http_peer import client_certificate_of, peer_of
from gpufleet.daemon.server_certificate import ServerCertificate
from gpufleet.model.visible import visible_line

LOG = logging.getLogger(__name__)
PORT = 9400
"""The default port of our daemons' metrics and probes, as the chart names it."""

PIECE_BYTES = 64 * 1024
"""A slow client holds so much of an answer in our buffers."""

RETRY_S = 5.0
"""A port is often still held by the process before, for some seconds."""

TEXT = "text/plain; charset=utf-8"
READING = ("GET", "HEAD")
"""The methods that every daemon serves."""

NEWEST = "newest"
"""The query by which a reader of /metrics asks for new figures."""


class HttpLimits(msgspec.Struct, frozen=True):
    """What clients may cost. A scraper asks every few seconds on one connection, a probe on a new one."""

    connections: int = 32
    head_bytes: int = 8192
    """The line and the fields of a request. A scraper's have some 300 bytes."""

    body_bytes: int = 0
    """The body of a request. A daemon that expects none refuses a request with one."""

    handshake_s: float = 10.0
    """The time for a TLS handshake, from the connection's beginning. It takes some milliseconds."""

    head_s: float = 10.0
    """The time for a request to arrive, from its first byte or from the connection's beginning."""

    idle_s: float = 60.0
    """Between an answer and the next request: longer than most scrapers wait."""

    piece_s: float = 10.0
    """The time for a client to take a piece of an answer, and, after the last, to end the connection."""

    answer_s: float = 30.0
    """The time for a client to take a whole answer, however slowly it reads."""


LIMITS = HttpLimits()


class Health(msgspec.Struct, frozen=True):
    """Whether something is well, and if not, why."""

    well: bool
    reasons: tuple[str, ...] = ()


class Page(msgspec.Struct, frozen=True):
    """What is sent, in as many parts as it lies there, with further ``fields`` of the answer.

    ``stream`` gives more parts later, for as long as the client takes them: each is asked for when the one
    before was taken, and the connection ends with the last.
    """

    parts: tuple[bytes, ...]
    content_type: str = TEXT
    gzipped: bool = False
    status: HTTPStatus = HTTPStatus.OK
    fields: tuple[tuple[str, str], ...] = ()
    stream: Callable[[], AsyncGenerator[bytes, None]] | None = None


class Accepted(msgspec.Struct, frozen=True):
    """What a client takes: gzip or not, and the value of its field Accept, in lower case."""

    gzip: bool = False
    media: str = ""


class Request(msgspec.Struct, frozen=True):
    """A request as it came: ``target`` is the path with its query, names of fields are in lower case.

    ``client_certificate`` is that of a client whose certificate was verified (DER), or empty. ``body`` is
    empty where the daemon takes none. ``peer`` is the address at the other end of the connection, which may
    be a proxy's.
    """

    method: str
    target: str
    fields: tuple[tuple[str, str], ...]
    accepted: Accepted
    keep_alive: bool
    client_certificate: bytes = b""
    body: bytes = b""
    peer: str = ""

    @property
    def path(self) -> str:
        """The target without its query."""
        return self.target.partition("?")[0]

    @property
    def query(self) -> str:
        """The query of the target; "" without one."""
        return self.target.partition("?")[2]

    def all_of(self, name: str) -> list[str]:
        """The values of a field that may be sent several times, in their order."""
        return [value for field, value in self.fields if field == name]

    def one_of(self, name: str) -> str:
        """The value of a field, the last if it was sent several times; "" without it."""
        return next(reversed(self.all_of(name)), "")


Answering = Callable[[Request], Awaitable[Page]]


async def nothing_else(_: Request) -> Page:
    """Say which paths there are, where no other is answered."""
    there = b"there are /metrics, /health, /healthz, /livez and /readyz\n"
    return Page((there,), status=HTTPStatus.NOT_FOUND)


async def nothing_to_renew() -> None:
    """All figures are always new."""


class _Conversation:
    """One connection: since when the server has waited for its client."""

    def __init__(self, now_s: float) -> None:
        self.since_s = now_s
        self.answering = False


class _BadRequestError(Exception):
    """What came is not a request that is served here; the connection ends with this answer."""

    def __init__(self, status: HTTPStatus, problem: str) -> None:
        self.page = Page((f"{problem}\n".encode(),), status=status)
        super().__init__(problem)


class _Arrival(asyncio.Protocol):
    """A new connection, of which nothing is read yet: a TLS handshake has to see the first byte."""

    def __init__(self, arrived: Callable[[asyncio.Transport], None]) -> None:
        self._arrived = arrived

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Count it before anything is done for it."""
        assert isinstance(transport, asyncio.Transport)  # noqa: S101  servers of sockets make no other
        transport.pause_reading()
        self._arrived(transport)


class _SecureStream(asyncio.StreamReaderProtocol):
    """What is read under TLS."""

    def eof_received(self) -> bool:
        """Under TLS the end of what the client says is the end of the connection."""
        super().eof_received()
        return False


class HttpServer:
    """Serves until cancelled. ``page`` gives the metrics as the client takes them.

    ``alive`` and ``ready`` are asked at every probe. ``listener`` is a socket that listens already. With a
    ``certificate`` it serves HTTPS, and HTTP without. ``others`` answers what is none of these, of the
    ``methods``, with a body where the ``limits`` allow one. ``renew`` returns soon, with figures as new as
    they can be had.
    """

    def __init__(
        self,
        page: Callable[[Accepted], Page],
        *,
        alive: Callable[[], Health],
        ready: Callable[[], Health],
        address: str = "",
        port: int = PORT,
        listener: socket.socket | None = None,
        certificate: ServerCertificate | None = None,
        limits: HttpLimits = LIMITS,
        others: Answering = nothing_else,
        methods: tuple[str, ...] = READING,
        renew: Callable[[], Awaitable[None]] = nothing_to_renew,
    ) -> None:
        self._page = page
        self._renew = renew
        self._others = others
        self._methods = methods
        self._alive = alive
        self._ready = ready
        self._address = address
        self.port = port
        """Where it listens; the port that the machine chose once ``listening`` is set."""
        self.listening = asyncio.Event()
        self.problem = ""
        """Why it does not listen at the moment."""
        self._listener = listener
        self._certificate = certificate
        self._limits = limits
        self._connections: dict[asyncio.Task[None], _Conversation] = {}

    async def run(self) -> None:
        """Listen and answer. A port that is taken is tried again."""
        while True:
            try:
                server = await self._listen()
            except OSError as error:
                self._tell(f"port {self.port} cannot be listened on: {error.strerror or error}")
                await asyncio.sleep(RETRY_S)
                continue
            self.problem = ""
            self.port = server.sockets[0].getsockname()[1]
            self.listening.set()
            scheme = "http" if self._certificate is None else "https"
            told = {"scheme": scheme, "address": self._address, "port": self.port}
            LOG.info("serving metrics and health", extra=told)
            try:
                await server.serve_forever()
            finally:
                await self._hang_up()

    async def _listen(self) -> asyncio.Server:
        loop = asyncio.get_running_loop()
        if self._listener is None:
            return await loop.create_server(lambda: _Arrival(self._begin), self._address or None, self.port)
        # Else the body of an answer waits up to 40 ms for the client's word that its head has arrived.
        self._listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return await loop.create_server(lambda: _Arrival(self._begin), sock=self._listener)

    def problems(self) -> tuple[str, ...]:
        """Why it does not listen; empty where it does."""
        return (self.problem,) if self.problem else ()

    def _tell(self, problem: str) -> None:
        if problem != self.problem:
            LOG.error("metrics are not served", extra={"problem": problem})
        self.problem = problem

    async def _hang_up(self) -> None:
        self.listening.clear()
        for task in self._connections:
            task.cancel()
        await asyncio.gather(*self._connections, return_exceptions=True)

    def _begin(self, transport: asyncio.Transport) -> None:
        """Give the connection its place among the others, and a task of its own."""
        loop = asyncio.get_running_loop()
        own = _Conversation(loop.time())
        task = loop.create_task(self._live(transport, own))
        self._connections[task] = own
        # Also for a task that makes room before it has begun, and so never runs.
        task.add_done_callback(lambda ended: self._end(ended, transport))
        if len(self._connections) > self._limits.connections:
            self._make_room(task)

    def _end(self, task: asyncio.Task[None], transport: asyncio.Transport) -> None:
        self._connections.pop(task, None)
        transport.abort()
        if not task.cancelled() and (fault := task.exception()) is not None:
            LOG.error("a request was not answered", exc_info=fault)

    async def _live(self, transport: asyncio.Transport, own: _Conversation) -> None:
        """One connection from its first byte to its end."""
        limits = self._limits
        try:
            reader, writer = await self._opened(transport)
            await self._converse(reader, writer, own)
            # Under TLS the client has the last word; until then the connection keeps its place.
            own.answering, own.since_s = False, asyncio.get_running_loop().time()
            writer.close()
            async with asyncio.timeout(limits.piece_s):
                await writer.wait_closed()
        except (TimeoutError, ConnectionError, ssl.SSLError, asyncio.IncompleteReadError):
            # The client went away, spoke no TLS, or was too slow, and would be so with the rest.
            return
        finally:
            transport.abort()

    async def _opened(
        self, transport: asyncio.Transport
    ) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """What the client says and is told, after the handshake where there is a certificate."""
        limits, loop = self._limits, asyncio.get_running_loop()
        reader = asyncio.StreamReader(limit=limits.head_bytes, loop=loop)
        if self._certificate is None:
            protocol = asyncio.StreamReaderProtocol(reader, loop=loop)
            transport.set_protocol(protocol)
            protocol.connection_made(transport)
            transport.resume_reading()
            return reader, asyncio.StreamWriter(transport, protocol, reader, loop)
        protocol = _SecureStream(reader, loop=loop)
        secure = await loop.start_tls(
            transport,
            protocol,
            self._certificate.context(),
            server_side=True,
            ssl_handshake_timeout=limits.handshake_s,
            ssl_shutdown_timeout=limits.piece_s,
        )
        if secure is None:
            raise ConnectionError("the client went away during the handshake")
        protocol.connection_made(secure)
        return reader, asyncio.StreamWriter(secure, protocol, reader, loop)

    def _make_room(self, newest: asyncio.Task[None]) -> None:
        """End the connection that has kept the server waiting for longest, idle ones before others."""
        others = ((task, one) for task, one in self._connections.items() if task is not newest)
        task, _ = min(others, key=lambda pair: (pair[1].answering, pair[1].since_s))
        # The connection gives its place away at once, before its task has ended.
        self._connections.pop(task)
        task.cancel()

    async def _converse(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, own: _Conversation
    ) -> None:
        """Answer one request after the other."""
        limits, loop = self._limits, asyncio.get_running_loop()
        keep_alive, first_byte_s = True, limits.head_s
        while keep_alive:
            own.answering, own.since_s = False, loop.time()
            try:
                head = await _head(reader, first_byte_s, limits)
                request = _read(head, client_certificate_of(writer), self._methods)
                request = msgspec.structs.replace(request, peer=peer_of(writer))
                body = await _body(reader, request, limits)
            except _BadRequestError as error:
                own.answering = True
                async with asyncio.timeout(limits.answer_s):
                    await _send(writer, error.page, limits, keep_alive=False)
                return
            own.answering, own.since_s = True, loop.time()
            keep_alive, first_byte_s = request.keep_alive, limits.idle_s
            with_body = request.method != "HEAD"
            async with asyncio.timeout(limits.answer_s):
                page = await self._answer(msgspec.structs.replace(request, body=body) if body else request)
                keep_alive = keep_alive and page.stream is None
                await _send(writer, page, limits, keep_alive=keep_alive, with_body=with_body)
            if page.stream is not None and with_body:
                await _send_stream(writer, page.stream(), limits)

    async def _answer(self, request: Request) -> Page:
        match request.path:
            case "/metrics":
                if request.query == NEWEST:
                    await self._renew()
                return self._page(request.accepted)
            case "/health" | "/healthz" | "/livez":
                return _health_page(self._alive())
            case "/readyz":
                return _health_page(self._ready())
            case _:
                return await self._others(request)


def _health_page(health: Health) -> Page:
    if health.well:
        return Page((b"ok\n",))
    lines = "".join(f"{visible_line(reason)}\n" for reason in health.reasons)
    return Page((lines.encode(),), status=HTTPStatus.SERVICE_UNAVAILABLE)


async def _head(reader: asyncio.StreamReader, first_byte_s: float, limits: HttpLimits) -> bytes:
    """The lines of a request up to the empty one."""
    async with asyncio.timeout(first_byte_s):
        first = await reader.readexactly(1)
    if first.isspace():
        raise _BadRequestError(HTTPStatus.BAD_REQUEST, "not a request of HTTP/1.1")
    try:
        async with asyncio.timeout(limits.head_s):
            return first + await reader.readuntil(b"\r\n\r\n")
    except asyncio.LimitOverrunError as error:
        problem = f"a request may have {limits.head_bytes} bytes"
        raise _BadRequestError(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, problem) from error
    except TimeoutError as error:
        problem = f"a request has to arrive within {limits.head_s:g} s"
        raise _BadRequestError(HTTPStatus.REQUEST_TIMEOUT, problem) from error


async def _body(reader: asyncio.StreamReader, request: Request, limits: HttpLimits) -> bytes:
    """What follows the fields of a request, where the daemon takes a body."""
    length = request.one_of("content-length") or "0"
    if len(set(request.all_of("content-length"))) > 1:
        raise _BadRequestError(HTTPStatus.BAD_REQUEST, "one length of the body is expected")
    # Whatever followed such a request would be taken for the next one.
    if limits.body_bytes == 0 and (length != "0" or request.all_of("transfer-encoding")):
        raise _BadRequestError(HTTPStatus.BAD_REQUEST, "a request without a body is expected")
    plain = length.isascii() and length.isdecimal() and len(length) <= 10
    if not plain or request.all_of("transfer-encoding"):
        raise _BadRequestError(HTTPStatus.LENGTH_REQUIRED, "a body of a told length is expected")
    if int(length) > limits.body_bytes:
        problem = f"a body may have {limits.body_bytes} bytes"
        raise _BadRequestError(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, problem)
    if length == "0":
        return b""
    try:
        async with asyncio.timeout(limits.head_s):
            return await reader.readexactly(int(length))
    except TimeoutError as error:
        problem = f"a body has to arrive within {limits.head_s:g} s"
        raise _BadRequestError(HTTPStatus.REQUEST_TIMEOUT, problem) from error


def _read(head: bytes, client_certificate: bytes, methods: tuple[str, ...]) -> Request:
    """The request that these lines are."""
    first, *lines = head.decode("latin-1").removesuffix("\r\n\r\n").split("\r\n")
    words = first.split(" ")
    if len(words) != 3 or not words[2].startswith("HTTP/1."):
        raise _BadRequestError(HTTPStatus.BAD_REQUEST, "not a request of HTTP/1.1")
    method, target, version = words
    if method not in methods:
        raise _BadRequestError(HTTPStatus.METHOD_NOT_ALLOWED, f"only {' and '.join(methods)} are served")
    fields: list[tuple[str, str]] = []
    for line in lines:
        name, colon, value = line.partition(":")
        if not colon or not name or name != name.strip():
            raise _BadRequestError(HTTPStatus.BAD_REQUEST, "not a header field")
        fields.append((name.lower(), value.strip()))
    last = {name: value.lower() for name, value in fields}
    keep_alive = version != "HTTP/1.0" and last.get("connection") != "close"
    accepted = Accepted(_takes_gzip(last.get("accept-encoding", "")), last.get("accept", ""))
    return Request(method, target, tuple(fields), accepted, keep_alive, client_certificate)


def _takes_gzip(accepted: str) -> bool:
    """Whether an Accept-Encoding names gzip with a weight other than 0."""
    for choice in accepted.split(","):
        name, _, weight = choice.partition(";")
        if name.strip() in ("gzip", "*"):
            with suppress(ValueError):
                return float(weight.strip().removeprefix("q=") or "1") > 0
    return False


async def _send(
    writer: asyncio.StreamWriter, page: Page, limits: HttpLimits, *, keep_alive: bool, with_body: bool = True
) -> None:
    """Send a page, never more of it at once than a client takes."""
    lines = [
        f"HTTP/1.1 {page.status.value} {page.status.phrase}",
        f"Content-Type: {page.content_type}",
        "Vary: Accept-Encoding",
        *(f"{name}: {value}" for name, value in page.fields),
    ]
    if page.stream is None:
        lines.append(f"Content-Length: {sum(map(len, page.parts))}")
    if page.gzipped:
        lines.append("Content-Encoding: gzip")
    if page.status is HTTPStatus.METHOD_NOT_ALLOWED:
        lines.append(f"Allow: {', '.join(READING)}")
    if not keep_alive:
        lines.append("Connection: close")
    writer.write("\r\n".join([*lines, "", ""]).encode("ascii"))
    for part in page.parts if with_body else ():
        view = memoryview(part)
        for start in range(0, len(view), PIECE_BYTES):
            writer.write(view[start : start + PIECE_BYTES])
            async with asyncio.timeout(limits.piece_s):
                await writer.drain()
    async with asyncio.timeout(limits.piece_s):
        await writer.drain()


async def _send_stream(
    writer: asyncio.StreamWriter, parts: AsyncGenerator[bytes, None], limits: HttpLimits
) -> None:
    """Send parts as they come. A client that does not take one in time is left."""
    async with aclosing(parts):
        async for part in parts:
            writer.write(part)
            async with asyncio.timeout(limits.piece_s):
                await writer.drain()
