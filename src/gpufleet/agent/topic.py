"""A value that one part of the agent keeps up to date and others follow.

Whoever follows sees the newest value, not every one in between: the kubelet, the API server and a
scrape want what is true now. Nothing is queued, so a follower that is slow costs no memory.
"""

import asyncio
from collections.abc import AsyncIterator
from typing import Generic, TypeVar

Value = TypeVar("Value")


class Topic(Generic[Value]):
    """The newest value, within one event loop."""

    def __init__(self, first: Value) -> None:
        self.value = first
        self._changed = asyncio.Event()

    def publish(self, value: Value) -> None:
        """Make this the newest value; followers are told if it differs."""
        if value == self.value:
            return
        self.value = value
        waiting, self._changed = self._changed, asyncio.Event()
        waiting.set()

    async def follow(self) -> AsyncIterator[Value]:
        """The value now, then the newest one after each change."""
        while True:
            changed = self._changed
            yield self.value
            await changed.wait()
