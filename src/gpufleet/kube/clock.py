"""Time as everything at the edge sees it: an argument, never a call to the machine.

All waiting goes through the running asyncio loop (``Clock.sleep``, ``asyncio.timeout``), so a loop
with virtual time runs the very same code in the simulation.
"""

import asyncio
import time
from datetime import UTC, datetime
from typing import Protocol


class Clock(Protocol):
    """The time of one world: the machine's, or a simulation's."""

    def monotonic_s(self) -> float:
        """Seconds that never go back, to measure how long something took; the running loop's time."""
        ...

    def now(self) -> datetime:
        """The wall time in UTC; may jump. Only to be told to people and written into objects."""
        ...

    async def sleep(self, duration_s: float) -> None:
        """Wait so many seconds."""
        ...


class MachineClock:
    """The time of this machine."""

    def monotonic_s(self) -> float:
        """The running loop's time, in seconds; in a thread without a loop the machine's, as loops count."""
        try:
            return asyncio.get_running_loop().time()
        except RuntimeError:
            return time.monotonic()

    def now(self) -> datetime:
        """The wall time in UTC."""
        return datetime.now(UTC)

    async def sleep(self, duration_s: float) -> None:
        """Wait so many seconds."""
        await asyncio.sleep(duration_s)
