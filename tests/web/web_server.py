"""``gpufleet web`` as a process, and a browser's part of the talk: cookies, documents, and its stream."""

import http.client
import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from tests.waiting import until

WAIT_S = 90.0


class Answer(NamedTuple):
    """What came back."""

    status: int
    fields: Mapping[str, str]
    body: bytes

    @property
    def document(self) -> Any:
        """The body as JSON."""
        return json.loads(self.body)


class Event(NamedTuple):
    """One event of a stream."""

    name: str
    data: Any
    id: str


class Browser:
    """A browser on one server; it keeps the cookie that it is given."""

    def __init__(self, port: int, *, token: str = "", host: str = "") -> None:
        self.port = port
        self.token = token
        self.cookie = ""
        self.host = host or f"127.0.0.1:{port}"

    def fields(self, **more: str) -> dict[str, str]:
        """The fields of a request."""
        own = {"Host": self.host, **{name.replace("_", "-"): value for name, value in more.items()}}
        if self.cookie:
            own["Cookie"] = self.cookie
        if self.token:
            own["Authorization"] = f"Bearer {self.token}"
        return own

    def ask(self, path: str, method: str = "GET", body: bytes = b"", **fields: str) -> Answer:
        """What a request gets."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=WAIT_S)
        try:
            connection.putrequest(method, path, skip_host=True, skip_accept_encoding=True)
            for name, value in self.fields(**fields).items():
                connection.putheader(name, value)
            if body:
                connection.putheader("Content-Length", str(len(body)))
            connection.endheaders(body or None)
            response = connection.getresponse()
            found = Answer(response.status, {k.lower(): v for k, v in response.getheaders()}, response.read())
        finally:
            connection.close()
        if cookie := found.fields.get("set-cookie"):
            self.cookie = cookie.partition(";")[0]
        return found

    def get(self, path: str) -> Any:
        """The document at a path."""
        found = self.ask(path)
        assert found.status == 200, (found.status, found.body)
        return found.document

    @contextmanager
    def stream(self, last_event_id: str = "") -> Iterator["Stream"]:
        """The stream, read as it comes."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=WAIT_S)
        more = {"Last_Event_ID": last_event_id} if last_event_id else {}
        connection.putrequest("GET", "/api/stream", skip_host=True)
        for name, value in self.fields(**more).items():
            connection.putheader(name, value)
        connection.endheaders()
        response = connection.getresponse()
        assert response.status == 200, response.read()
        try:
            yield Stream(response)
        finally:
            response.close()
            connection.close()


class Stream:
    """The events of a stream, and the rows that they have told so far by view and key."""

    def __init__(self, response: http.client.HTTPResponse) -> None:
        self._response = response
        self.fields = {k.lower(): v for k, v in response.getheaders()}
        self.rows: dict[str, dict[str, Any]] = {}
        self.unread: dict[str, str] = {}
        self.source: dict[str, Any] = {}
        self.ended: Any = None
        self.last_id = ""
        self.seen: list[Event] = []

    def next(self) -> Event:
        """The next event."""
        name = id_ = ""
        data = None
        while True:
            line = self._response.readline().decode().rstrip("\n")
            if not line and name:
                break
            assert line, "the stream ended"
            field, _, value = line.partition(": ")
            if field == "event":
                name = value
            elif field == "id":
                id_ = value
            elif field == "data":
                data = json.loads(value)
        event = Event(name, data, id_)
        self._take(event)
        return event

    def _take(self, event: Event) -> None:
        self.seen.append(event)
        self.last_id = event.id or self.last_id
        match event.name:
            case "view":
                self.rows[event.data["view"]] = {row["key"]: row for row in event.data["rows"]}
                self.unread[event.data["view"]] = event.data.get("unread", "")
            case "rows":
                rows = self.rows[event.data["view"]]
                rows.update({row["key"]: row for row in event.data["changed"]})
                for key in event.data["removed"]:
                    rows.pop(key, None)
            case "source":
                self.source = event.data
            case "end":
                self.ended = event.data

    def until(self, holds: Callable[["Stream"], bool], wait_s: float = WAIT_S) -> "Stream":
        """Read until it holds."""
        ends_s = time.monotonic() + wait_s
        while not holds(self):
            assert time.monotonic() < ends_s, (self.source, self.rows, self.ended)
            self.next()
        return self


class Server(NamedTuple):
    """A server at work."""

    port: int
    url: str
    process: "subprocess.Popen[bytes]"

    def browser(self, *, token: str = "") -> Browser:
        """A browser that has not logged in."""
        return Browser(self.port, token=token)

    def logged_in(self) -> Browser:
        """A browser that opened the printed URL."""
        browser = self.browser()
        parts = urlsplit(self.url)
        assert browser.ask(f"{parts.path}?{parts.query}").status == 303
        return browser


@contextmanager
def web_server(kubeconfig: Path, folder: Path, *options: str) -> Iterator[Server]:
    """Run it for the length of the block."""
    url_file = folder / f"web-url-{time.monotonic_ns()}"
    command = [sys.executable, "-m", "gpufleet", "web", "--listen=127.0.0.1:0", f"--url-file={url_file}"]
    log = folder / "web.log"
    with log.open("ab") as stderr:
        process = subprocess.Popen(
            [*command, f"--kubeconfig={kubeconfig}", *options], stdout=stderr, stderr=stderr
        )
    try:
        until(
            lambda: process.poll() is not None or (url_file.exists() and bool(url_file.read_text())), WAIT_S
        )
        assert process.poll() is None, log.read_text()
        url = url_file.read_text().strip()
        yield Server(urlsplit(url).port or 0, url, process)
        assert process.poll() is None, log.read_text()
    finally:
        process.terminate()
        process.wait(30)
