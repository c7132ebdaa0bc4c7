"""Serves the web page with documents of a made-up fleet, through the real structs: for tests of the page,
for its pictures, and to look at it.

    python -m tests.web.sample_server 10000     a fleet of ten thousand nodes, until it is interrupted

It sends the headers of ``gpufleet web``. A test changes rows while a browser watches, takes the source
away, or ends the login.
"""

import queue
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qs, unquote, urlsplit

import msgspec

from gpufleet.web import documents
from tests.web import sample_fleet

STATIC = Path(__file__).parents[2] / "src/gpufleet/web/static"
TYPES = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".svg": "image/svg+xml",
    ".woff2": "font/woff2",
}
HEADERS = {
    "Content-Security-Policy": "default-src 'self'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
}
ROWS_AT_ONCE = 2000
"""Rows of a view in one event."""
EVENTS_WAIT_S = 0.2


class SampleServer(ThreadingHTTPServer):
    """The server, with what it answers: ``samples`` by the names of ``sample_fleet``."""

    daemon_threads = True

    def __init__(self, samples: Mapping[str, object], port: int = 0) -> None:
        super().__init__(("127.0.0.1", port), _Handler)
        self.views: dict[str, documents.ViewEvent] = {}
        for view in documents.VIEWS:
            event = samples[f"view-{view}"]
            assert isinstance(event, documents.ViewEvent)
            self.views[view] = event
        self.source: object = samples["source"]
        self.answers: dict[str, object] = {
            "/api/about": samples["about"],
            "/api/node": samples["node"],
            "/api/plans": samples["plan"],
            "/api/problems": samples["problems"],
            "/api/projects": samples["projects"],
            "/api/use": samples["use"],
            "waits": samples["work-waits"],
            "runs": samples["work-runs"],
        }
        self.questions: list[str] = []
        self.manifests: list[str] = []
        self.is_away = False
        self.refusal: documents.Refusal | None = None
        self._streams: list[queue.Queue[bytes | None]] = []

    @property
    def url(self) -> str:
        """Where the page is."""
        return f"http://127.0.0.1:{self.server_address[1]}/"

    def send(self, event: str, document: object) -> None:
        """Send an event to all that watch."""
        written = _event(event, document)
        for stream in list(self._streams):
            stream.put(written)

    def change(self, view: str, *rows: object, removed: tuple[str, ...] = ()) -> None:
        """Tell rows that are new or have changed, and keys of those that are gone."""
        raw = tuple(msgspec.Raw(msgspec.json.encode(row)) for row in rows)
        self.send("rows", documents.RowsEvent(view, raw, removed))

    def cut(self) -> None:
        """End all streams, and answer nothing until ``is_away`` is False again."""
        self.is_away = True
        for stream in list(self._streams):
            stream.put(None)

    def first_events(self) -> Iterator[bytes]:
        """What a stream begins with."""
        yield _event("source", self.source)
        for name, view in self.views.items():
            size = len(view.rows)
            rest = range(ROWS_AT_ONCE, size, ROWS_AT_ONCE)
            yield _event(
                "view", documents.ViewEvent(name, view.rows[:ROWS_AT_ONCE], view.unread, more=bool(rest))
            )
            for first in rest:
                end = first + ROWS_AT_ONCE
                yield _event("rows", documents.RowsEvent(name, view.rows[first:end], (), more=end < size))

    @contextmanager
    def watching(self) -> Iterator["queue.Queue[bytes | None]"]:
        """The events for one stream that is open during the block."""
        stream: queue.Queue[bytes | None] = queue.Queue()
        self._streams.append(stream)
        try:
            yield stream
        finally:
            self._streams.remove(stream)

    def watchers(self) -> int:
        """How many streams are open."""
        return len(self._streams)


def _event(name: str, document: object) -> bytes:
    return b"event: %s\ndata: %s\n\n" % (name.encode(), msgspec.json.encode(document))


class _Handler(BaseHTTPRequestHandler):
    """Answers one request."""

    server: SampleServer
    protocol_version = "HTTP/1.1"

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002  (the name that the library gives)
        """Nothing: a test reads what the browser says."""

    def do_GET(self) -> None:
        """A file of the page, a document, or the stream."""
        target = urlsplit(self.path)
        path = unquote(target.path)
        if not path.startswith("/api/"):
            self._file(path)
        elif self.server.is_away:
            self.close_connection = True
        elif self.server.refusal is not None:
            self._answer(self.server.refusal, HTTPStatus.UNAUTHORIZED)
        elif path == "/api/stream":
            self._stream()
        else:
            self._document(path, target.query)

    def do_POST(self) -> None:
        """A plan with a manifest, in which "wrong" is wrong; or the login: any token but "wrong" is right."""
        if self.path.startswith("/api/plans"):
            manifest = self.rfile.read(int(self.headers["Content-Length"] or 0)).decode()
            self.server.manifests.append(manifest)
            if "wrong" in manifest:
                refusal = documents.Refusal(
                    "not an amount",
                    "spec.containers[0].resources.limits",
                    "wrong",
                    "write 8",
                    where="the manifest, Pod train",
                )
                self._answer(refusal, HTTPStatus.BAD_REQUEST)
                return
            self._document("/api/plans", urlsplit(self.path).query)
            return
        if self.headers["Authorization"] == "Bearer wrong":
            refusal = documents.Refusal("the API server does not know this token", way_out="take another")
            self._answer(refusal, HTTPStatus.UNAUTHORIZED)
            return
        self.server.refusal = None
        self._answer({}, HTTPStatus.OK)

    def _file(self, path: str) -> None:
        file = (STATIC / (path.strip("/") or "index.html")).resolve()
        if not file.is_relative_to(STATIC) or not file.is_file():
            self._send(b"not found", "text/plain", HTTPStatus.NOT_FOUND)
            return
        self._send(file.read_bytes(), TYPES.get(file.suffix, "text/plain"), HTTPStatus.OK)

    def _document(self, path: str, query: str) -> None:
        answers = self.server.answers
        if path == "/api/plans":
            self.server.questions.append(query)
            if any("wrong" in value for values in parse_qs(query).values() for value in values):
                refusal = documents.Refusal("not a node", "--add-nodes", "wrong", "write 2 or 2:like=NODE")
                self._answer(refusal, HTTPStatus.BAD_REQUEST)
                return
        if path.startswith("/api/work/"):
            is_known = any(
                f'"key":"{path.removeprefix("/api/work/")}"'.encode() in row for row in self._work()
            )
            found = answers["runs" if "/train-" in path else "waits"] if is_known else None
        elif path.startswith("/api/node/"):
            found = self._node(path.removeprefix("/api/node/"))
        else:
            found = answers.get(path)
        if found is None:
            self._answer(documents.Refusal("there is nothing of that name"), HTTPStatus.NOT_FOUND)
        else:
            self._answer(found, HTTPStatus.OK)

    def _work(self) -> list[bytes]:
        return [bytes(row) for row in self.server.views["work"].rows]

    def _node(self, name: str) -> object:
        """The sample's document with the row of the node that is asked for, and the pods there."""
        for raw in self.server.views["nodes"].rows:
            row = msgspec.json.decode(bytes(raw), type=documents.NodeRow)
            if row.key == name:
                document = self.server.answers["/api/node"]
                assert isinstance(document, documents.NodeDocument)
                use = tuple(
                    documents.CardUseRow(
                        card.id,
                        0.97 - 0.02 * place,
                        (71 - place) * 2.0**30,
                        80.0 * 2**30,
                        640.0 - 9 * place,
                        58.0 + place,
                        4.0,
                    )
                    for place, card in enumerate(row.cards)
                    if card.held_milli
                )
                pods = tuple(one for one in document.pods if one.node == name)
                return msgspec.structs.replace(document, row=row, use=use, pods=pods)
        return None

    def _answer(self, document: object, status: HTTPStatus) -> None:
        self._send(msgspec.json.encode(document), "application/json", status)

    def _send(self, body: bytes, kind: str, status: HTTPStatus) -> None:
        self.send_response(status)
        for name, value in {**HEADERS, "Content-Type": kind, "Content-Length": str(len(body))}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def _stream(self) -> None:
        self.close_connection = True
        self.send_response(HTTPStatus.OK)
        for name, value in {**HEADERS, "Content-Type": "text/event-stream"}.items():
            self.send_header(name, value)
        self.end_headers()
        with self.server.watching() as events:
            try:
                for event in self.server.first_events():
                    self.wfile.write(event)
                while (more := events.get()) is not None:
                    self.wfile.write(more)
            except OSError:
                # The browser has gone.
                return


@contextmanager
def serving(
    nodes: int = 10, port: int = 0, samples: Mapping[str, object] | None = None
) -> Iterator[SampleServer]:
    """A server that answers during the block: with these documents, or those of a fleet of so many nodes."""
    server = SampleServer(samples or sample_fleet.samples(nodes), port)
    thread = threading.Thread(target=server.serve_forever, args=(EVENTS_WAIT_S,))
    thread.start()
    try:
        yield server
    finally:
        server.cut()
        server.shutdown()
        server.server_close()
        thread.join()


if __name__ == "__main__":
    with serving(int(sys.argv[1]) if len(sys.argv) > 1 else 10, int((sys.argv[2:] or ["0"])[0])) as shown:
        print(shown.url, flush=True)  # noqa: T201
        while True:
            time.sleep(60)
