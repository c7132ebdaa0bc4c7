"""The plain client: a connection that the API server may have closed meanwhile is not used again."""

import http.server
import ssl
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from gpufleet.localkube.access.api import IDLE_S, Api
from gpufleet.localkube.access.certificates import Authority
from gpufleet.localkube.processes.process_errors import ClusterError


class Forgetful(http.server.BaseHTTPRequestHandler):
    """Answers one request of a connection, and closes it without saying so."""

    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        """Answer with an empty object."""
        self.send_response(200)
        self.send_header("Content-Length", "2")
        self.end_headers()
        self.wfile.write(b"{}")
        self.close_connection = True

    def log_message(self, *_: object) -> None:
        """A test's output is its own."""


@dataclass
class Clock:
    """Time as the test wants it."""

    now_s: float = 0.0

    def __call__(self) -> float:
        """The time now."""
        return self.now_s


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def api(tmp_path: Path, clock: Clock) -> Iterator[Api]:
    authority = Authority.new("forgetful")
    own = authority.server(["localhost"], ["127.0.0.1"])
    (tmp_path / "tls.crt").write_bytes(own.certificate)
    (tmp_path / "tls.key").write_bytes(own.key)
    served = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    served.load_cert_chain(tmp_path / "tls.crt", tmp_path / "tls.key")
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Forgetful)
    server.socket = served.wrap_socket(server.socket, server_side=True)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    trusts = ssl.create_default_context(cadata=authority.identity.certificate.decode())
    try:
        with Api(server.server_address[1], trusts, clock_s=clock) as found:
            yield found
    finally:
        server.shutdown()
        server.server_close()


def test_after_a_long_pause_another_connection_is_opened(api: Api, clock: Clock) -> None:
    assert api.call("GET", "/version") == {}
    clock.now_s += IDLE_S + 1
    assert api.call("GET", "/version") == {}


def test_what_gets_no_answer_is_told_and_not_sent_again(api: Api, clock: Clock) -> None:
    assert api.call("GET", "/version") == {}
    clock.now_s += IDLE_S
    with pytest.raises(ClusterError, match="does not answer"):
        api.call("GET", "/version")
    assert api.call("GET", "/version") == {}
