"""A value that one part of the agent keeps up to date and others follow.

A follower sees the newest value, not every one in between: the kubelet, the API server and a
scrape want what is true now. Nothing is queued, so a follower that is slow costs no memory.
"""

import asyncio
from collections.abc import AsyncIterator
from typing import Any, Generic, TypeVar

Value = TypeVar("Value")


class Topic(Generic[Value]):
    """The newest value, within one event loop."""

    def __init__(self, first: Value) -> None:
        self.value = first
        self.changed = asyncio.Event()
        """Set once ``value`` is not the newest any more; a new one stands here then."""

    def publish(self, value: Value) -> None:
        """Make this the newest value; followers are told if it differs."""
        if value == self.value:
            return
        self.value = value
        # The next event is there before a follower wakes, so that it misses no change.
        waiting, self.changed = self.changed, asyncio.Event()
        waiting.set()

    async def follow(self) -> AsyncIterator[Value]:
        """The value now, then the newest one after each change."""
        while True:
            # Taken before the value is handed out, so that a change while its reader works is seen at once.
            changed = self.changed
            yield self.value
            await changed.wait()


async def any_change(*topics: Topic[Any]) -> AsyncIterator[None]:
    """Once now, then after each change of any of these topics; several changes may be told as one."""
    while True:
        # Begun before the caller works, so that a change meanwhile is seen at once.
        waits = [asyncio.ensure_future(topic.changed.wait()) for topic in topics]
        try:
            yield
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for wait in waits:
                wait.cancel()
