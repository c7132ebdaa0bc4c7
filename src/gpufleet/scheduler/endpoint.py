"""The scheduler's HTTP endpoint: /metrics, /healthz and /readyz.

It runs in a thread of its own, so that it answers, with the truth, even while the scheduler's loop
is stuck: health is judged by when the loop last turned, not by whether this thread runs.
"""

import http.server
import threading
from collections.abc import Callable
from http import HTTPStatus

import msgspec
from prometheus_client import CollectorRegistry
from prometheus_client.exposition import choose_encoder

TEXT = "text/plain; charset=utf-8"


class Health(msgspec.Struct, frozen=True):
    """Whether something is well, and if not, why."""

    well: bool
    reasons: tuple[str, ...] = ()


class Endpoint:
    """Serves until ``close``. ``alive`` and ``ready`` are asked at every request, from its thread."""

    def __init__(
        self,
        registry: CollectorRegistry,
        *,
        alive: Callable[[], Health],
        ready: Callable[[], Health],
        address: str = "127.0.0.1",
        port: int = 0,
    ) -> None:
        handler = type("Handler", (_Handler,), {"registry": registry, "checks": (alive, ready)})
        self._server = http.server.ThreadingHTTPServer((address, port), handler)
        self._server.daemon_threads = True
        self.port: int = self._server.server_address[1]
        self._thread = threading.Thread(target=self._server.serve_forever, name="endpoint", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop answering."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


class _Handler(http.server.BaseHTTPRequestHandler):
    """Answers one connection."""

    registry: CollectorRegistry
    checks: tuple[Callable[[], Health], Callable[[], Health]]
    timeout = 10
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        """Answer a GET."""
        alive, ready = self.checks
        match self.path.partition("?")[0]:
            case "/metrics":
                encode, content_type = choose_encoder(self.headers.get("Accept", ""))
                self._answer(HTTPStatus.OK, encode(self.registry), content_type)
            case "/healthz" | "/livez":
                self._answer_health(alive())
            case "/readyz":
                self._answer_health(ready())
            case _:
                self._answer(HTTPStatus.NOT_FOUND, b"there are /metrics, /healthz and /readyz\n", TEXT)

    def _answer_health(self, health: Health) -> None:
        if health.well:
            self._answer(HTTPStatus.OK, b"ok\n", TEXT)
        else:
            lines = "".join(f"{reason}\n" for reason in health.reasons)
            self._answer(HTTPStatus.SERVICE_UNAVAILABLE, lines.encode(), TEXT)

    def _answer(self, status: HTTPStatus, body: bytes, content_type: str) -> None:
        self.send_response(status)
        self.send_header("Content-Type", content_type)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Probes and scrapes are no news."""
