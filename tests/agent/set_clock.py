"""The clock of a test that sets the time itself."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Protocol

BEGAN_AT = datetime(2026, 1, 1, tzinfo=UTC)


class Timed(Protocol):
    """What has a time that a test sets."""

    now_s: float


class Moment:
    """A time without anything else."""

    def __init__(self, now_s: float = 0.0) -> None:
        self.now_s = now_s


class SetClock:
    """Shows the time of its owner. Sleeping moves that time on, and waits for nothing real.

    ``meanwhile`` happens in each sleep.
    """

    def __init__(self, owner: Timed, meanwhile: Callable[[], None] = lambda: None) -> None:
        self.owner = owner
        self.meanwhile = meanwhile

    def monotonic_s(self) -> float:
        """As Clock."""
        return self.owner.now_s

    def now(self) -> datetime:
        """As Clock."""
        return BEGAN_AT + timedelta(seconds=self.owner.now_s)

    async def sleep(self, duration_s: float) -> None:
        """As Clock."""
        self.owner.now_s += duration_s
        self.meanwhile()
