"""How far a long measurement is, on stderr: a line that is written over on a terminal, now and then a new
one elsewhere.
"""

import sys
import time

TERMINAL_EVERY_S = 0.2
LOG_EVERY_S = 10.0


class Progress:
    """Counts towards a total, and tells it at most so often."""

    def __init__(self, title: str, total: int) -> None:
        self._title = title
        self._total = total
        self._terminal = sys.stderr.isatty()
        self._told_s = time.monotonic()

    def at(self, done: int) -> None:
        """So much is done."""
        now_s = time.monotonic()
        if now_s - self._told_s >= (TERMINAL_EVERY_S if self._terminal else LOG_EVERY_S):
            self._told_s = now_s
            end = "\r" if self._terminal else "\n"
            print(f"{self._title}: {done:,} of {self._total:,}   ", end=end, file=sys.stderr)


def say(words: str) -> None:
    """What begins now."""
    print(f"{words} ...", file=sys.stderr)
