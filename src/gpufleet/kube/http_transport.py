"""HTTP/1.1 to a real API server, with connections that stay open.

Makes the promise of ``transport.Transport`` that matters most: ``reached`` is False only where the
server surely got nothing. A connection that the server closed while it was idle is noticed too
late by a request that was just sent on it; a read is then sent once more on a new connection, a
write is not. Watches have connections of their own, which the bound does not count.

Proxies are not spoken to, neither from the environment nor from a kubeconfig.
"""

import asyncio
import contextlib
import re
import ssl
from collections import deque

from gpufleet import __version__
from gpufleet.kube.access import Access
from gpufleet.kube.connecting import connected_socket
from gpufleet.kube.expiry import Expiry, der_validity
from gpufleet.kube.http_connection import ConnectionBroken, HttpConnection, HttpStream
from gpufleet.kube.kube_errors import TransportError
from gpufleet.kube.transport import LARGEST_OBJECT_BYTES, Request, Response
from gpufleet.model.model_errors import InternalError, printable

CONNECTIONS = 64
"""Requests beyond the last one wait for their turn; each watch has a connection of its own beside these."""

# Servers and the balancers before them close what is idle for a minute or more; a write must not
# meet that moment.
IDLE_LIMIT_S = 25.0
CLOSING_LIMIT_S = 2.0
"""Connections get so long to end; a server must not hold up the end of the process."""

# Anything else in a request line (a space, a line break) could smuggle in a second request.
_TARGET = re.compile(r"/[!-~]*")
# Requests that may be repeated when an idle connection turns out to be closed.
_READS = frozenset({"GET", "HEAD"})


class HttpTransport:
    """A way to one API server over HTTP/1.1, with at most ``connections`` for calls."""

    def __init__(self, access: Access, *, connections: int = CONNECTIONS) -> None:
        self._access = access
        self._endpoint = access.endpoint
        self._free = connections
        self._idle: list[HttpConnection] = []
        self._queue: deque[asyncio.Future[HttpConnection | None]] = deque()
        self._open: set[HttpConnection] = set()
        self._closed = False
        self._server_certificate: Expiry | None = None
        self._fixed_head = (
            f" HTTP/1.1\r\nHost: {self._endpoint.authority}\r\nUser-Agent: gpufleet/{__version__}\r\nAccept: "
        )

    async def call(self, request: Request, *, timeout_s: float) -> Response:
        """Send a request and wait for its whole answer. Raises TransportError."""
        deadline_s = asyncio.get_running_loop().time() + timeout_s
        response = await self._call_once(request, deadline_s)
        if response.status == 401:
            # A certificate that has ended belongs to its connection: a newer one needs another.
            self._drop_idle()
            if await self._access.refused():
                response = await self._call_once(request, deadline_s)
        return response

    async def open(self, request: Request, *, timeout_s: float) -> HttpStream:
        """Send a request and wait until its answer begins. Raises TransportError."""
        deadline_s = asyncio.get_running_loop().time() + timeout_s
        stream = await self._open_once(request, deadline_s)
        if stream.status != 401:
            return stream
        try:
            renewed = await self._access.refused()
        # A caller that is cancelled never gets the stream, so nothing else would close it.
        except BaseException:
            await stream.close()
            raise
        if renewed:
            await stream.close()
            stream = await self._open_once(request, deadline_s)
        return stream

    def expiries(self) -> tuple[Expiry, ...]:
        """When what both sides show ends, the server's certificate as it was at the last connection."""
        shown = self._server_certificate
        return (*self._access.expiries(), *(() if shown is None else (shown,)))

    async def close(self) -> None:
        """Close all connections; requests under way fail."""
        self._closed = True
        for waiting in self._queue:
            if not waiting.done():
                waiting.set_exception(_unsent("the transport was closed"))
        lost = [connection.lost for connection in self._open]
        # A copy: a connection that ends takes itself out of the set.
        for connection in list(self._open):
            connection.abort()
        if lost:
            await asyncio.wait(lost, timeout=CLOSING_LIMIT_S)

    async def _call_once(self, request: Request, deadline_s: float) -> Response:
        payload = await self._payload(request)
        # The answer to a write is one object, whatever limit a reader has set.
        most_bytes = request.most_bytes if request.method in _READS else LARGEST_OBJECT_BYTES
        loop = asyncio.get_running_loop()
        # The connection used last is the one that the server has most probably not closed yet.
        connection = self._take_idle(loop.time()) or await self._acquire(deadline_s)
        try:
            return await connection.exchange(payload, request.method, deadline_s - loop.time(), most_bytes)
        except TransportError as error:
            # Closed without a byte on a connection that was used before: the server had given it up while it
            # was idle.
            stale = isinstance(error, ConnectionBroken) and error.unanswered and connection.exchanges > 1
            if not (stale and request.method in _READS) and error.reached:
                raise
        finally:
            self._release(connection)
        # Only a request that may be sent twice, or was not sent at all, gets here.
        connection = await self._acquire(deadline_s, fresh=True)
        try:
            return await connection.exchange(payload, request.method, deadline_s - loop.time(), most_bytes)
        finally:
            self._release(connection)

    async def _open_once(self, request: Request, deadline_s: float) -> HttpStream:
        payload = await self._payload(request)
        # A stream has a connection of its own, outside of the bound: a watch would keep a call's for minutes.
        connection = await self._connect(deadline_s)
        remaining_s = deadline_s - asyncio.get_running_loop().time()
        return await connection.begin(payload, request.method, remaining_s)

    async def _payload(self, request: Request) -> bytes:
        if _TARGET.fullmatch(request.target) is None:
            raise InternalError(f"no target of a request: {printable(request.target)}")
        authorization = await self._access.authorization()
        head = (
            f"{request.method} {self._endpoint.prefix}{request.target}{self._fixed_head}{request.accept}\r\n"
        )
        if authorization:
            head += f"Authorization: {authorization}\r\n"
        body = request.body
        if not body and request.method in _READS:
            return f"{head}\r\n".encode("latin-1")
        head += f"Content-Type: {request.content_type}\r\nContent-Length: {len(body)}\r\n\r\n"
        return head.encode("latin-1") + body

    def _take_idle(self, now_s: float) -> HttpConnection | None:
        while self._idle:
            connection = self._idle.pop()
            if connection.usable and now_s - connection.idle_since_s < IDLE_LIMIT_S:
                return connection
            self._free += 1
            connection.abort()
        return None

    async def _acquire(self, deadline_s: float, *, fresh: bool = False) -> HttpConnection:
        """An open connection that counts in the bound."""
        if fresh:
            # Where one idle connection was closed by the server, the others probably are too.
            self._drop_idle()
        if self._free <= 0:
            handed = await self._wait_for_turn(deadline_s)
            # It may have been closed between being handed on and being taken.
            if handed is not None and handed.usable and not fresh:
                return handed
            if handed is not None:
                handed.abort()
        else:
            self._free -= 1
        try:
            return await self._connect(deadline_s)
        # A turn that is not handed on is one connection less for good.
        except BaseException:
            self._give_turn(None)
            raise

    async def _wait_for_turn(self, deadline_s: float) -> HttpConnection | None:
        turn: asyncio.Future[HttpConnection | None] = asyncio.get_running_loop().create_future()
        self._queue.append(turn)
        try:
            async with asyncio.timeout_at(deadline_s):
                return await turn
        except TimeoutError as error:
            self._pass_on(turn)
            raise _unsent("all connections were busy until the time was over") from error
        except asyncio.CancelledError:
            self._pass_on(turn)
            raise

    def _pass_on(self, turn: asyncio.Future[HttpConnection | None]) -> None:
        """The caller gave up its turn; a turn that came at that moment goes to the next caller."""
        if turn.done() and not turn.cancelled() and turn.exception() is None:
            self._give_turn(turn.result())

    def _release(self, connection: HttpConnection) -> None:
        if connection.usable and not self._closed:
            self._give_turn(connection)
        else:
            connection.abort()
            self._give_turn(None)

    def _give_turn(self, connection: HttpConnection | None) -> None:
        while self._queue:
            turn = self._queue.popleft()
            if not turn.done():
                turn.set_result(connection)
                return
        if connection is None:
            self._free += 1
        else:
            self._idle.append(connection)

    def _drop_idle(self) -> None:
        self._free += len(self._idle)
        for connection in self._idle:
            connection.abort()
        self._idle.clear()

    async def _connect(self, deadline_s: float) -> HttpConnection:
        self._check_not_closed()
        endpoint = self._endpoint
        context = await self._access.tls_context() if endpoint.tls else None
        place = printable(endpoint.authority)
        try:
            async with asyncio.timeout_at(deadline_s):
                wire, connection = await asyncio.get_running_loop().create_connection(
                    lambda: HttpConnection(self._open.discard),
                    sock=await connected_socket(endpoint.host, endpoint.port),
                    ssl=context,
                    server_hostname=(endpoint.server_name or endpoint.host) if context else None,
                )
        except TimeoutError as error:
            raise _unsent(f"no connection to {place} in time") from error
        # An OSError as well, but one with words that say more.
        except ssl.SSLCertVerificationError as error:
            raise _unsent(f"the certificate of {place} is not trusted: {error.verify_message}") from error
        except (OSError, ssl.SSLError) as error:
            reason = (
                "connection refused" if isinstance(error, ConnectionRefusedError) else error.strerror or error
            )
            raise _unsent(f"cannot connect to {place}: {reason}") from error
        self._note_certificate(wire)
        # First of all, so that a close from now on finds it; one that came meanwhile is seen below.
        self._open.add(connection)
        try:
            self._check_not_closed()
        except TransportError:
            connection.abort()
            raise
        return connection

    def _note_certificate(self, wire: asyncio.BaseTransport) -> None:
        tls: ssl.SSLObject | None = wire.get_extra_info("ssl_object")
        shown = None if tls is None else tls.getpeercert(binary_form=True)
        if shown:
            with contextlib.suppress(ValueError, IndexError):
                begins_s, ends_s = der_validity(shown)
                self._server_certificate = Expiry("server-certificate", ends_s, begins_s)

    def _check_not_closed(self) -> None:
        if self._closed:
            raise _unsent("the transport was closed")


def _unsent(problem: str) -> TransportError:
    return TransportError(problem, reached=False)
