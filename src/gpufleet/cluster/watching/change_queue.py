"""The change queue: where changes of the cluster lie, in order, until a decision round takes them.

Mirrors put changes down from within their own tasks and never wait; ``rounds`` takes all of them at
once. Nothing is decided here.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Any, NamedTuple

from gpufleet.kube.clock import Clock
from gpufleet.kube.mirror_changes import Change
from gpufleet.kube.resources import Kind


class Seen(NamedTuple):
    """A change and the kind of object it is about."""

    kind: Kind
    change: Change[Any]


class ChangeQueue:
    """Changes in their order, and what wakes a round. ``clock`` measures how long changes lie here."""

    def __init__(self, clock: Clock | None = None) -> None:
        self._clock = clock
        self.first_at_s: float | None = None
        """When the first of the changes that lie here came, by the monotonic clock."""
        self._changes: deque[Seen] = deque()
        self._wake = asyncio.Event()

    def sink(self, kind: Kind) -> Callable[[Change[Any]], None]:
        """Where the mirror of this kind puts its changes."""

        def put(change: Change[Any]) -> None:
            if not self._changes and self._clock is not None:
                self.first_at_s = self._clock.monotonic_s()
            self._changes.append(Seen(kind, change))
            self._wake.set()

        return put

    def wake(self) -> None:
        """Wake the round without a change: there are results to take in."""
        self._wake.set()

    async def wait(self, timeout_s: float | None) -> None:
        """Return as soon as a round is wanted, at the latest after ``timeout_s``."""
        if not self._wake.is_set():
            try:
                async with asyncio.timeout(timeout_s):
                    await self._wake.wait()
            except TimeoutError:
                pass
        self._wake.clear()

    @property
    def has_changes(self) -> bool:
        """True if something lies here."""
        return bool(self._changes)

    def take(self) -> list[Seen]:
        """All changes that lie here, in the order in which they came."""
        taken = list(self._changes)
        self._changes.clear()
        self.first_at_s = None
        return taken
