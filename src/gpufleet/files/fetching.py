"""Asks an HTTP server for something, within a time for all of it.

A timeout of a socket is one of each step: a server that sends a byte now and then, or headers without end,
would never be left. Here a clock runs beside the whole exchange and cuts the connection.
"""

import http.client
import socket
import ssl
import threading
import urllib.request
from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Any, Self


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

    ``step_s`` is the time for each step, ``total_s`` that for all of them, reading included.
    """
    with _Cutter(total_s) as cutter:
        opener = urllib.request.build_opener(_Http(cutter), _Https(cutter, tls), *handlers)
        try:
            with closing(opener.open(request, timeout=step_s)) as response:
                yield response
        except (OSError, http.client.HTTPException, EOFError) as error:
            if cutter.is_over:
                raise TimeoutError(f"no whole answer within {total_s:g} s") from error
            raise
        if cutter.is_over:
            raise TimeoutError(f"no whole answer within {total_s:g} s")


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
