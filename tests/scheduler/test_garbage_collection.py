"""The collector walks what is new, and everything once an hour."""

import gc
from collections.abc import Iterator

import pytest

from gpufleet.scheduler.garbage_collection import WHOLE_WALK_EVERY_S, GarbageCollectorTuning


class Clock:
    """Seconds that a test moves."""

    now_s = 0.0

    def __call__(self) -> float:
        """The time."""
        return self.now_s


class Ring:
    """An object that only the collector can free."""

    freed = 0

    def __init__(self) -> None:
        self.me = self

    def __del__(self) -> None:
        Ring.freed += 1


@pytest.fixture
def clock() -> Iterator[Clock]:
    clock = Clock()
    garbage = GarbageCollectorTuning(clock)
    Ring.freed = 0
    garbage.watch()
    yield clock
    garbage.leave()
    gc.collect()


@pytest.mark.usefixtures("clock")
def test_what_survives_a_full_collection_is_set_apart() -> None:
    apart = gc.get_freeze_count()
    kept = [Ring() for _ in range(1000)]
    gc.collect()
    assert gc.get_freeze_count() >= apart + 1000
    kept.clear()
    gc.collect()
    assert Ring.freed == 0


@pytest.mark.usefixtures("clock")
def test_garbage_that_is_new_is_found() -> None:
    Ring()
    gc.collect()
    assert Ring.freed == 1


def test_garbage_among_what_was_set_apart_is_found_within_the_hour(clock: Clock) -> None:
    kept = [Ring()]
    gc.collect()
    kept.clear()
    clock.now_s = WHOLE_WALK_EVERY_S
    gc.collect()
    assert Ring.freed == 1
