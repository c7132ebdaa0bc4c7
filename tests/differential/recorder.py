"""Overhears kube-scheduler: all nodes on which it would put a pod, without letting it.

kube-scheduler asks an extender about a pod after its own filters, with the nodes that are left. This one
writes them down and leaves none. So every pod is asked about in the same cluster, in which nobody ever
gets a place, and the answer is all nodes instead of the one that scores best.
"""

import http.server
import json
import sys
import threading
from types import TracebackType
from typing import Any, Self

import msgspec

from gpufleet.localkube.access.ports import LOOPBACK


class _Named(msgspec.Struct):
    name: str
    namespace: str


class _Pod(msgspec.Struct):
    metadata: _Named


class _Question(msgspec.Struct):
    """ExtenderArgs of k8s.io/kube-scheduler/extender/v1, which has no names of its own in JSON."""

    Pod: _Pod
    NodeNames: list[str]


_QUESTION = msgspec.json.Decoder(_Question)
_NOWHERE = json.dumps({"NodeNames": [], "FailedNodes": {}, "Error": ""}).encode()


class _Server(http.server.ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A kube-scheduler that is stopped breaks its connection; anything else is told."""
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)


class Recorder:
    """An extender on a port of its own while the block lasts."""

    def __init__(self) -> None:
        self.feasible: dict[str, frozenset[str]] = {}
        recorder = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            # Answers of a few bytes would otherwise wait for an acknowledgement.
            disable_nagle_algorithm = True

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                asked = _QUESTION.decode(body)
                path = f"{asked.Pod.metadata.namespace}/{asked.Pod.metadata.name}"
                recorder.feasible[path] = frozenset(asked.NodeNames)
                self.send_response(200)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(_NOWHERE)))
                self.end_headers()
                self.wfile.write(_NOWHERE)

            def log_message(self, *_: object) -> None:
                """Say nothing."""

        self._server = _Server((LOOPBACK, 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, name="recorder")

    @property
    def url(self) -> str:
        """Where kube-scheduler finds it."""
        return f"http://{LOOPBACK}:{self._server.server_address[1]}"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()
