"""Tells a person what is going on while a download or a build takes its time.

On a terminal the last line is rewritten each second; elsewhere a line is written now and then, so that a
log shows that something still moves. Everything goes to standard error.
"""

import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Protocol

from gpufleet.model.visible import visible_line

ON_TERMINAL_S = 1.0
"""A line that is written over may change each second."""

IN_LOG_S = 30.0
"""Each line of a log stays, so there are fewer."""


class Progress(Protocol):
    """Where long work tells what it does."""

    def say(self, sentence: str) -> None:
        """Show one sentence."""

    def during(self, what: str, detail: Callable[[], str]) -> AbstractContextManager[None]:
        """A context in which something takes long; ``detail`` tells how far it is."""


class Silent:
    """Takes progress and shows none of it."""

    def say(self, sentence: str) -> None:
        """Show nothing."""

    @contextmanager
    def during(self, what: str, detail: Callable[[], str]) -> Iterator[None]:  # noqa: ARG002
        """Show nothing while the work runs."""
        yield


class ToPerson:
    """Progress on standard error, each line with the command's name in front."""

    def __init__(self, prefix: str = "") -> None:
        self._prefix = prefix
        self._terminal = sys.stderr.isatty()

    def say(self, sentence: str) -> None:
        """One line."""
        sys.stderr.write(f"{self._prefix}{sentence}\n")
        sys.stderr.flush()

    @contextmanager
    def during(self, what: str, detail: Callable[[], str]) -> Iterator[None]:
        """Tell what goes on and for how long until the block ends."""
        begun_s = time.monotonic()
        over = threading.Event()
        if not self._terminal:
            self.say(what)

        def tell() -> None:
            while not over.wait(ON_TERMINAL_S if self._terminal else IN_LOG_S):
                self._tell(what, detail(), time.monotonic() - begun_s)

        teller = threading.Thread(target=tell, daemon=True)
        teller.start()
        try:
            yield
        finally:
            over.set()
            teller.join()
            if self._terminal:
                _write("\r\x1b[K")

    def _tell(self, what: str, detail: str, elapsed_s: float) -> None:
        line = f"{self._prefix}{what}: {elapsed(elapsed_s)}{', ' if detail else ''}{detail}"
        shown = visible_line(line)
        _write(f"\r\x1b[K{shown[:160]}" if self._terminal else f"{shown}\n")


def _write(text: str) -> None:
    """To standard error itself: what a command puts before it would write our movements out."""
    stream = getattr(sys.stderr, "terminal", sys.stderr)
    stream.write(text)
    stream.flush()


def elapsed(seconds: float) -> str:
    """A span of time as people write it: "42 s", "5 min 03 s"."""
    minutes, rest = divmod(int(seconds), 60)
    return f"{minutes} min {rest:02} s" if minutes else f"{rest} s"
