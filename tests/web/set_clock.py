"""A clock that a test sets."""

import asyncio
import datetime as dt


class SetClock:
    """Time stands still until it is moved."""

    def __init__(self) -> None:
        self.at_s = 0.0

    def advance(self, seconds: float) -> None:
        """Let time go on."""
        self.at_s += seconds

    def monotonic_s(self) -> float:
        """The time."""
        return self.at_s

    def now(self) -> dt.datetime:
        """The time as a date."""
        return dt.datetime(2026, 3, 1, 12, tzinfo=dt.UTC) + dt.timedelta(seconds=self.at_s)

    async def sleep(self, duration_s: float) -> None:
        """Go on at once."""
        self.at_s += duration_s
        await asyncio.sleep(0)
