"""Lines and events, wherever the chunks are cut."""

import asyncio
import random

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpufleet.kube.client import Client
from gpufleet.kube.clock import MachineClock
from gpufleet.kube.mirror import Mirror
from gpufleet.kube.mirror_changes import Change
from gpufleet.kube.resources import PODS
from gpufleet.kube.watch_stream import LineSplitter, WatchBroken, decode_event
from tests.kube.scripted_transport import BROKEN, ScriptedStream, ScriptedTransport, event, item, page
from tests.kube.test_mirror import DECODER, FOR_EVER_S, Thing, short
from tests.kube.virtual_time import run_virtually

STORY = [
    event("ADDED", item("a", 11)),
    event("MODIFIED", item("a", 12)),
    event("ADDED", item("\u00e4\u20ac\U0001f600", 13)),
    event("DELETED", item("a", 14)),
]
RECORDED = b"".join(STORY)


def lines_of(*chunks: bytes) -> list[bytes]:
    splitter = LineSplitter()
    return [line for chunk in chunks for line in splitter.feed(chunk)]


@given(st.lists(st.binary(max_size=20), max_size=20))
def test_lines_do_not_depend_on_the_cuts(chunks: list[bytes]) -> None:
    whole = b"".join(chunks)
    complete = whole[: whole.rfind(b"\n") + 1]
    assert lines_of(*chunks) == [line for line in complete.split(b"\n") if line not in {b"", b"\r"}]


def test_endless_line_is_refused() -> None:
    splitter = LineSplitter(longest_bytes=100)
    assert splitter.feed(b"x" * 90 + b"\n" + b"y" * 90) == [b"x" * 90]
    with pytest.raises(WatchBroken):
        splitter.feed(b"y" * 90)


@pytest.mark.parametrize(
    "line", [b"", b"{", b"[]", b"null", b'{"type": 1, "object": {}}', b'{"type": "ADDED"}']
)
def test_line_that_is_no_event_is_refused(line: bytes) -> None:
    with pytest.raises(WatchBroken):
        decode_event(line)


def follow(stream: ScriptedStream, rest: bytes) -> tuple[list[str], str]:
    """What a mirror tells that hears the stream, then the rest; and from where it asked for that."""
    told: list[Change[Thing]] = []
    transport = ScriptedTransport(page([], 10), stream, ScriptedStream(rest, FOR_EVER_S))

    async def main() -> None:
        client = Client(transport, MachineClock(), random.Random(1))
        task = asyncio.create_task(Mirror(client, PODS, DECODER, told.append).run())
        await asyncio.sleep(30.0)
        task.cancel()
        await asyncio.wait({task})

    run_virtually(main())
    return [short(change) for change in told], transport.asked[2].target


def test_connection_cut_at_every_byte_loses_and_repeats_nothing() -> None:
    whole = ["listed", "+a@11", "a@11>12", "+\u00e4\u20ac\U0001f600@13", "-a@12"]
    for at in range(len(RECORDED)):
        heard = RECORDED[:at].count(b"\n")
        told, asked = follow(ScriptedStream(RECORDED[:at], BROKEN), b"".join(STORY[heard:]))
        assert told == whole
        assert f"resourceVersion={10 + heard}&" in asked


def test_event_object_stays_bytes() -> None:
    found = decode_event(b'{"type":"ADDED","object":{"a": [1, 2]}}')
    assert isinstance(found.object, msgspec.Raw)
    assert bytes(found.object) == b'{"a": [1, 2]}'
