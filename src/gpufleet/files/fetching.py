"""Asks an HTTP server for something, within a time for all of it.

A timeout of a socket is one of each step: a server that sends a byte now and then, or headers without end,
would never be left. Here a clock runs beside the whole exchange and cuts the connection. An answer that
refuses is read within that time too, and its connection closed, before its error is raised.
"""

import http.client
import socket
import ssl
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import closing, contextmanager
from io import BytesIO
from typing import IO, Any, Self

REFUSAL_BYTES_MAX = 1 << 20
"""Why a server refuses: a page for people has some thousand bytes."""


class _Cutter:
    """Ends the connections of one exchange when its time is over."""

    def __init__(self, total_s: float) -> None:
        self._sockets: list[socket.socket] = []
        self._timer = threading.Timer(total_s, self._cut)
        self._timer.daemon = True
        self.is_over = False

    def __enter__(self) -> Self:
        self._timer.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._timer.cancel()

    def watch(self, connected: socket.socket) -> None:
        self._sockets.append(connected)
        if self.is_over:
            self._cut()

    def _cut(self) -> None:
        self.is_over = True
        for one in self._sockets:
            try:
                # The plain socket's own: the one of TLS would first say goodbye.
                socket.socket.shutdown(one, socket.SHUT_RDWR)
            except OSError:
                continue


@contextmanager
def fetched(
    request: urllib.request.Request,
    *,
    step_s: float,
    total_s: float,
    tls: ssl.SSLContext | None = None,
    handlers: tuple[urllib.request.BaseHandler, ...] = (),
) -> Iterator[http.client.HTTPResponse]:
    """The answer, to be read in here. Raises OSError, TimeoutError among them, and HTTPException.

    An answer that refuses is the HTTPError of urllib, with the beginning of its body in memory.

    ``step_s`` is the time for each step, ``total_s`` that for all of them, reading included.
    """
    with _Cutter(total_s) as cutter:
        opener = urllib.request.build_opener(_Http(cutter), _Https(cutter, tls), *handlers)
        try:
            with closing(_opened(opener, request, step_s)) as response:
                yield response
        except (OSError, http.client.HTTPException, EOFError) as error:
            # A connection that was cut fails in many ways, so the clock says what it was.
            if cutter.is_over:
                raise TimeoutError(f"no whole answer within {total_s:g} s") from error
            raise
        # An answer without a length ends without an error where it is cut, and would pass for a whole one.
        if cutter.is_over:
            raise TimeoutError(f"no whole answer within {total_s:g} s")


def _opened(
    opener: urllib.request.OpenerDirector, request: urllib.request.Request, step_s: float
) -> http.client.HTTPResponse:
    try:
        answer: http.client.HTTPResponse = opener.open(request, timeout=step_s)
    except urllib.error.HTTPError as error:
        refusal = error
    else:
        return answer
    with closing(refusal):
        body = _beginning(refusal)
    raise urllib.error.HTTPError(refusal.url, refusal.code, refusal.msg, refusal.headers, BytesIO(body))


def _beginning(refusal: urllib.error.HTTPError) -> bytes:
    """What of the body comes; the refusal counts without one too."""
    try:
        return refusal.read(REFUSAL_BYTES_MAX)
    except (OSError, http.client.HTTPException):
        return b""


class NoRedirect(urllib.request.HTTPRedirectHandler):
    """A redirect is an error like any other."""

    def http_error_302(
        self,
        req: urllib.request.Request,
        fp: IO[bytes],
        code: int,
        msg: str,
        headers: http.client.HTTPMessage,
    ) -> None:
        """Follow no redirect, and do not read where it points: that may be no address."""

    http_error_301 = http_error_303 = http_error_307 = http_error_308 = http_error_302


class _HttpConnection(http.client.HTTPConnection):
    cutter: _Cutter

    def connect(self) -> None:
        super().connect()
        self.cutter.watch(self.sock)


class _HttpsConnection(http.client.HTTPSConnection):
    cutter: _Cutter

    def connect(self) -> None:
        super().connect()
        self.cutter.watch(self.sock)


class _Http(urllib.request.HTTPHandler):
    def __init__(self, cutter: _Cutter) -> None:
        super().__init__()
        self._cutter = cutter

    def http_open(self, request: urllib.request.Request) -> http.client.HTTPResponse:
        return self.do_open(self._connection, request)

    def _connection(self, host: str, **settings: Any) -> http.client.HTTPConnection:
        made = _HttpConnection(host, **settings)
        made.cutter = self._cutter
        return made


class _Https(urllib.request.HTTPSHandler):
    def __init__(self, cutter: _Cutter, tls: ssl.SSLContext | None) -> None:
        super().__init__()
        self._cutter = cutter
        self._tls = tls or ssl.create_default_context()

    def https_open(self, request: urllib.request.Request) -> http.client.HTTPResponse:
        return self.do_open(self._connection, request)

    def _connection(self, host: str, **settings: Any) -> http.client.HTTPConnection:
        made = _HttpsConnection(host, context=self._tls, **settings)
        made.cutter = self._cutter
        return made
