"""A server that drips is left when the time for a whole answer is over, over real sockets."""

import contextlib
import http.client
import socket
import threading
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator

import pytest

from gpufleet.files.fetching import REFUSAL_BYTES_MAX, fetched
from gpufleet.model.model_errors import WorldError
from gpufleet.usage.prometheus.access import Access
from gpufleet.usage.prometheus.client import Prometheus
from gpufleet.usage.prometheus.window import Window
from tests.kube.open_sockets import connected_to

OK = b"HTTP/1.1 200 OK\r\n"


@contextlib.contextmanager
def dripping(first: bytes, again: bytes) -> Iterator[str]:
    """The address of a server that says the first at once and the other again and again."""
    over = threading.Event()

    def serve(listener: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while not over.is_set():
                client, _ = listener.accept()
                with client, contextlib.suppress(OSError):
                    client.recv(65536)
                    client.sendall(first)
                    while again and not over.wait(0.01):
                        client.sendall(again)

    with socket.create_server(("127.0.0.1", 0)) as listener:
        serving = threading.Thread(target=serve, args=(listener,))
        serving.start()
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        over.set()
        with contextlib.suppress(OSError):
            listener.shutdown(socket.SHUT_RDWR)
        serving.join()


DRIPS = {
    "line": (b"HTTP/1.1 200 OK", b" "),
    "header": (OK + b"X: ", b"x"),
    "headers": (OK, b"X: y\r\n"),
    "interim answers": (b"", b"HTTP/1.1 100 Continue\r\n\r\n"),
    "body": (OK + b"Content-Length: 1000000\r\n\r\n", b"x"),
    "body without length": (OK + b"\r\n", b"x"),
    "chunks": (OK + b"Transfer-Encoding: chunked\r\n\r\n", b"1\r\nx\r\n"),
    "trailer": (OK + b"Transfer-Encoding: chunked\r\n\r\n0\r\n", b"a: b\r\n"),
    "gzip": (OK + b"Content-Encoding: gzip\r\n\r\n\x1f\x8b\x08\0\0\0\0\0\0\x03", b"\0"),
}


@pytest.mark.parametrize("drip", DRIPS.values(), ids=DRIPS)
def test_the_time_for_a_whole_answer_holds_however_it_drips(drip: tuple[bytes, bytes]) -> None:
    # http.client gives up by itself on a hundred headers.
    with (
        dripping(*drip) as url,
        pytest.raises((TimeoutError, http.client.HTTPException)),
        fetched(urllib.request.Request(url), step_s=30, total_s=0.3) as answer,  # noqa: S310  our own
    ):
        answer.read()


@pytest.mark.parametrize("drip", DRIPS.values(), ids=DRIPS)
def test_a_prometheus_that_drips_is_left(drip: tuple[bytes, bytes]) -> None:
    with dripping(*drip) as url, pytest.raises(WorldError, match=r"127\.0\.0\.1"):
        next(Prometheus(Access(url), total_s=0.3).over("up", Window(0, 60, 60), "up"))


def refusing(drip: tuple[bytes, bytes]) -> tuple[bytes, bytes]:
    first, again = drip
    return first.replace(b"200 OK", b"500 Internal Server Error"), again


@pytest.mark.parametrize("drip", DRIPS.values(), ids=DRIPS)
def test_the_time_holds_for_an_answer_that_refuses(drip: tuple[bytes, bytes]) -> None:
    with (
        dripping(*refusing(drip)) as url,
        pytest.raises((TimeoutError, http.client.HTTPException)),
        fetched(urllib.request.Request(url), step_s=30, total_s=0.3),  # noqa: S310  our own
    ):
        raise AssertionError


@pytest.mark.parametrize("drip", DRIPS.values(), ids=DRIPS)
def test_a_prometheus_that_refuses_and_drips_is_left(drip: tuple[bytes, bytes]) -> None:
    with dripping(*refusing(drip)) as url, pytest.raises(WorldError, match=r"127\.0\.0\.1"):
        next(Prometheus(Access(url), total_s=0.3).over("up", Window(0, 60, 60), "up"))


REFUSAL = b"HTTP/1.1 403 Forbidden\r\nX-Why: tokens\r\n"


@pytest.mark.parametrize(
    ("rest", "read"),
    [
        (b"Content-Length: 2\r\n\r\nno", b"no"),
        (b"Content-Length: 9\r\nConnection: close\r\n\r\nno", b"no"),
        (b"Transfer-Encoding: chunked\r\n\r\n2\r\nno\r\n0\r\n\r\n", b"no"),
        (b"Transfer-Encoding: chunked\r\n\r\n2\r\nno\r\nbroken\r\n", b""),
        (b"Connection: close\r\n\r\n" + b"x" * (REFUSAL_BYTES_MAX + 1), b"x" * REFUSAL_BYTES_MAX),
        (b"Content-Length: 0\r\n\r\n", b""),
    ],
)
def test_a_refusal_is_told_with_its_body_and_its_connection_closed(rest: bytes, read: bytes) -> None:
    with dripping(REFUSAL + rest, b"") as url:
        with (
            pytest.raises(urllib.error.HTTPError) as caught,
            fetched(urllib.request.Request(url), step_s=30, total_s=30),  # noqa: S310  our own
        ):
            raise AssertionError
        assert connected_to(urllib.parse.urlsplit(url).port or 0) == []
        assert (caught.value.code, caught.value.headers["X-Why"]) == (403, "tokens")
        assert caught.value.read() == read


def test_a_whole_answer_is_read() -> None:
    whole = OK + b"Content-Length: 2\r\nConnection: close\r\n\r\nok"
    with (
        dripping(whole, b"") as url,
        fetched(urllib.request.Request(url), step_s=30, total_s=30) as answer,  # noqa: S310  our own
    ):
        assert answer.read() == b"ok"
