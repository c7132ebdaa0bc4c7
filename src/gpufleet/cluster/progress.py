"""What a command says while it works on a cluster: one line on standard error for what takes over a second.

The kernels of the engine are compiled once for each version of gpufleet, which takes a minute; the scheduler
and ``make setup`` leave them in the cache. The first command without that cache says why it takes so long.
"""

import sys
import threading
import time
from collections.abc import Callable
from typing import Self

PATIENCE_S = 1.0
"""A command that takes no longer than this says nothing of what it does."""

LONG_S = 8.0
"""The engine with compiled kernels is asked in less time than this on any cluster that was measured."""

COMPILING = "its kernels may have to be compiled, once for each version, which takes about a minute"
ENGINE = "asking the engine"
"""What is said while the engine is asked, which takes long if its kernels were not compiled before."""

Say = Callable[[str], None]
"""Is told what is being done."""


class Progress:
    """Says on standard error, while its block lasts, what is being done once that takes over a second."""

    def __init__(self) -> None:
        self.doing = ""
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()

    def say(self, doing: str) -> None:
        """Tell what the command does from now on."""
        self.doing = doing

    def _watch(self) -> None:
        said, since_s, warned = "", time.monotonic(), False
        while not self._ended.wait(PATIENCE_S):
            if self.doing != said:
                said, since_s = self.doing, time.monotonic()
                sys.stderr.write(f"gpufleet: {said} ...\n")
            elif said == ENGINE and not warned and time.monotonic() - since_s > LONG_S:
                warned = True
                sys.stderr.write(f"gpufleet: {COMPILING}\n")
