"""The stream of a browser: all at first, then what changed, and never more than was taken."""

import asyncio
import json
from collections.abc import AsyncGenerator
from typing import Any

import pytest

from gpufleet.web import streaming
from gpufleet.web.documents import VIEWS, Refusal, Source, SourceState
from gpufleet.web.rights import ALL
from gpufleet.web.streaming import EndedError, SentRows, events, sent_before
from gpufleet.web.versioned_rows import VersionedRows
from tests.web.set_clock import SetClock

LIVE = Source(SourceState.LIVE)
NOTHING = SentRows()


class Rows:
    """The part of ``ViewRows`` that a stream reads."""

    def __init__(self) -> None:
        self.rights = ALL
        self.name = "rows"
        self.version = 1
        self.views = {view: VersionedRows() for view in VIEWS}
        self.unread = dict.fromkeys(VIEWS, "")
        self.unread_at = dict.fromkeys(VIEWS, 0)
        self.watchers: set[asyncio.Event] = set()

    def put(self, key: str, row: bytes) -> None:
        """Set a row of a node."""
        self.version += 1
        self.views["nodes"].put(key, row, self.version)
        for one in self.watchers:
            one.set()


class Person:
    """A person whose rows these are, until they are refused."""

    def __init__(self, rows: Rows) -> None:
        self.rows = rows
        self.refusal: Refusal | None = None

    async def view_rows(self) -> Any:
        """The rows."""
        if self.refusal is not None:
            raise EndedError(self.refusal)
        return self.rows


def read(event: bytes) -> tuple[str, Any, str]:
    fields = dict(line.split(": ", 1) for line in event.decode().strip().split("\n"))
    return fields["event"], json.loads(fields["data"]), fields.get("id", "")


def stream(person: Person, told: SentRows = NOTHING) -> AsyncGenerator[bytes, None]:
    return events(person, lambda: LIVE, SetClock(), told)


async def upto(generator: AsyncGenerator[bytes, None], count: int) -> list[tuple[str, Any, str]]:
    return [read(await anext(generator)) for _ in range(count)]


def test_a_new_browser_is_told_the_source_and_every_view_and_then_what_changes() -> None:
    async def story() -> None:
        rows = Rows()
        rows.put("a", b'{"key":"a"}')
        generator = stream(Person(rows))
        first = await upto(generator, 6)
        assert [one[0] for one in first] == ["source", *["view"] * 5]
        assert [one[2] for one in first] == [*[""] * 5, "rows.2"]
        following = asyncio.ensure_future(upto(generator, 1))
        await asyncio.sleep(0)
        rows.put("b", b'{"key":"b"}')
        assert await following == [
            ("rows", {"view": "nodes", "changed": [{"key": "b"}], "removed": []}, "rows.3")
        ]
        await generator.aclose()
        assert not rows.watchers

    asyncio.run(story())


def test_a_browser_that_comes_back_is_told_what_it_missed_and_one_of_another_board_all() -> None:
    async def story() -> None:
        rows = Rows()
        rows.put("a", b'{"key":"a"}')
        rows.put("b", b'{"key":"b"}')
        known = await upto(stream(Person(rows), sent_before("rows.2")), 2)
        assert [one[0] for one in known] == ["source", "rows"]
        assert known[1][1]["changed"] == [{"key": "b"}]
        other = await upto(stream(Person(rows), sent_before("another.2")), 6)
        assert [one[0] for one in other] == ["source", *["view"] * 5]

    asyncio.run(story())


def test_a_slow_browser_gets_the_newest_of_each_row_and_not_each_change() -> None:
    async def story() -> None:
        rows = Rows()
        generator = stream(Person(rows))
        await upto(generator, 6)
        for number in range(10_000):
            rows.put("a", b'{"key":"a","n":%d}' % number)
        assert (await upto(generator, 1))[0][1]["changed"] == [{"key": "a", "n": 9999}]

    asyncio.run(story())


def test_a_large_view_comes_in_parts_of_which_the_last_says_so() -> None:
    async def story() -> None:
        rows = Rows()
        for number in range(streaming.ROWS_AT_ONCE * 2 + 1):
            rows.put(str(number), b'{"key":"%d"}' % number)
        told = await upto(stream(Person(rows)), 5)
        parts = [data for name, data, _ in told if data.get("view") == "nodes"]
        assert [one.get("more", False) for one in parts] == [True, True, False]
        keys = {row["key"] for one in parts for row in one.get("rows", one.get("changed"))}
        assert len(keys) == streaming.ROWS_AT_ONCE * 2 + 1

    asyncio.run(story())


def test_a_heartbeat_comes_where_nothing_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streaming, "HEARTBEAT_S", 0.0)

    async def story() -> None:
        told = await upto(stream(Person(Rows())), 7)
        assert told[-1][0] == "heartbeat"

    asyncio.run(story())


def test_who_may_see_nothing_any_more_is_told_so_and_the_stream_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streaming, "HEARTBEAT_S", 0.0)
    monkeypatch.setattr(streaming, "FIRST_REVIEW_S", 0.0)

    async def story() -> None:
        person = Person(Rows())
        generator = stream(person)
        await upto(generator, 7)
        person.refusal = Refusal("your login is over", login=True)
        assert [read(one) async for one in generator][-1][:2] == (
            "end",
            {"problem": "your login is over", "login": True},
        )

    asyncio.run(story())


@pytest.mark.parametrize("text", ["", "x", "rows.", ".", "rows.-1", "rows.9" + "9" * 30, "rows.²"])
def test_an_id_that_no_server_gave_is_no_id(text: str) -> None:
    assert sent_before(text) == SentRows()
