"""A process on the virtual loop: what runs in its context can be paused, starved or killed.

SIGSTOP withholds every callback of the process while time goes on; SIGCONT runs them late. SIGKILL drops them
for good: no ``finally`` and no ``except`` of the killed code runs before the run is over, as none would in a
real process. Which process a callback belongs to is read from its context, so a task belongs to the process
of the task that made it.
"""

import asyncio
from collections import deque
from collections.abc import Coroutine
from contextvars import Context, ContextVar, copy_context
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gpufleet.simulation.virtual_loop import VirtualLoop

CURRENT: ContextVar["SimulatedProcess | None"] = ContextVar("simulated_process", default=None)


class SimulatedProcess:
    """One process: its name, whether it runs, and what each of its callbacks costs in seconds."""

    def __init__(self, name: str, loop: "VirtualLoop") -> None:
        self.name = name
        self.loop = loop
        self.alive = True
        self.paused = False
        self.buried = False
        self.callback_cost_s = 0.0
        self.callbacks = 0
        self._busy_until_s = 0.0
        self._withheld: deque[asyncio.Handle] = deque()
        self._resuming: asyncio.TimerHandle | None = None
        self.context: Context = copy_context()
        self.context.run(CURRENT.set, self)

    def start(self, work: Coroutine[Any, Any, Any]) -> "asyncio.Task[Any]":
        """Run a coroutine as a task of this process."""
        return self.loop.create_task(work, context=self.context.copy(), name=self.name)

    def pause(self) -> None:
        """Stop the process like SIGSTOP: none of its callbacks runs until ``resume``."""
        self.paused = True

    def resume(self) -> None:
        """Let the process go on like SIGCONT: what was withheld runs now, in the order in which it came."""
        self.paused = False
        self._arm()

    def kill(self) -> None:
        """End the process like SIGKILL: none of its code runs again while the run lasts."""
        self.alive = False

    def bury(self) -> None:
        """The run is over: let the code of this process run to its end, whatever became of it."""
        self.buried = True
        for handle in self._withheld:
            if not handle.cancelled():
                handle._run()  # noqa: SLF001 - a loop runs handles; there is no public way
        self._withheld.clear()

    def admits(self, handle: asyncio.Handle) -> bool:
        """Whether this callback may run now; if not, it is kept for later."""
        if self.buried:
            return True
        # While others are withheld it waits behind them, as callbacks of a process never overtake one
        # another.
        if not self.alive or self.paused or self._withheld or self.loop.time() < self._busy_until_s:
            self._withheld.append(handle)
            self._arm()
            return False
        self._account()
        return True

    def _account(self) -> None:
        self.callbacks += 1
        if self.callback_cost_s:
            self._busy_until_s = self.loop.time() + self.callback_cost_s

    def _arm(self) -> None:
        """Come back as soon as the process has time for the next withheld callback."""
        if self._resuming is None and self._withheld and self.alive and not self.paused:
            when_s = max(self._busy_until_s, self.loop.time())
            self._resuming = self.loop.call_at(when_s, self._run_withheld, context=self.loop.own_context)

    def _run_withheld(self) -> None:
        self._resuming = None
        while self._withheld and self.alive and not self.paused:
            if self.loop.time() < self._busy_until_s:
                break
            handle = self._withheld.popleft()
            if not handle.cancelled():
                self._account()
                handle._run()  # noqa: SLF001 - a loop runs handles; there is no public way
        self._arm()
