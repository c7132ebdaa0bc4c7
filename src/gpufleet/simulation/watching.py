"""Watches of the simulated server: events since a revision, bookmarks, and how a stream ends.

A watch from a compacted revision is answered 200 with one ERROR event (410 Expired), as the watch cache of a
real server does; faults turn it into a 410 of the request itself, as a server answers while its cache is not
ready.
"""

import asyncio
from collections.abc import AsyncIterator, Callable

import msgspec

from gpufleet.simulation.api_server import ApiServer, as_version, encode
from gpufleet.simulation.listing import predicate_of
from gpufleet.simulation.object_kinds import ObjectKind
from gpufleet.simulation.object_selectors import Predicate
from gpufleet.simulation.object_store import Written
from gpufleet.simulation.refusal import Cause, JsonObject, expired, invalid
from gpufleet.simulation.request_target import Target

BOOKMARK_EVERY_S = 60.0
"""The API server's interval."""

BOOKMARK_BEFORE_END_S = 2.0
"""The API server sends a last bookmark shortly before it ends a watch."""

SHORTEST_DEFAULT_S = 1800.0
"""The API server ends a watch without a timeout after this long to twice this long."""

INITIAL_EVENTS_END = "k8s.io/initial-events-end"


class Watching(msgspec.Struct, frozen=True):
    """What a watch asked for."""

    kind: ObjectKind
    target: Target
    after: int | None
    """None: all objects as they are now, first."""
    bookmarks: bool
    initial_end: bool
    timeout_s: float
    predicate: Predicate | None


def read_watch(server: ApiServer, target: Target) -> Watching:
    """The checked watch. Raises Refusal."""
    kind = server.kind_at(target)
    initial = target.options.get("sendInitialEvents")
    if initial is not None and target.options.get("resourceVersionMatch") != "NotOlderThan":
        words = "Forbidden: sendInitialEvents requires setting resourceVersionMatch to NotOlderThan"
        cause = Cause("FieldValueForbidden", "resourceVersionMatch", words)
        raise invalid("meta.k8s.io", "ListOptions", "", cause)
    asked = target.number("resourceVersion")
    timeout_s = target.number("timeoutSeconds")
    return Watching(
        kind,
        target,
        None if asked in {None, 0} or initial == "true" else asked,
        target.options.get("allowWatchBookmarks") in {"true", "1"},
        initial == "true",
        SHORTEST_DEFAULT_S * (1 + server.random.random()) if not timeout_s else float(timeout_s),
        predicate_of(kind, target),
    )


async def stream(server: ApiServer, watching: Watching, seen: Callable[[], int]) -> AsyncIterator[bytes]:
    """The lines of a watch until it times out. ``seen``: the last revision this server knows of."""
    store = server.store
    ends_at_s = server.clock.monotonic_s() + watching.timeout_s
    if watching.after is not None and watching.after < store.compacted:
        words = f"too old resource version: {watching.after} ({store.compacted})"
        yield line("ERROR", expired(words).status())
        return
    cursor = watching.after
    if cursor is None:
        cursor = seen()
        for name, value in store.at_revision(watching.kind.key, cursor):
            if _in_scope(name[0], watching) and (watching.predicate is None or watching.predicate(value)):
                yield line("ADDED", as_version(value, watching.target, watching.kind))
        if watching.initial_end:
            yield bookmark(watching, cursor, {INITIAL_EVENTS_END: "true"})
    bookmark_at_s = _next_bookmark_s(server.clock.monotonic_s(), ends_at_s, watching)
    while True:
        # A server that lags knows of less than a client that read elsewhere: the stream never goes back.
        until = max(seen(), cursor)
        for written in store.since(watching.kind.key, cursor, until):
            if text := event(written, watching):
                yield text
        cursor = until
        now_s = server.clock.monotonic_s()
        if now_s >= ends_at_s or not server.serves(watching.kind):
            return
        if now_s >= bookmark_at_s:
            yield bookmark(watching, cursor, {})
            bookmark_at_s = _next_bookmark_s(now_s, ends_at_s, watching)
        wait_s = min(bookmark_at_s, ends_at_s) - now_s
        await asyncio.wait([store.next_write()], timeout=wait_s)


def _next_bookmark_s(now_s: float, ends_at_s: float, watching: Watching) -> float:
    if not watching.bookmarks:
        return ends_at_s + 1
    last_s = ends_at_s - BOOKMARK_BEFORE_END_S
    # After the end means never again.
    return min(now_s + BOOKMARK_EVERY_S, last_s) if now_s < last_s else ends_at_s + 1


def _in_scope(namespace: str, watching: Watching) -> bool:
    return not watching.target.namespace or watching.target.namespace == namespace


def event(written: Written, watching: Watching) -> bytes:
    """A write as this watch sees it: what stops to match was deleted, what begins to was added."""
    if not _in_scope(written.name[0], watching):
        return b""
    if watching.target.name and written.name[1] != watching.target.name:
        return b""
    test = watching.predicate
    was = written.before is not None and (test is None or test(written.before))
    value = written.value
    if value is not None and (test is None or test(value)):
        return line("MODIFIED" if was else "ADDED", as_version(value, watching.target, watching.kind))
    if not was or written.before is None:
        return b""
    # A deleted object, or one that left the selection, is shown as it was, with the revision of now.
    metadata = {**written.before["metadata"], "resourceVersion": str(written.revision)}
    gone = {**written.before, "metadata": metadata}
    return line("DELETED", as_version(gone, watching.target, watching.kind))


def bookmark(watching: Watching, revision: int, annotations: dict[str, str]) -> bytes:
    """An event without a change: how far this watch has come."""
    target = watching.target
    metadata: JsonObject = {"resourceVersion": str(revision)}
    if annotations:
        metadata["annotations"] = annotations
    value: JsonObject = {
        "kind": watching.kind.kind,
        "apiVersion": f"{target.group}/{target.version}" if target.group else target.version,
        "metadata": metadata,
    }
    if watching.kind.key == ("", "pods"):
        # The real server sends the empty object of the Go type.
        value |= {"spec": {"containers": None}, "status": {}}
    return line("BOOKMARK", value)


def line(kind: str, value: JsonObject) -> bytes:
    """One event on the wire."""
    return b'{"type":"' + kind.encode() + b'","object":' + encode(value) + b"}\n"
