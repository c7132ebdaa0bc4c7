"""A web server of tests: paths with bytes, redirects and answers of their own; it counts what it is asked.

It knows ranges (RFC 9110, 14.2 and 15.5.17) and breaks an answer off where a test says so.
"""

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import unquote

Answer = tuple[int, Mapping[str, str], bytes]


class HttpStore:
    """What it has, by path; ``dynamic`` answers paths that begin so, from the whole target."""

    def __init__(self) -> None:
        self.files: dict[str, bytes] = {}
        self.redirects: dict[str, str] = {}
        self.dynamic: dict[str, Callable[[str, Mapping[str, str]], Answer]] = {}
        self.broken_after: dict[str, int] = {}
        self.length: str | None = None
        """What it says as the length of each answer, None for what it is."""
        self.asked: list[tuple[str, str, str]] = []
        """Method, path and range of each request."""
        self.address = ""

    def put(self, folder: str, files: Mapping[str, bytes]) -> None:
        """Files under a folder."""
        for name, content in files.items():
            self.files[f"{folder}/{name}"] = content

    def answer(self, target: str, headers: Mapping[str, str]) -> Answer:
        """Status, headers and body."""
        path = unquote(target.partition("?")[0])
        if path in self.redirects:
            return 302, {"Location": self.redirects[path]}, b""
        for start, made in self.dynamic.items():
            if path.startswith(start):
                return made(target, headers)
        if path not in self.files:
            return 404, {}, b"nothing"
        body, asked = self.files[path], headers.get("Range", "")
        if asked:
            begins = int(asked.removeprefix("bytes=").removesuffix("-"))
            if begins >= len(body):
                return 416, {"Content-Range": f"bytes */{len(body)}"}, b""
            return 206, {"Content-Range": f"bytes {begins}-{len(body) - 1}/{len(body)}"}, body[begins:]
        return 200, {}, body


@contextmanager
def serving() -> Iterator[HttpStore]:
    """A server on a free port of this machine."""
    store = HttpStore()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            status, headers, body = store.answer(self.path, dict(self.headers))
            store.asked.append((self.command, self.path, self.headers.get("Range", "")))
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(body)) if store.length is None else store.length)
            self.end_headers()
            if self.command == "HEAD":
                return
            most = store.broken_after.pop(self.path, None)
            self.wfile.write(body if most is None else body[:most])
            if most is not None:
                self.close_connection = True

        do_HEAD = do_GET  # noqa: N815  the name that http.server calls

        def log_message(self, *_: object) -> None:
            """Nothing: tests read ``asked``."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    store.address = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield store
    finally:
        server.shutdown()
        server.server_close()
