"""Tells a person what is going on while a download, a build or a compilation takes its time.

On a terminal the last line is rewritten each second, with a bar where the end can be guessed; elsewhere a
line is written every few seconds, so that a log shows that something still moves, or one line a step.
Everything goes to standard error.
"""

import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Protocol

from gpufleet.progress.durations import Step, expected_s, record

ON_TERMINAL_S = 1.0
"""A line that is written over may change each second."""

IN_LOG_S = 10.0
"""Each line of a log stays, so there are fewer."""

BAR_CHARACTERS = 20
"""Wide enough to see it grow, narrow enough for a terminal of 80 columns with the words behind it."""

LINE_CHARACTERS = 160
"""A line that wraps could not be written over by the next one."""

ALMOST = 0.99
"""A step that takes longer than expected is never said to be done."""


@contextmanager
def repeating_every(pause_s: float, tell: Callable[[], None]) -> Iterator[None]:
    """A thread tells again and again until the block ends; nothing is told after that."""
    over = threading.Event()

    def repeat() -> None:
        while not over.wait(pause_s):
            tell()

    teller = threading.Thread(target=repeat, daemon=True)
    teller.start()
    try:
        yield
    finally:
        over.set()
        teller.join()


Revised = Callable[[float, float], float]
"""How long a step will take in all, from how long it has taken so far and what was expected at first."""


class Progress(Protocol):
    """Where long work tells what it does."""

    def say(self, sentence: str) -> None:
        """Show one sentence."""

    def during(
        self,
        what: str,
        detail: Callable[[], str],
        step: Step | None = None,
        revised: Revised | None = None,
    ) -> AbstractContextManager[None]:
        """A context in which something takes long.

        ``detail`` tells how far it is, ``step`` by which name the time it takes is kept. With ``revised`` the
        expected end follows what is done already, as on a machine that is busy.
        """


class Silent:
    """Takes progress and shows none of it."""

    def say(self, sentence: str) -> None:
        """Show nothing."""

    @contextmanager
    def during(
        self,
        what: str,  # noqa: ARG002
        detail: Callable[[], str],  # noqa: ARG002
        step: Step | None = None,  # noqa: ARG002
        revised: Revised | None = None,  # noqa: ARG002
    ) -> Iterator[None]:
        """Show nothing while the work runs."""
        yield


class ToPerson:
    """Progress on standard error, each line with the command's name in front."""

    def __init__(self, prefix: str = "", *, repeats: bool = True) -> None:
        """Without ``repeats`` a log gets one line a step: an answer of a command often goes to one."""
        self._prefix = prefix
        self._repeats = repeats
        self._terminal = sys.stderr.isatty()

    def say(self, sentence: str) -> None:
        """One line."""
        sys.stderr.write(f"{self._prefix}{sentence}\n")
        sys.stderr.flush()

    @contextmanager
    def during(
        self,
        what: str,
        detail: Callable[[], str],
        step: Step | None = None,
        revised: Revised | None = None,
    ) -> Iterator[None]:
        """Tell what goes on, for how long, and for how long yet, until the block ends."""
        begun_s = time.monotonic()
        whole_s = None if step is None else expected_s(step)
        if not self._terminal:
            self.say(what if whole_s is None else f"{what} (about {elapsed(whole_s)})")

        def tell() -> None:
            elapsed_s = time.monotonic() - begun_s
            self._tell(what, detail(), elapsed_s, revised_s(revised, elapsed_s, whole_s))

        pause_s = ON_TERMINAL_S if self._terminal else IN_LOG_S
        try:
            with repeating_every(pause_s, tell) if self._terminal or self._repeats else nullcontext():
                yield
            if step is not None:
                record(step, time.monotonic() - begun_s)
        finally:
            if self._terminal:
                _write("\r\x1b[K")

    def _tell(self, what: str, detail: str, elapsed_s: float, whole_s: float | None) -> None:
        parts = [elapsed(elapsed_s), detail, "" if whole_s is None else left(elapsed_s, whole_s)]
        line = f"{self._prefix}{what}: {', '.join(filter(None, parts))}"
        if not self._terminal:
            return _write(f"{_visible(line)}\n")
        shown = _visible(line)[:LINE_CHARACTERS]
        return _write(f"\r\x1b[K{bar(elapsed_s, whole_s)}{shown}")


def revised_s(revised: Revised | None, elapsed_s: float, whole_s: float | None) -> float | None:
    """How long a step will take in all by what is known now."""
    return whole_s if revised is None or whole_s is None else revised(elapsed_s, whole_s)


def bar(elapsed_s: float, whole_s: float | None) -> str:
    """A bar for a step that is expected to end; nothing for others."""
    if whole_s is None:
        return ""
    done = int(BAR_CHARACTERS * min(elapsed_s / whole_s, ALMOST))
    return f"[{'#' * done}{'.' * (BAR_CHARACTERS - done)}] "


def left(elapsed_s: float, whole_s: float) -> str:
    """How long a step will probably go on."""
    if elapsed_s > whole_s:
        return f"longer than expected ({elapsed(whole_s)})"
    return f"about {elapsed(whole_s - elapsed_s)} left"


def elapsed(seconds: float) -> str:
    """A span of time as people write it: "42 s", "5 min 03 s"."""
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest:02} s" if minutes else f"{rest} s"


def _visible(line: str) -> str:
    """The line with nothing in it that a terminal would act on."""
    return "".join(one if one.isprintable() else ascii(one)[1:-1] for one in line)


def _write(text: str) -> None:
    """To standard error itself: what a command puts before it would write our movements out."""
    stream = getattr(sys.stderr, "terminal", sys.stderr)
    stream.write(text)
    stream.flush()
