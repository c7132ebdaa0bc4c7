"""What a watch tells becomes observations, and only what was followed without a gap is called followed."""

import asyncio
import contextlib
import random

from gpufleet.kube import resources
from gpufleet.kube.client import Client
from gpufleet.kube.clock import MachineClock
from gpufleet.ledger.following import Follower
from gpufleet.ledger.versions import Followed, Gone, Listed, NodeVersion, ObjectKind, Observation
from tests.kube.scripted_transport import (
    Answer,
    ScriptedStream,
    ScriptedTransport,
    bookmark,
    event,
    item,
    page,
    refusal,
    status,
)
from tests.kube.virtual_time import run_virtually

MARK_S = 1.0
FOR_EVER_S = 1e9
START_US = 1_795_867_200_000_000
"""When the world of a test begins."""


def followed(*script: Answer, lasts_s: float = 60.0) -> list[Observation]:
    """What is observed of nodes in so long a time, with a mark each second."""
    seen: list[Observation] = []

    async def main() -> None:
        loop = asyncio.get_running_loop()
        begin_s = loop.time()
        client = Client(ScriptedTransport(*script), MachineClock(), random.Random(1))
        follower = Follower(
            client,
            resources.NODES,
            seen.append,
            lambda: START_US + int((loop.time() - begin_s) * 1_000_000),
        )

        async def marks() -> None:
            while True:
                await asyncio.sleep(MARK_S)
                follower.mark()

        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(lasts_s), asyncio.TaskGroup() as group:
                group.create_task(follower.mirror.run())
                group.create_task(marks())

    run_virtually(main())
    return seen


def seconds(at_us: int) -> float:
    return (at_us - START_US) / 1_000_000


def followed_times(seen: list[Observation]) -> list[tuple[float, float]]:
    """The longest time from each begin, in seconds since the start."""
    longest = {one.from_us: one.until_us for one in seen if isinstance(one, Followed)}
    return [(round(seconds(begin)), round(seconds(end))) for begin, end in sorted(longest.items())]


def test_each_version_and_deletion_is_observed_and_the_time_to_the_last_word_is_followed() -> None:
    stream = ScriptedStream(
        event("MODIFIED", item("a", 11)), 20, event("DELETED", item("a", 12)), 20, bookmark(20), FOR_EVER_S
    )
    seen = followed(page([item("a", 10)], 10), stream)
    assert [one.number for one in seen if isinstance(one, NodeVersion)] == [10, 11]
    (gone,) = [one for one in seen if isinstance(one, Gone)]
    assert (gone.kind, gone.uid, round(seconds(gone.at_us))) == (ObjectKind.NODE, "uid-a", 20)
    (listed,) = [one for one in seen if isinstance(one, Listed)]
    assert listed.uids == {"uid-a"}
    # From the first mark behind the list to the bookmark, the last that the server said.
    assert followed_times(seen) == [(1, 40)]


def test_a_watch_that_cannot_go_on_ends_what_is_followed_and_tells_of_no_deletion() -> None:
    """What the second list lacks went at a time that nothing tells: only the list says so."""
    expired = event("ERROR", status(410, "Expired"))
    seen = followed(
        page([item("a", 10), item("b", 9)], 10),
        ScriptedStream(10, bookmark(20), 10, expired),
        refusal(503, "ServiceUnavailable"),
        page([item("b", 9)], 50),
        ScriptedStream(FOR_EVER_S),
        lasts_s=50.0,
    )
    assert not [one for one in seen if isinstance(one, Gone)]
    lists = [one.uids for one in seen if isinstance(one, Listed)]
    assert lists == [{"uid-a", "uid-b"}, {"uid-b"}]
    assert followed_times(seen)[0] == (1, 20)


def test_while_an_object_cannot_be_read_nothing_more_is_followed() -> None:
    broken = item("a", 11, spec={"taints": 7})
    stream = ScriptedStream(10, bookmark(10), 5, event("MODIFIED", broken), 30, bookmark(30), FOR_EVER_S)
    seen = followed(page([item("a", 10)], 10), stream)
    assert followed_times(seen)[0][1] <= 15
