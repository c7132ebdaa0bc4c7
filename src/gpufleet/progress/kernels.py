"""Tells of the engine's kernels while they are compiled, which happens once for each state of the engine.

numba says of each function when it begins and ends to compile it. Where everything comes from the cache it
says nothing, and neither does this module.
"""

from types import TracebackType
from typing import Any, Self

from gpufleet.progress.durations import Step
from gpufleet.progress.reporting import Progress

EVENT = "numba:compile"


class CompilingReport:
    """A context that tells of kernels from the first that is compiled on. ``count`` is how many there are."""

    def __init__(self, progress: Progress, step: Step, count: int) -> None:
        self._progress, self._step, self._count = progress, step, count
        self._done = 0
        self._context: Any = None
        self._listener: Any = None

    @property
    def begun(self) -> bool:
        """Whether a kernel had to be compiled so far."""
        return self._context is not None

    def __enter__(self) -> Self:
        event = numba_events()
        # numba takes instances of its own class only.
        methods = {"on_start": lambda *_: self._begin(), "on_end": lambda *_: self._end()}
        self._listener = type("Listener", (event.Listener,), methods)()
        event.register(EVENT, self._listener)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        numba_events().unregister(EVENT, self._listener)
        if self._context is not None:
            self._context.__exit__(kind, error, trace)

    def _end(self) -> None:
        self._done += 1

    def _begin(self) -> None:
        if self._context is not None:
            return
        what = "compiling the engine's kernels, once for this version"
        self._context = self._progress.during(what, self._detail, self._step, self._revised)
        self._context.__enter__()

    def _revised(self, elapsed_s: float, expected_s: float) -> float:
        """What is left takes as long as the pace so far says; at the beginning, as long as was expected."""
        done = min(self._done / self._count, 1.0)
        # The pace counts by the part that is done: elapsed_s / done * done.
        return elapsed_s + (1.0 - done) * (elapsed_s + (1.0 - done) * expected_s)

    def _detail(self) -> str:
        return f"{self._done} of about {max(self._count, self._done)}"


def numba_events() -> Any:
    """numba's module of events, imported when it is asked for: numba takes as long to import as all else."""
    from numba.core import event

    return event
