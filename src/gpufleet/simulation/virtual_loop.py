"""An asyncio event loop with virtual time: when nothing is ready, it is at once the next timer's time.

No selector, no socket, no thread but in name: whatever happens follows from the code and the seed, in the
same order on every machine. Callbacks run in the order they were asked for; timers that are due at the same
instant run in the order they were set or, with a seed, in an order that the seed chose: code that relies on
it is found out. Tasks and futures hash by number instead of by address, because asyncio keeps them in sets
and walks over those.

Nothing ready and no timer is a deadlock, told with the place where each task waits.
"""

import asyncio
import heapq
from collections import deque
from collections.abc import Callable, Coroutine
from contextvars import Context, copy_context
from datetime import UTC, datetime, timedelta
from itertools import count
from random import Random
from typing import Any, TypeVar

from gpufleet.simulation.process import CURRENT, SimulatedProcess
from gpufleet.simulation.simulation_errors import DeadlockError, LivelockError, SimulationError

STARTED_AT = datetime(2026, 1, 1, tzinfo=UTC)
CALLBACKS_AT_ONE_INSTANT = 2_000_000
"""Far more than any step of the scheduler needs at one instant of virtual time."""

STORY_TASKS = 40
"""Of a loop that hangs so many tasks are named; most of the others wait at one place."""

THREAD_WITHIN_S = 0.02
"""How long the work of a thread takes at most: as long as a write to a slow disk."""

Result = TypeVar("Result")


class VirtualFuture(asyncio.Future[Any]):
    """A future with a hash that is the same in every run."""

    def __init__(self, number: int, **settings: Any) -> None:
        self.number = number
        super().__init__(**settings)

    def __hash__(self) -> int:
        return self.number


class VirtualTask(asyncio.Task[Any]):
    """A task with a hash that is the same in every run."""

    def __init__(self, number: int, process: SimulatedProcess | None, *work: Any, **settings: Any) -> None:
        # Before anything else: asyncio puts the task into a set while it is being made.
        self.number = number
        self.process = process
        super().__init__(*work, **settings)

    def __hash__(self) -> int:
        return self.number


class VirtualLoop(asyncio.BaseEventLoop):
    """The loop. ``unhandled`` holds the exceptions that no task awaited."""

    def __init__(self, seed: int = 0, *, threads: bool = False) -> None:
        super().__init__()
        self._threads = threads
        self.random = Random(seed)
        self.unhandled: list[str] = []
        self.before_jump: Callable[[float], None] = lambda _: None
        """Is told of the next moment when nothing is left to do at this one. It may not touch the loop."""

        self.own_context = copy_context()
        self.own_context.run(CURRENT.set, None)
        self._seed = seed
        self._now_s = 0.0
        self._numbers = count(1)
        self._callbacks: deque[tuple[asyncio.Handle, SimulatedProcess | None]] = deque()
        self._timers: list[tuple[float, float, int, asyncio.TimerHandle, SimulatedProcess | None]] = []
        self._at_this_instant = 0
        self._tasks: set[asyncio.Task[Any]] = set()
        self.set_task_factory(self._make_task)  # type: ignore[arg-type]
        self.set_exception_handler(self._keep)

    def time(self) -> float:
        """Virtual seconds since the loop began."""
        return self._now_s

    def stand_at(self, at_s: float) -> None:
        """Set the time, in a copy of a run that goes no further."""
        self._now_s = at_s

    def call_soon(
        self, callback: Callable[..., object], *args: object, context: Context | None = None
    ) -> asyncio.Handle:
        """Run after what is ready already."""
        context = copy_context() if context is None else context
        handle = asyncio.Handle(callback, args, self, context)
        self._callbacks.append((handle, context.get(CURRENT)))
        return handle

    def call_later(
        self, delay: float, callback: Callable[..., object], *args: object, context: Context | None = None
    ) -> asyncio.TimerHandle:
        """Run a callback after ``delay`` virtual seconds."""
        return self.call_at(self._now_s + delay, callback, *args, context=context)

    def call_at(
        self, when: float, callback: Callable[..., object], *args: object, context: Context | None = None
    ) -> asyncio.TimerHandle:
        """Run at a virtual time."""
        context = copy_context() if context is None else context
        handle = asyncio.TimerHandle(when, callback, args, self, context)
        # Of two timers for one instant a real loop gives no promise, either.
        tie = self.random.random() if self._seed else 0.0
        heapq.heappush(self._timers, (when, tie, next(self._numbers), handle, context.get(CURRENT)))
        return handle

    def call_soon_threadsafe(
        self, callback: Callable[..., object], *args: object, context: Context | None = None
    ) -> asyncio.Handle:
        """Run a callback like ``call_soon``: there are no threads."""
        return self.call_soon(callback, *args, context=context)

    def run_in_executor(  # type: ignore[override]  # asyncio's own types name other parameters
        self, _: None, work: Callable[..., Result], *arguments: object
    ) -> "asyncio.Future[Result]":
        """Work of a thread: done at once, at a moment that the seed chooses.

        Refused unless the run allows threads: where most code may have none, one is a mistake.
        """
        if not self._threads:
            raise SimulationError("a simulated run may not use threads")
        done = self.create_future()

        def act() -> None:
            try:
                result = work(*arguments)
            except BaseException as error:  # noqa: BLE001  it is raised where the thread is waited for
                if not done.cancelled():
                    done.set_exception(error)
                return
            if not done.cancelled():
                done.set_result(result)

        self.call_later(self.random.uniform(0.0, THREAD_WITHIN_S), act)
        return done

    def create_future(self) -> asyncio.Future[Any]:
        """A future with its number as its hash."""
        return VirtualFuture(next(self._numbers), loop=self)

    def _make_task(
        self, loop: asyncio.AbstractEventLoop, work: Coroutine[Any, Any, Any], context: Context | None = None
    ) -> asyncio.Task[Any]:
        context = copy_context() if context is None else context
        task = VirtualTask(next(self._numbers), context.get(CURRENT), work, loop=loop, context=context)
        # asyncio keeps tasks weakly; those of a killed process must not vanish in the middle of a run.
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    def _keep(self, _: asyncio.AbstractEventLoop, trouble: dict[str, Any]) -> None:
        """A callback or a task failed and no task waits for it: the run has to fail too."""
        error = trouble.get("exception")
        self.unhandled.append(f"{trouble.get('message')}: {error!r}")

    def _run_once(self) -> None:
        """Everything that is ready, or else a jump to the next timer."""
        self._drop_cancelled()
        if not self._callbacks:
            self._jump()
        while self._timers and self._timers[0][0] <= self._now_s:
            *_, timer, process = heapq.heappop(self._timers)
            self._callbacks.append((timer, process))
        # Only what is ready now: what these callbacks add is ready one turn later, as with asyncio's own
        # loop.
        for _ in range(len(self._callbacks)):
            handle, process = self._callbacks.popleft()
            if handle.cancelled() or (process is not None and not process.admits(handle)):
                continue
            handle._run()  # noqa: SLF001 - a loop runs handles; there is no public way
            self._at_this_instant += 1
        if self._at_this_instant > CALLBACKS_AT_ONE_INSTANT:
            raise LivelockError(f"{self._at_this_instant} callbacks at {self._now_s} s\n{self.story()}")

    def _drop_cancelled(self) -> None:
        while self._timers and self._timers[0][3].cancelled():
            heapq.heappop(self._timers)

    def _jump(self) -> None:
        if self._stopping:  # type: ignore[attr-defined]
            return
        if not self._timers:
            raise DeadlockError(
                f"at {self._now_s} s nothing is ready and nothing will ever be\n{self.story()}"
            )
        if self._timers[0][0] > self._now_s:
            self.before_jump(self._timers[0][0])
            self._now_s = self._timers[0][0]
            self._at_this_instant = 0

    def story(self) -> str:
        """Where each task waits, one a line."""
        tasks = sorted(asyncio.all_tasks(self), key=hash)
        lines = [f"  {task.get_name()}: {_place(task)}" for task in tasks[:STORY_TASKS]]
        if len(tasks) > STORY_TASKS:
            lines.append(f"  and {len(tasks) - STORY_TASKS} tasks more")
        return "\n".join(lines)


def _place(task: asyncio.Task[Any]) -> str:
    """The innermost line at which a task waits."""
    awaited: Any = task.get_coro()
    place = "not begun"
    while awaited is not None and (frame := getattr(awaited, "cr_frame", None)) is not None:
        place = f"{frame.f_code.co_qualname} line {frame.f_lineno}"
        # Down to where the innermost coroutine waits, as the outer ones are all at an await.
        awaited = awaited.cr_await
    return place


class VirtualClock:
    """The clock of one process: the loop's time, and a wall clock that can be set wrong."""

    def __init__(self, loop: VirtualLoop, offset_s: float = 0.0) -> None:
        self._loop = loop
        self.offset_s = offset_s

    def monotonic_s(self) -> float:
        """Virtual seconds; never go back."""
        return self._loop.time()

    def now(self) -> datetime:
        """The wall time in UTC: virtual time and this clock's error."""
        return STARTED_AT + timedelta(seconds=self._loop.time() + self.offset_s)

    async def sleep(self, duration_s: float) -> None:
        """Wait for a number of virtual seconds."""
        await asyncio.sleep(duration_s)


def run(
    work: Callable[[VirtualLoop], Coroutine[Any, Any, Result]], seed: int = 0, *, threads: bool = False
) -> Result:
    """Run to the end in virtual time; raises what the work raises, and SimulationError where a task or
    callback failed that no task waited for.
    """
    loop = VirtualLoop(seed, threads=threads)
    try:
        # What is left is ended even after a failure, so that no code of this run wakes in another test.
        result: Result = loop.run_until_complete(work(loop))
    finally:
        _end_what_is_left(loop)
        loop.close()
    if loop.unhandled:
        raise SimulationError("failed, and no task waited for it:\n" + "\n".join(loop.unhandled))
    return result


def _end_what_is_left(loop: VirtualLoop) -> None:
    """Cancel the tasks that are left, those of dead and paused processes too."""
    left = sorted(asyncio.all_tasks(loop), key=hash)
    for process in {task.process: None for task in left if isinstance(task, VirtualTask)}:
        if process is not None:
            loop.call_soon(process.bury, context=loop.own_context)
    for task in left:
        task.cancel()
    if left:
        loop.run_until_complete(asyncio.wait(left))
    loop.run_until_complete(loop.shutdown_asyncgens())
