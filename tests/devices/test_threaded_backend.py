"""A library that hangs stops neither the agent nor the calls about other GPUs."""

import asyncio
import threading
from collections.abc import Awaitable, Callable, Iterator

import pytest

from gpufleet.devices.device_errors import DriverError, NoAnswerError
from gpufleet.devices.threaded_backend import CallThread

SOON_S = 0.05
LONG_S = 20.0


@pytest.fixture
def gate() -> Iterator[threading.Event]:
    """What a hanging call waits for; opened at the end, so that no thread stays behind."""
    gate = threading.Event()
    yield gate
    gate.set()


def told(story: Callable[[CallThread], Awaitable[None]]) -> None:
    async def run() -> None:
        lane = CallThread("test")
        try:
            await story(lane)
        finally:
            lane.close()

    asyncio.run(run())


def test_an_answer_is_handed_on() -> None:
    async def story(lane: CallThread) -> None:
        assert await lane.ask("a sum", lambda: 1 + 1, LONG_S) == 2

    told(story)


def test_an_error_of_the_library_is_raised_where_it_was_asked() -> None:
    def fails() -> None:
        raise DriverError("no driver")

    async def story(lane: CallThread) -> None:
        with pytest.raises(DriverError, match="no driver"):
            await lane.ask("opening", fails, LONG_S)
        assert await lane.ask("a sum", lambda: 2, LONG_S) == 2

    told(story)


def test_a_call_that_hangs_fails_in_time_and_nothing_is_put_behind_it(gate: threading.Event) -> None:
    async def story(lane: CallThread) -> None:
        with pytest.raises(NoAnswerError, match=r"no answer to a sample for 0\.05 s"):
            await lane.ask("a sample", gate.wait, SOON_S)
        assert lane.stuck == "a sample"
        calls: list[int] = []
        with pytest.raises(NoAnswerError, match="a sample has not come back yet"):
            await lane.ask("another", lambda: calls.append(1), LONG_S)
        assert calls == []

    told(story)


def test_a_lane_is_used_again_when_its_call_came_back(gate: threading.Event) -> None:
    async def story(lane: CallThread) -> None:
        with pytest.raises(NoAnswerError):
            await lane.ask("a sample", gate.wait, SOON_S)
        gate.set()
        while lane.stuck:  # noqa: ASYNC110  what it waits for is the lane's own word
            await asyncio.sleep(0.01)
        assert await lane.ask("a sum", lambda: 3, LONG_S) == 3

    told(story)


def test_a_lane_that_was_closed_is_opened_by_the_next_call() -> None:
    async def story(lane: CallThread) -> None:
        assert await lane.ask("a sum", lambda: 1, LONG_S) == 1
        lane.close()
        assert await lane.ask("a sum", lambda: 2, LONG_S) == 2

    told(story)


def test_other_lanes_go_on(gate: threading.Event) -> None:
    async def story(lane: CallThread) -> None:
        other = CallThread("other")
        hanging = asyncio.create_task(lane.ask("a sample", gate.wait, LONG_S))
        assert await other.ask("a sum", lambda: 4, LONG_S) == 4
        other.close()
        gate.set()
        assert await hanging is True

    told(story)


def test_who_gives_up_does_not_disturb_the_next(gate: threading.Event) -> None:
    async def story(lane: CallThread) -> None:
        asked = asyncio.create_task(lane.ask("a sample", gate.wait, LONG_S))
        await asyncio.sleep(0)
        asked.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asked
        gate.set()
        assert await lane.ask("a sum", lambda: 5, LONG_S) == 5

    told(story)
