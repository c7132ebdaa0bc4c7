"""The stream of one browser: what it was told, and what it is told next.

A stream holds a version and nothing else, and an event is made when the one before was taken. So a browser
that reads slowly, or not at all, costs the server no memory, and gets the newest when it reads on.
"""

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Callable, Iterable, Iterator
from typing import NamedTuple, Protocol

import msgspec

from gpufleet.kube.clock import Clock
from gpufleet.kube.codec.times import whole_time
from gpufleet.web.documents import HEARTBEAT_S, VIEWS, Heartbeat, Refusal, RowsEvent, Source, ViewEvent
from gpufleet.web.view_rows import ViewRows

ROWS_AT_ONCE = 500
"""Rows of one event: some hundred kilobytes, which a browser shows before the rest has come."""

REVIEW_S = 30.0
"""So often it is looked at whether a person may still see what they are shown."""


FIRST_REVIEW_S = 3.0
"""The first time it is looked at sooner."""


class EndedError(Exception):
    """The stream ends: why, and what the person can do."""

    def __init__(self, refusal: Refusal) -> None:
        self.refusal = refusal
        super().__init__(refusal.problem)


class Viewer(Protocol):
    """The person before the browser."""

    async def view_rows(self) -> ViewRows:
        """What they may see now. Raises EndedError where they may see nothing any more."""
        ...


class SentRows(NamedTuple):
    """Up to which version of which rows a browser was told everything."""

    view_rows: str = ""
    version: int = 0

    @property
    def id(self) -> str:
        """As the id of an event, which the browser sends back."""
        return f"{self.view_rows}.{self.version}"


def sent_before(last_event_id: str) -> SentRows:
    """What a browser was told before; nothing where it says nothing that can be read."""
    view_rows, dot, version = last_event_id.partition(".")
    if not dot or not version.isascii() or not version.isdecimal() or len(version) > 18:
        return SentRows()
    return SentRows(view_rows, int(version))


def event(name: str, document: object, id_: str = "") -> bytes:
    """One event as it goes over the wire. JSON has no line ends of its own."""
    body = msgspec.json.encode(document)
    head = f"id: {id_}\nevent: {name}\n" if id_ else f"event: {name}\n"
    return head.encode() + b"data: " + body + b"\n\n"


async def events(
    viewer: Viewer, source: Callable[[], Source], clock: Clock, last_sent: SentRows
) -> AsyncGenerator[bytes, None]:
    """The events of one stream, from what the browser was told before to its end."""
    woken = asyncio.Event()
    last_told: Source | None = None
    try:
        view_rows = await viewer.view_rows()
        # What may be read is known only once it was tried.
        next_review_s = clock.monotonic_s() + FIRST_REVIEW_S
        view_rows.watchers.add(woken)
        try:
            while True:
                # Before the rows are read: what changes while they are sent wakes it again.
                woken.clear()
                now = _source_for(view_rows, source())
                if now != last_told:
                    last_told = now
                    yield event("source", now)
                version = view_rows.version
                for one in news(view_rows, last_sent):
                    yield one
                last_sent = SentRows(view_rows.name, version)
                if not await _woken(woken, HEARTBEAT_S):
                    yield event("heartbeat", Heartbeat(whole_time(clock.now())))
                if clock.monotonic_s() >= next_review_s:
                    newer = await viewer.view_rows()
                    next_review_s = clock.monotonic_s() + REVIEW_S
                    if newer is not view_rows:
                        view_rows.watchers.discard(woken)
                        view_rows = newer
                        view_rows.watchers.add(woken)
        finally:
            view_rows.watchers.discard(woken)
    except EndedError as end:
        yield event("end", end.refusal)


def _source_for(view_rows: ViewRows, source: Source) -> Source:
    """What a person is told of the source: notes may name objects of the whole cluster."""
    return source if view_rows.rights.sees_all else msgspec.structs.replace(source, notes=())


def news(view_rows: ViewRows, last_sent: SentRows) -> Iterator[bytes]:
    """What has changed since, or all where that is not known. The last event carries the id of all."""
    version = view_rows.version
    if last_sent == SentRows(view_rows.name, version):
        return
    last = SentRows(view_rows.name, version).id
    made: list[tuple[str, object]] = []
    for view in VIEWS:
        is_known = last_sent.view_rows == view_rows.name and last_sent.version >= view_rows.unread_at[view]
        since = view_rows.views[view].since(last_sent.version) if is_known else None
        if since is None:
            made += _whole(view, view_rows.views[view].whole(), view_rows.unread[view])
        elif since.changed or since.removed:
            made += _rows(view, list(since.changed.values()), since.removed)
    for number, (name, document) in enumerate(made, start=1):
        yield event(name, document, last if number == len(made) else "")


def _whole(view: str, rows: list[bytes], unread: str) -> Iterator[tuple[str, object]]:
    first, rest = rows[:ROWS_AT_ONCE], rows[ROWS_AT_ONCE:]
    yield "view", ViewEvent(view, _raw(first), unread, more=bool(rest))
    if rest:
        yield from _rows(view, rest, ())


def _rows(view: str, rows: list[bytes], removed: tuple[str, ...]) -> Iterator[tuple[str, object]]:
    parts = [rows[start : start + ROWS_AT_ONCE] for start in range(0, len(rows), ROWS_AT_ONCE)] or [[]]
    for number, part in enumerate(parts, start=1):
        yield "rows", RowsEvent(view, _raw(part), removed if number == 1 else (), more=number < len(parts))


def _raw(rows: Iterable[bytes]) -> tuple[msgspec.Raw, ...]:
    return tuple(msgspec.Raw(row) for row in rows)


async def _woken(woken: asyncio.Event, limit_s: float) -> bool:
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(limit_s):
            await woken.wait()
    return woken.is_set()
