"""What a mirror tells, and what it does when the server fails it."""

import asyncio
import contextlib
import random
from typing import Any

import msgspec

from gpufleet.kube.client import Client
from gpufleet.kube.clock import MachineClock
from gpufleet.kube.mirror import Mirror, Pace
from gpufleet.kube.mirror_changes import (
    Appeared,
    Change,
    Changed,
    Listed,
    Unreadable,
    UnreadableGone,
    Vanished,
)
from gpufleet.kube.resources import PLUGINS_POD_GROUPS, PODS
from gpufleet.kube.watch_stream import ADDED, DELETED, ERROR, MODIFIED
from tests.kube.scripted_transport import (
    BROKEN,
    UNREACHABLE,
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

FOR_EVER_S = 1e9


class Meta(msgspec.Struct, frozen=True, rename="camel"):
    """Metadata as every kind has it."""

    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""


class Thing(msgspec.Struct, frozen=True):
    """A kind with one field."""

    metadata: Meta
    size: int = 0


DECODER = msgspec.json.Decoder(Thing)


class Follower:
    """A mirror over a script, and what it told."""

    def __init__(self, *script: Answer, **settings: Any) -> None:
        self.transport = ScriptedTransport(*script)
        self.told: list[Change[Thing]] = []
        self.client = Client(self.transport, MachineClock(), random.Random(1))
        kind = settings.pop("kind", PODS)
        self.mirror = Mirror(self.client, kind, DECODER, self.told.append, **settings)

    def follow(self, lasts_s: float = 30.0) -> list[str]:
        """Run for so long in virtual time; what was told, in short."""

        async def main() -> None:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(lasts_s):
                    await self.mirror.run()
            self.health = self.mirror.health()

        run_virtually(main())
        return [short(change) for change in self.told]

    def targets(self) -> list[str]:
        """Paths and queries in the order in which they were asked."""
        return [request.target for request in self.transport.asked]


def short(change: Change[Thing]) -> str:
    match change:
        case Appeared(thing):
            return f"+{thing.metadata.name}@{thing.metadata.resource_version}"
        case Changed(before, after):
            versions = f"{before.metadata.resource_version}>{after.metadata.resource_version}"
            return f"{after.metadata.name}@{versions}"
        case Vanished(last):
            return f"-{last.metadata.name}@{last.metadata.resource_version}"
        case Listed():
            return "listed"
        case Unreadable():
            return f"?{change.name}"
        case UnreadableGone():
            return f"-?{change.name}"


def open_watch(*chunks: bytes | Exception | float) -> ScriptedStream:
    """A watch that says this and then stays open."""
    return ScriptedStream(*chunks, FOR_EVER_S)


def test_list_then_watch_from_its_version() -> None:
    watch = open_watch(event(MODIFIED, item("a", 11)), event(ADDED, item("c", 12)))
    follower = Follower(page([item("a", 5), item("b", 7)], 10), watch)
    assert follower.follow() == ["+a@5", "+b@7", "listed", "a@5>11", "+c@12"]
    assert "resourceVersion=10&allowWatchBookmarks=true" in follower.targets()[1]
    assert sorted(name for _, name in follower.mirror.objects) == ["a", "b", "c"]


def test_pages_are_one_list() -> None:
    follower = Follower(page([item("a", 5)], 10, more="next"), page([item("b", 6)], 10), open_watch())
    assert follower.follow() == ["+a@5", "+b@6", "listed"]
    assert "continue=next" in follower.targets()[1]


def test_half_list_changes_nothing() -> None:
    follower = Follower(
        page([item("a", 5), item("b", 6)], 10),
        open_watch(event(ERROR, status(410, "Expired"))),
        page([item("a", 5)], 20, more="next"),
        refusal(410, "Expired"),
        page([item("a", 5)], 21, more="next"),
        page([item("b", 6)], 21),
        open_watch(),
    )
    assert follower.follow() == ["+a@5", "+b@6", "listed"]


def test_gone_as_answer_and_as_event_lists_again_and_finds_what_was_missed() -> None:
    for gone in (refusal(410, "Expired"), open_watch(event(ERROR, status(410, "Gone")))):
        follower = Follower(
            page([item("a", 5), item("b", 6)], 10), gone, page([item("a", 12)], 20), open_watch()
        )
        assert follower.follow() == ["+a@5", "+b@6", "listed", "-b@6", "a@5>12"]


def test_cut_connection_resumes_after_the_last_whole_event() -> None:
    line = event(ADDED, item("b", 12))
    follower = Follower(
        page([], 10),
        ScriptedStream(event(ADDED, item("a", 11)), line[:-7], BROKEN),
        UNREACHABLE,
        open_watch(line),
    )
    assert follower.follow() == ["listed", "+a@11", "+b@12"]
    assert ["resourceVersion=11" in target for target in follower.targets()] == [False, False, True, True]


def test_bookmarks_move_the_position() -> None:
    follower = Follower(page([], 10), ScriptedStream(bookmark(50), BROKEN), open_watch())
    follower.follow()
    assert "resourceVersion=50" in follower.targets()[2]


def test_repetitions_and_steps_back_in_time_are_ignored() -> None:
    story = [event(ADDED, item("a", 11)), event(MODIFIED, item("a", 13)), event(DELETED, item("a", 14))]
    follower = Follower(page([], 10), open_watch(*story, *story, event(ADDED, item("b", 15))))
    assert follower.follow() == ["listed", "+a@11", "a@11>13", "-a@13", "+b@15"]


def test_new_uid_under_one_name_is_another_object() -> None:
    seen = Follower(page([item("a", 5)], 10), open_watch(event(MODIFIED, item("a", 12, uid="new"))))
    assert seen.follow() == ["+a@5", "listed", "-a@5", "+a@12"]
    missed = Follower(
        page([item("a", 5)], 10), refusal(410), page([item("a", 12, uid="new")], 20), open_watch()
    )
    assert missed.follow() == ["+a@5", "listed", "-a@5", "+a@12"]


def test_deletion_of_another_uid_is_settled_by_a_list() -> None:
    follower = Follower(
        page([item("a", 5)], 10),
        open_watch(event(DELETED, item("a", 12, uid="other"))),
        page([item("a", 5)], 20),
        open_watch(),
    )
    assert follower.follow() == ["+a@5", "listed"]
    assert follower.health.lists == 2


def test_a_watch_that_drips_beyond_its_time_is_left_and_resumed() -> None:
    # Every 30 seconds a sign of life, and never a line's end nor that of the watch.
    drips = [part for _ in range(1000) for part in (b" ", 30.0)]
    follower = Follower(
        page([item("a", 5)], 10),
        ScriptedStream(*drips, FOR_EVER_S),
        open_watch(event(MODIFIED, item("a", 11))),
        pace=Pace(watch_s=100, silence_limit_s=90.0),
    )
    assert follower.follow(lasts_s=600.0) == ["+a@5", "listed", "a@5>11"]


def test_silent_watch_is_noticed_and_resumed() -> None:
    follower = Follower(
        page([], 10),
        open_watch(event(ADDED, item("a", 11)), 60.0, bookmark(20)),
        open_watch(event(ADDED, item("b", 21))),
        pace=Pace(silence_limit_s=90.0),
    )
    assert follower.follow(155.0) == ["listed", "+a@11", "+b@21"]
    opened_s = follower.transport.asked_at_s
    assert 90.0 <= opened_s[2] - opened_s[1] - 60.0 <= 91.0


def test_health_tells_what_is_wrong_and_for_how_long() -> None:
    follower = Follower(page([], 10), ScriptedStream(bookmark(11), BROKEN), *[UNREACHABLE] * 20)
    follower.follow(60.0)
    health = follower.health
    assert not health.following
    assert health.problem == "nobody listens"


def test_unreadable_object_harms_no_other() -> None:
    bad = item("bad", 6, size="huge")
    follower = Follower(
        page([item("a", 5), bad, item("c", 7)], 10),
        open_watch(
            event(MODIFIED, item("bad", 11, size=3)),
            event(MODIFIED, item("c", 12, size=[])),
            event(DELETED, item("c", 13, size=[])),
        ),
    )
    assert follower.follow() == ["+a@5", "?bad", "+c@7", "listed", "+bad@11", "?c", "-?c", "-c@7"]
    problem = follower.told[1]
    assert isinstance(problem, Unreadable)
    assert "$.size" in problem.problem


def test_unreadable_version_leaves_the_last_readable_one() -> None:
    follower = Follower(
        page([item("a", 5, size=1)], 10), open_watch(event(MODIFIED, item("a", 11, size="x")))
    )
    assert follower.follow() == ["+a@5", "listed", "?a"]
    kept = follower.mirror.get("a", "default")
    assert kept is not None
    assert kept.size == 1


def test_unreadable_object_that_is_gone_is_told() -> None:
    bad = item("bad", 6, size="huge")
    follower = Follower(page([bad], 10), refusal(410), page([item("bad", 12, uid="new")], 20), open_watch())
    assert follower.follow() == ["?bad", "listed", "-?bad", "+bad@12"]


def test_kind_that_is_not_installed_is_an_empty_list() -> None:
    follower = Follower(
        refusal(404, "NotFound"),
        page([item("a", 5)], 10),
        open_watch(),
        kind=PLUGINS_POD_GROUPS,
        optional=True,
    )
    assert follower.follow() == ["listed", "+a@5"]


def test_older_list_is_refused_until_the_server_was_plainly_restored() -> None:
    lagging = [page([item("a", 3)], 8) for _ in range(40)]
    follower = Follower(page([item("a", 5), item("b", 6)], 10), refusal(410), *lagging)
    assert follower.follow(50.0) == ["+a@5", "+b@6", "listed"]
    follower = Follower(page([item("a", 5), item("b", 6)], 10), refusal(410), *lagging)
    follower.follow(200.0)
    assert [short(change) for change in follower.told[3:]] == ["-b@6", "a@5>3"]


def test_server_that_ends_every_watch_is_not_asked_in_a_tight_loop() -> None:
    follower = Follower(page([], 10), *[ScriptedStream() for _ in range(1000)])
    follower.follow(60.0)
    assert len(follower.transport.asked) < 20


def test_version_that_a_lagging_server_does_not_know_yet_leads_to_a_list() -> None:
    too_large = refusal(504, "Timeout", "Too large resource version")
    follower = Follower(
        page([], 10), too_large, too_large, too_large, page([item("a", 12)], 20), open_watch()
    )
    assert follower.follow() == ["listed", "+a@12"]
