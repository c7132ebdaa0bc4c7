"""A small API server for one kind that keeps a history, and everything that may go wrong with it.

Its rules are those that Kubernetes documents (API concepts: resource versions, efficient detection
of changes); its faults are switches that a state machine turns.
"""

import asyncio
import itertools
import json
import random
from collections.abc import AsyncIterator
from typing import Any, NamedTuple
from urllib.parse import parse_qsl, urlsplit

from gpufleet.kube.kube_errors import TransportError
from gpufleet.kube.transport import Request, Response
from tests.kube.scripted_transport import BROKEN, bookmark, event, item, page, refusal, status

POLL_S = 0.25
BOOKMARK_S = 20.0


class Version(NamedTuple):
    """One version of one object."""

    name: str
    uid: str
    revision: int
    size: Any

    def body(self) -> dict[str, Any]:
        """As on the wire."""
        return item(self.name, self.revision, self.uid, size=self.size)


class Written(NamedTuple):
    """One entry of the history."""

    kind: str
    version: Version


class ModelServer:
    """The server; each fault is an attribute."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.revision = 10
        self.compacted = 0
        self.objects: dict[str, Version] = {}
        self.history: list[Written] = []
        self.snapshots: dict[int, list[Version]] = {}
        self.made = 0
        self.refusals: list[Response | TransportError] = []
        self.streams: list[ModelStream] = []
        self.visible: int | None = None
        self.repeats = False
        self.replays = False
        self.bytes_until_cut: int | None = None
        self.closes_after_page = False

    def put(self, name: str, size: Any) -> None:
        """Create an object or change it."""
        held = self.objects.get(name)
        self.revision += 1
        if held is None:
            self.made += 1
        uid = f"uid-{self.made}" if held is None else held.uid
        version = Version(name, uid, self.revision, size)
        self.objects[name] = version
        self.history.append(Written("ADDED" if held is None else "MODIFIED", version))

    def remove(self, name: str) -> None:
        """Delete an object; the event carries the revision of the deletion."""
        held = self.objects.pop(name, None)
        if held is not None:
            self.revision += 1
            self.history.append(Written("DELETED", held._replace(revision=self.revision)))

    def compact(self) -> None:
        """Forget the history and all snapshots."""
        self.compacted = self.revision
        self.snapshots.clear()

    def heal(self) -> None:
        """No more faults."""
        self.refusals.clear()
        self.visible = None
        self.repeats = self.replays = self.closes_after_page = False
        self.bytes_until_cut = None

    @property
    def shown(self) -> int:
        """The revision that readers see: a lagging server shows an older one."""
        return self.revision if self.visible is None else self.visible

    def at(self, revision: int) -> list[Version]:
        """Everything that existed at a revision."""
        found: dict[str, Version] = {}
        for kind, version in self.history:
            if version.revision <= revision:
                found[version.name] = version
                if kind == "DELETED":
                    del found[version.name]
        return [found[name] for name in sorted(found)]

    async def call(self, request: Request, *, timeout_s: float) -> Response:  # noqa: ARG002
        """A page of a list."""
        await asyncio.sleep(0.01)
        self._refuse()
        query = dict(parse_qsl(urlsplit(request.target).query))
        token = query.get("continue", "")
        revision, start = map(int, token.split("-")) if token else (self.shown, 0)
        if not token:
            self.snapshots[revision] = self.at(revision)
        elif revision not in self.snapshots:
            return refusal(410, "Expired", "The provided continue parameter is too old")
        found, end = self.snapshots[revision], start + int(query["limit"])
        if self.closes_after_page:
            self.compact()
        more = f"{revision}-{end}" if end < len(found) else ""
        return page([version.body() for version in found[start:end]], revision, more)

    async def open(self, request: Request, *, timeout_s: float) -> "ModelStream":  # noqa: ARG002
        """A watch."""
        await asyncio.sleep(0.01)
        self._refuse()
        query = dict(parse_qsl(urlsplit(request.target).query))
        revision = int(query["resourceVersion"])
        stream = ModelStream(self, revision, float(query["timeoutSeconds"]))
        if revision < self.compacted:
            stream.gone = True
            stream.status = 410 if self.rng.random() < 0.5 else 200
        elif revision > self.shown:
            stream.status, stream.too_large = 504, True
        self.streams.append(stream)
        return stream

    async def close(self) -> None:
        """Nothing to close."""

    def _refuse(self) -> None:
        if self.refusals:
            refused = self.refusals.pop()
            if isinstance(refused, TransportError):
                raise refused
            raise TransportError(f"a proxy said {refused.status}", reached=True)


class ModelStream:
    """One watch."""

    def __init__(self, server: ModelServer, revision: int, lasts_s: float) -> None:
        self.status = 200
        self.headers: dict[str, str] = {}
        self.gone = self.too_large = self.silent = self.closed = False
        self._server = server
        self._cursor = max(server.compacted, revision - 4) if server.replays else revision
        self._lasts_s = lasts_s

    async def chunks(self) -> AsyncIterator[bytes]:
        """What is told, cut at random places."""
        loop, server = asyncio.get_running_loop(), self._server
        if self.too_large:
            yield json.dumps(status(504, "Timeout", "Too large resource version")).encode()
            return
        if self.gone:
            body = status(410, "Expired")
            yield event("ERROR", body) if self.status == 200 else json.dumps(body).encode()
            return
        ends_s, told_s = loop.time() + self._lasts_s, loop.time()
        while loop.time() < ends_s:
            await asyncio.sleep(POLL_S)
            data = b"" if self.silent else self._news()
            if not data and not self.silent and loop.time() - told_s >= BOOKMARK_S:
                data = bookmark(max(self._cursor, server.shown))
            if data:
                told_s = loop.time()
            for chunk in self._chopped(data):
                yield chunk
                if server.bytes_until_cut == 0:
                    server.bytes_until_cut = None
                    raise BROKEN

    def _news(self) -> bytes:
        server, data = self._server, b""
        for kind, version in server.history:
            if self._cursor < version.revision <= server.shown:
                data += event(kind, version.body()) * (2 if server.repeats else 1)
        self._cursor = max(self._cursor, server.shown)
        return data

    def _chopped(self, data: bytes) -> list[bytes]:
        server = self._server
        if server.bytes_until_cut is not None and data:
            data = data[: server.bytes_until_cut]
            server.bytes_until_cut -= len(data)
            if not data:
                return [b""]
        places = sorted(server.rng.randrange(len(data) + 1) for _ in range(3)) if data else []
        edges = [0, *places, len(data)]
        pieces = [data[a:b] for a, b in itertools.pairwise(edges)]
        return [piece for piece in pieces if piece]

    async def close(self) -> None:
        """Note that it was closed."""
        self.closed = True
