"""The scheduler's HTTP endpoint: /metrics, /healthz and /readyz.

It runs in a thread and a loop of its own, so that it answers, with the truth, even while the scheduler's
loop is stuck: health is judged by when the loop last turned, not by whether this thread runs. What clients
may cost is bounded by ``daemon.http_server``.
"""

import asyncio
import socket
import threading
from collections.abc import Callable

from prometheus_client import CollectorRegistry
from prometheus_client.exposition import choose_encoder

from gpufleet.daemon.http_server import LIMITS, Accepted, Health, HttpLimits, HttpServer, Page
from gpufleet.daemon.server_certificate import ServerCertificate
from gpufleet.model.visible import visible_text


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
        certificate: ServerCertificate | None = None,
        limits: HttpLimits = LIMITS,
    ) -> None:
        """Raises OSError where the address cannot be listened on."""
        # The port is not part of the address, so a colon is found only in IPv6.
        family = socket.AF_INET6 if ":" in address else socket.AF_INET
        self._listener = socket.create_server((address, port), family=family)
        self.port: int = self._listener.getsockname()[1]

        def page(accepted: Accepted) -> Page:
            return _page(registry, accepted)

        self._server = HttpServer(
            page, alive=alive, ready=ready, listener=self._listener, certificate=certificate, limits=limits
        )
        self._loop = asyncio.new_event_loop()
        # A thread and a loop of its own: a probe has to be answered also while a long round holds the
        # scheduler's loop.
        self._thread = threading.Thread(target=self._serve, name="endpoint", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop answering."""
        self._loop.call_soon_threadsafe(self._stop)
        self._thread.join()
        # A server that is stopped before it began has not taken the socket over.
        self._listener.close()

    def _stop(self) -> None:
        for task in asyncio.all_tasks(self._loop):
            task.cancel()

    def _serve(self) -> None:
        with asyncio.Runner(loop_factory=lambda: self._loop) as runner:
            try:
                runner.run(self._server.run())
            except asyncio.CancelledError:
                return


def _page(registry: CollectorRegistry, accepted: Accepted) -> Page:
    encode, content_type = choose_encoder(accepted.media)
    text: bytes = encode(registry)
    if not text.isascii():
        # Queues and namespaces are named by others.
        text = visible_text(text.decode()).encode()
    return Page((text,), content_type)
