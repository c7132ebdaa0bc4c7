"""A large gang starts in bounded time under any stream of small work."""

import heapq
from typing import NamedTuple

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from gpufleet.engine.instruction import AnyInstruction, Evict
from gpufleet.engine.learn.run_times import RUNS_LEAST
from tests.engine.effort import EFFORT
from tests.engine.fleet_builder import SECOND_US, Story, gang, members, node, placed, pod, shape
from tests.engine.reserve.holders import guest, holders, running, team

NODES = 3
GPUS = 2


GRACE_S = 2
"""How long an evicted pod still runs."""


class Small(NamedTuple):
    """A pod of one GPU that really runs for so long, and says so or not, or that it may be interrupted.

    ``says_s``: it says that it runs for so long, whether or not that is true.
    """

    runs_s: int
    says_so: bool
    interruptible: bool
    says_s: int | None = None


small = st.builds(Small, st.integers(1, 40), st.booleans(), st.just(False), st.none())
liar = st.builds(Small, st.integers(1, 400), st.just(False), st.just(False), st.integers(1, 40))
visitor = st.builds(Small, st.integers(1, 400), st.just(False), st.just(True), st.none())


@settings(max_examples=25 * EFFORT)
@given(
    first=st.lists(small, min_size=NODES * GPUS, max_size=NODES * GPUS),
    stream=st.lists(st.lists(small, max_size=4), min_size=80, max_size=80),
    size=st.integers(2, NODES * GPUS),
)
def test_it_starts_when_the_work_that_ran_at_its_reservation_has_ended(
    first: list[Small], stream: list[list[Small]], size: int
) -> None:
    latest_s = max(one.runs_s for one in first)
    assert_started_by(latest_s, first, stream, size)


@settings(max_examples=25 * EFFORT)
@given(
    first=st.lists(small, min_size=NODES * GPUS, max_size=NODES * GPUS),
    stream=st.lists(st.lists(small | visitor, max_size=4), min_size=80, max_size=80),
    size=st.integers(2, NODES * GPUS),
)
def test_guests_delay_it_by_no_more_than_their_eviction_takes(
    first: list[Small], stream: list[list[Small]], size: int
) -> None:
    latest_s = max(one.runs_s for one in first) + GRACE_S
    assert_started_by(latest_s, first, stream, size)


@settings(max_examples=25 * EFFORT)
@given(
    first=st.lists(small, min_size=NODES * GPUS, max_size=NODES * GPUS),
    stream=st.lists(st.lists(small, max_size=4), min_size=80, max_size=80),
    size=st.integers(2, NODES * GPUS),
)
def test_neither_does_work_that_runs_longer_than_was_learned(
    first: list[Small], stream: list[list[Small]], size: int
) -> None:
    latest_s = max(one.runs_s for one in first) + GRACE_S
    assert_started_by(latest_s, first, stream, size, learned_s=1)


@settings(max_examples=25 * EFFORT)
@given(
    first=st.lists(small, min_size=NODES * GPUS, max_size=NODES * GPUS),
    stream=st.lists(st.lists(small | liar | visitor, max_size=4), min_size=80, max_size=80),
    size=st.integers(2, NODES * GPUS),
)
def test_nor_does_work_that_stays_longer_than_it_said(
    first: list[Small], stream: list[list[Small]], size: int
) -> None:
    latest_s = max(one.runs_s for one in first) + GRACE_S
    assert_started_by(latest_s, first, stream, size)


def assert_started_by(
    latest_s: int, first: list[Small], stream: list[list[Small]], size: int, learned_s: int | None = None
) -> None:
    """A gang that comes when the fleet is full of the first work starts by then.

    ``learned_s``: for so long work like that which comes later ran before.
    """
    story = Story()
    story.queues(msgspec.structs.replace(team(), learn_run_times=learned_s is not None))
    for _ in range(RUNS_LEAST):
        ended_us = (learned_s or 0) * SECOND_US
        known = pod("small-0-0", shape(1), queue="team")
        story.engine.state.learned.ended(known.queue, known, ended_us, ended_by_us=False)
    story.nodes(*(node(f"n{number}", GPUS) for number in range(NODES)))
    runs_s: dict[str, int] = {}
    ends: list[tuple[int, str]] = []

    def arrive(name: str, one: Small, second: int) -> None:
        runs_s[name] = one.runs_s
        meant = pod(name, shape(1), queue="team")
        if one.says_so:
            meant = running(name, shape(1), for_s=one.runs_s)
        if one.says_s is not None:
            meant = running(name, shape(1), for_s=one.says_s)
        if one.interruptible:
            meant = guest(name, shape(1))
        start(story.arrive(meant), second)

    def start(said: list[AnyInstruction], second: int) -> None:
        for uid in placed(said):
            if uid in runs_s:
                heapq.heappush(ends, (second + runs_s[uid], uid))
        for one in said:
            if isinstance(one, Evict):
                heapq.heappush(ends, (second + GRACE_S, one.uid))

    for number, one in enumerate(first):
        arrive(f"first-{number}", one, 0)
    story.gangs(gang("g", size, queue="team"))
    story.arrive(*members("g", size, shape(1)))
    assert holders(story) == ["g"]
    for second in range(1, latest_s + 1):
        start(story.wait_s(1), second)
        while ends and ends[0][0] <= second:
            uid = heapq.heappop(ends)[1]
            if runs_s.pop(uid, None) is not None:
                start(story.depart(uid), second)
        for number, one in enumerate(stream[second]):
            arrive(f"small-{second}-{number}", one, second)
    assert {f"g-{number}" for number in range(size)} <= set(story.binds)
