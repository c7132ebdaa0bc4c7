"""What a command says while it works on a cluster: one line on standard error for what takes over a second.

The kernels of the engine are compiled once for each version of gpufleet; the scheduler and ``make setup``
leave them in the cache. A command that finds none there tells how far it is: a bar on a terminal, one line
elsewhere.
"""

import contextlib
import sys
import threading
from collections.abc import Callable
from types import TracebackType
from typing import Self

from gpufleet.engine.arrays.compiled import CACHE_FOLDER
from gpufleet.progress.durations import Step
from gpufleet.progress.kernels import CompilingReport
from gpufleet.progress.reporting import ToPerson

PATIENCE_S = 1.0
"""A command that takes no longer than this says nothing of what it does."""

PREFIX = "gpufleet: "
ENGINE = "asking the engine"
"""What is said while the engine is asked, which takes long if its kernels were not compiled before."""

# Counted and measured on two cores of a virtual machine.
KERNELS, KERNELS_STEP = 100, Step("kernels of an answer", 60)
# The scheduler and other questions leave most of them in the cache.
FEW, FEW_STEP = 10, Step("few kernels of an answer", 5)

Say = Callable[[str], None]
"""Is told what is being done."""


class Progress:
    """Says on standard error, while its block lasts, what is being done once that takes over a second."""

    def __init__(self) -> None:
        self.doing = ""
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._compiling = contextlib.ExitStack()
        self._report: CompilingReport | None = None

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._compiling.__exit__(kind, error, trace)
        self._ended.set()
        self._thread.join()

    def say(self, doing: str) -> None:
        """Tell what the command does from now on."""
        self._compiling.close()
        self.doing = doing
        if doing == ENGINE:
            self._report = CompilingReport(ToPerson(PREFIX, repeats=False), *_missing())
            self._compiling.enter_context(self._report)

    def _watch(self) -> None:
        said = ""
        while not self._ended.wait(PATIENCE_S):
            if self.doing == said:
                continue
            said = self.doing
            # What is told of kernels stands in the place of this line.
            if said != ENGINE or self._report is None or not self._report.begun:
                sys.stderr.write(f"{PREFIX}{said} ...\n")


def _missing() -> tuple[Step, int]:
    """The step that compiles what the cache lacks, and about how many kernels that are."""
    there = sum(1 for _ in CACHE_FOLDER.rglob("*.nbi"))
    return (FEW_STEP, FEW) if there > KERNELS // 2 else (KERNELS_STEP, KERNELS)
