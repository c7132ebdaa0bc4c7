"""Calls to a vendor's library that cannot stop the agent.

A call into a driver may hang for ever, and a thread that hangs cannot be ended. So each GPU has one thread,
which makes its calls in turn. A call that is not back in time fails with NoAnswerError, and so does every
later one, at once, until the thread is back; then it is used again. Other threads go on. They are daemons, so
that a hanging one does not keep the process from ending.
"""

import asyncio
import threading
from collections.abc import Callable
from queue import SimpleQueue
from typing import Any, TypeVar

from gpufleet.devices.backend import Backend, Event
from gpufleet.devices.device_errors import NoAnswerError
from gpufleet.devices.facts import Fleet
from gpufleet.devices.sample import ProcessUse, Sample
from gpufleet.model.identifiers import DeviceId

Value = TypeVar("Value")

CALL_LIMIT_S = 5.0
"""A call that takes longer counts as hung; its thread stays behind and the agent goes on."""

EVENT_SPARE_S = 5.0
"""How much longer than asked for a wait for events may take."""


class CallThread:
    """One thread for calls that must not overlap."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._calls: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self._thread: threading.Thread | None = None
        self._late = ""
        self._under_way = 0

    @property
    def stuck(self) -> str:
        """The call that has not come back; empty if none is late."""
        return self._late

    async def ask(self, what: str, call: Callable[[], Value], limit_s: float) -> Value:
        """Make the call on this thread. Raises what it raises, or NoAnswerError."""
        # Refused at once: a call behind one that hangs would wait as long.
        if self._late:
            raise NoAnswerError(f"{self._late} has not come back yet")
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[Value] = loop.create_future()
        self._under_way += 1
        self._put(lambda: self._make(call, loop, answer))
        try:
            async with asyncio.timeout(limit_s):
                # A timeout must not cancel the future: the thread sets it whenever the call comes back.
                return await asyncio.shield(answer)
        except TimeoutError:
            # The answer may have come in the same turn of the loop in which the time was over.
            if answer.done():
                return answer.result()
            self._late = what
            raise NoAnswerError(f"no answer to {what} for {limit_s:g} s") from None

    def close(self) -> None:
        """Let the thread end after the calls that wait; a later call gets another one."""
        if self._thread is not None:
            self._calls.put(None)
            # A queue of its own for the next thread: the old one may hang and must find only its own end
            # there.
            self._calls, self._thread = SimpleQueue(), None

    def _put(self, work: Callable[[], None]) -> None:
        if self._thread is None:
            self._thread = threading.Thread(target=_run, args=(self._calls,), name=self.name, daemon=True)
            self._thread.start()
        self._calls.put(work)

    def _make(
        self, call: Callable[[], Value], loop: asyncio.AbstractEventLoop, answer: "asyncio.Future[Value]"
    ) -> None:
        result: Any = None
        problem: BaseException | None = None
        try:
            result = call()
        except Exception as error:  # noqa: BLE001  it is raised where the call was asked for
            problem = error
        try:
            loop.call_soon_threadsafe(self._back, answer, result, problem)
        except RuntimeError:
            return  # the loop is closed: no task waits for the answer any more

    def _back(self, answer: "asyncio.Future[Value]", result: Value, problem: BaseException | None) -> None:
        self._under_way -= 1
        if not self._under_way:
            self._late = ""
        if answer.done():
            return
        if problem is None:
            answer.set_result(result)
        else:
            answer.set_exception(problem)
            # The caller may have given up; asyncio then would complain of an error that was never read.
            answer.exception()


def _run(calls: SimpleQueue[Callable[[], None] | None]) -> None:
    """What the thread does."""
    while (work := calls.get()) is not None:
        work()


class ThreadedBackend:
    """A backend behind threads: its calls, asynchronously, each answered or failed in time."""

    def __init__(self, backend: Backend, *, limit_s: float = CALL_LIMIT_S) -> None:
        self._backend = backend
        self._limit_s = limit_s
        self._library = CallThread("gpu library")
        self._events = CallThread("gpu events")
        self._gpus: dict[DeviceId, CallThread] = {}

    async def open(self) -> None:
        """Load the library. Raises DriverError with what is wrong, or where the call takes too long."""
        await self._library.ask("opening the library", self._backend.open, self._limit_s)

    async def close(self) -> None:
        """Let the library go. It may be opened again; a call that hangs still holds up its thread then."""
        await self._library.ask("closing the library", self._backend.close, self._limit_s)

    def leave(self) -> None:
        """Nothing is asked any more: let the threads end; those that hang are left behind."""
        for thread in (self._library, self._events, *self._gpus.values()):
            thread.close()

    async def fleet(self) -> Fleet:
        """The GPUs that the driver lists now. Raises DriverError."""
        return await self._library.ask("the list of GPUs", self._backend.fleet, self._limit_s)

    async def sample(self, uuid: DeviceId) -> Sample:
        """Readings of a GPU now. Raises GpuLostError or DriverError."""
        return await self._thread_of(uuid).ask("a sample", lambda: self._backend.sample(uuid), self._limit_s)

    async def sample_instance(self, uuid: DeviceId, mig_uuid: str) -> Sample:
        """Readings of a MIG instance now. Raises GpuLostError or DriverError."""
        call = lambda: self._backend.sample_instance(uuid, mig_uuid)  # noqa: E731
        return await self._thread_of(uuid).ask("a sample of an instance", call, self._limit_s)

    async def processes(self, uuid: DeviceId) -> tuple[ProcessUse, ...] | None:
        """The processes on a GPU now; None where the driver does not tell. Raises GpuLostError or
        DriverError.
        """
        call = lambda: self._backend.processes(uuid)  # noqa: E731
        return await self._thread_of(uuid).ask("the list of processes", call, self._limit_s)

    async def wait_event(self, limit_s: float) -> Event | None:
        """The next event; None if there was none within the limit. Raises DriverError."""
        call = lambda: self._backend.wait_event(limit_s)  # noqa: E731
        return await self._events.ask("waiting for events", call, limit_s + EVENT_SPARE_S)

    def stuck(self, uuid: DeviceId) -> str:
        """The call about a GPU that has not come back; empty if none is late."""
        thread = self._gpus.get(uuid)
        return "" if thread is None else thread.stuck

    def _thread_of(self, uuid: DeviceId) -> CallThread:
        return self._gpus.setdefault(uuid, CallThread(f"gpu {uuid}"))
