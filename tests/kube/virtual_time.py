"""An event loop whose time jumps to the next timer as soon as nothing else is left to do."""

import asyncio
import selectors
from collections.abc import Coroutine, Mapping
from typing import Any, TypeVar

Value = TypeVar("Value")


class _JumpingSelector(selectors.BaseSelector):
    """Never waits: where a real selector would, it moves the loop's time on."""

    def __init__(self, loop: "VirtualTimeLoop") -> None:
        self._loop = loop
        self._real = selectors.DefaultSelector()

    def register(self, fileobj: Any, events: int, data: Any = None) -> selectors.SelectorKey:
        return self._real.register(fileobj, events, data)

    def unregister(self, fileobj: Any) -> selectors.SelectorKey:
        return self._real.unregister(fileobj)

    def get_map(self) -> Mapping[Any, selectors.SelectorKey]:
        return self._real.get_map()

    def close(self) -> None:
        self._real.close()

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        ready = self._real.select(0)
        if not ready:
            if timeout is None:
                raise RuntimeError("everything waits for something that will never happen")
            self._loop.virtual_s += max(0.0, timeout)
        return ready


class VirtualTimeLoop(asyncio.SelectorEventLoop):
    """Seconds cost nothing here."""

    def __init__(self) -> None:
        self.virtual_s = 1000.0
        super().__init__(_JumpingSelector(self))

    def time(self) -> float:
        """Seconds that only timers move."""
        return self.virtual_s


def run_virtually(main: Coroutine[Any, Any, Value]) -> Value:
    """Run to the end in virtual time."""
    with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
        return runner.run(main)
