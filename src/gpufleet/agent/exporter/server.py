"""A small HTTP server for scrapes and probes: /metrics, /health, /healthz and /readyz.

It runs in the agent's own loop, so a loop that is stuck answers no probe. It sends what lies ready and
computes nothing worth mentioning. What a client can make it hold is bounded: connections, the length of a
request, the time for each step, and bytes on their way, which go out piece by piece.
"""

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress
from http import HTTPStatus

import msgspec

LOG = logging.getLogger(__name__)
PORT = 9400
HEAD_BYTES_MAX = 8192
CONNECTIONS_MAX = 32
IDLE_S = 60.0
SEND_S = 10.0
"""How long a client may take for one piece."""
PIECE_BYTES = 64 * 1024
RETRY_S = 5.0
TEXT = "text/plain; charset=utf-8"
PATHS = "/metrics, /health, /healthz and /readyz"


class Health(msgspec.Struct, frozen=True):
    """Whether something is well, and if not, why."""

    well: bool
    reasons: tuple[str, ...] = ()


class Page(msgspec.Struct, frozen=True):
    """What is sent, in as many parts as it lies there."""

    parts: tuple[bytes, ...]
    content_type: str = TEXT
    gzipped: bool = False
    status: HTTPStatus = HTTPStatus.OK


class _Request(msgspec.Struct, frozen=True):
    method: str
    path: str
    takes_gzip: bool
    keep_alive: bool


class _BadRequestError(Exception):
    """What came is not a request that is served here; the connection ends with this answer."""

    def __init__(self, status: HTTPStatus, problem: str) -> None:
        self.page = Page((f"{problem}\n".encode(),), status=status)
        super().__init__(problem)


class MetricsServer:
    """Serves until cancelled. ``page`` gives the metrics, gzipped where the argument is true.

    ``alive`` and ``ready`` are asked at every probe.
    """

    def __init__(
        self,
        page: Callable[[bool], Page],
        *,
        alive: Callable[[], Health],
        ready: Callable[[], Health],
        address: str = "",
        port: int = PORT,
    ) -> None:
        self._page = page
        self._alive = alive
        self._ready = ready
        self._address = address
        self.port = port
        """Where it listens; the port that the machine chose once ``listening`` is set."""
        self.listening = asyncio.Event()
        self.problem = ""
        """Why it does not listen at the moment."""
        self._connections: set[asyncio.Task[None]] = set()

    async def run(self) -> None:
        """Listen and answer. A port that is taken is tried again."""
        while True:
            try:
                server = await asyncio.start_server(
                    self._connected, self._address or None, self.port, limit=HEAD_BYTES_MAX
                )
            except OSError as error:
                self._tell(f"port {self.port} cannot be listened on: {error.strerror or error}")
                await asyncio.sleep(RETRY_S)
                continue
            self.problem = ""
            self.port = server.sockets[0].getsockname()[1]
            self.listening.set()
            LOG.info("serving metrics and health", extra={"address": self._address, "port": self.port})
            try:
                await server.serve_forever()
            finally:
                await self._hang_up()

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

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None  # noqa: S101  streams call this in a task of its own
        self._connections.add(task)
        try:
            if len(self._connections) > CONNECTIONS_MAX:
                busy = Page((b"too many connections\n",), status=HTTPStatus.SERVICE_UNAVAILABLE)
                await _send(writer, busy, keep_alive=False)
            else:
                await self._converse(reader, writer)
        except (TimeoutError, ConnectionError, asyncio.IncompleteReadError):
            # The client went away, or was too slow, and would be so with what is still to be sent.
            writer.transport.abort()
        except asyncio.CancelledError:
            # The server ends. A task of the streams that ended as cancelled would be logged as a fault.
            writer.transport.abort()
        finally:
            self._connections.discard(task)
            writer.close()

    async def _converse(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer one request after the other."""
        keep_alive = True
        while keep_alive:
            try:
                request = _read(await _head(reader))
            except _BadRequestError as error:
                await _send(writer, error.page, keep_alive=False)
                return
            keep_alive = request.keep_alive
            with_body = request.method != "HEAD"
            await _send(writer, self._answer(request), keep_alive=keep_alive, with_body=with_body)

    def _answer(self, request: _Request) -> Page:
        match request.path:
            case "/metrics":
                return self._page(request.takes_gzip)
            case "/health" | "/healthz" | "/livez":
                return _told(self._alive())
            case "/readyz":
                return _told(self._ready())
            case _:
                return Page((f"there are {PATHS}\n".encode(),), status=HTTPStatus.NOT_FOUND)


def _told(health: Health) -> Page:
    if health.well:
        return Page((b"ok\n",))
    lines = "".join(f"{reason}\n" for reason in health.reasons)
    return Page((lines.encode("utf-8", "replace"),), status=HTTPStatus.SERVICE_UNAVAILABLE)


async def _head(reader: asyncio.StreamReader) -> bytes:
    """The lines of a request up to the empty one."""
    try:
        async with asyncio.timeout(IDLE_S):
            return await reader.readuntil(b"\r\n\r\n")
    except asyncio.LimitOverrunError as error:
        problem = f"a request may have {HEAD_BYTES_MAX} bytes"
        raise _BadRequestError(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, problem) from error


def _read(head: bytes) -> _Request:
    """The request that these lines are."""
    first, *lines = head.decode("latin-1").removesuffix("\r\n\r\n").split("\r\n")
    words = first.split(" ")
    if len(words) != 3 or not words[2].startswith("HTTP/1."):
        raise _BadRequestError(HTTPStatus.BAD_REQUEST, "not a request of HTTP/1.1")
    method, target, version = words
    if method not in ("GET", "HEAD"):
        raise _BadRequestError(HTTPStatus.METHOD_NOT_ALLOWED, "only GET and HEAD are served")
    fields: dict[str, str] = {}
    for line in lines:
        name, colon, value = line.partition(":")
        if not colon or not name or name != name.strip():
            raise _BadRequestError(HTTPStatus.BAD_REQUEST, "not a header field")
        fields[name.lower()] = value.strip().lower()
    # Whatever followed such a request would be taken for the next one.
    if fields.get("content-length", "0") != "0" or "transfer-encoding" in fields:
        raise _BadRequestError(HTTPStatus.BAD_REQUEST, "a request without a body is expected")
    keep_alive = version != "HTTP/1.0" and fields.get("connection") != "close"
    return _Request(
        method, target.partition("?")[0], _takes_gzip(fields.get("accept-encoding", "")), keep_alive
    )


def _takes_gzip(accepted: str) -> bool:
    """Whether an Accept-Encoding names gzip with a weight other than 0."""
    for choice in accepted.split(","):
        name, _, weight = choice.partition(";")
        if name.strip() in ("gzip", "*"):
            with suppress(ValueError):
                return float(weight.strip().removeprefix("q=") or "1") > 0
    return False


async def _send(
    writer: asyncio.StreamWriter, page: Page, *, keep_alive: bool, with_body: bool = True
) -> None:
    """Send a page, never more of it at once than a client takes."""
    lines = [
        f"HTTP/1.1 {page.status.value} {page.status.phrase}",
        f"Content-Type: {page.content_type}",
        f"Content-Length: {sum(map(len, page.parts))}",
        "Vary: Accept-Encoding",
    ]
    if page.gzipped:
        lines.append("Content-Encoding: gzip")
    if page.status is HTTPStatus.METHOD_NOT_ALLOWED:
        lines.append("Allow: GET, HEAD")
    if not keep_alive:
        lines.append("Connection: close")
    head = "\r\n".join([*lines, "", ""]).encode("ascii")
    writer.write(head)
    for part in page.parts if with_body else ():
        view = memoryview(part)
        for start in range(0, len(view), PIECE_BYTES):
            writer.write(view[start : start + PIECE_BYTES])
            async with asyncio.timeout(SEND_S):
                await writer.drain()
    async with asyncio.timeout(SEND_S):
        await writer.drain()
