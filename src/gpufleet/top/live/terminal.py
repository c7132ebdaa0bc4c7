"""The terminal: its alternate screen, its keys one by one, and its old state again whatever happens.

Leaving the block of ``with`` restores it, after an end, an error, or a signal that the session turns into
one.
"""

import contextlib
import os
import termios
from collections.abc import Sequence
from typing import Any, Self

from gpufleet.top.screen.frame import Size

ENTER = "\x1b[?1049h\x1b[?25l\x1b[2J"
"""The alternate screen, without a cursor, empty (xterm's control sequences)."""
LEAVE = "\x1b[0m\x1b[?25h\x1b[?1049l"
TOGETHER, AND_NOW = "\x1b[?2026h", "\x1b[?2026l"
"""What comes between is shown at once by terminals that know this; others take no notice."""

# A terminal that tells no size, such as a serial line.
SIZE = Size(80, 24)
INPUT_FLAGS, LOCAL_FLAGS, SPECIAL = 0, 3, 6
"""Places in what ``termios`` calls attributes."""


class Terminal:
    """The terminal on two descriptors, as a block of ``with``."""

    def __init__(self, reads: int, writes: int) -> None:
        self.reads = reads
        self._writes = writes
        self._before: list[Any] | None = None
        self._rows: Sequence[str] = ()

    def __enter__(self) -> Self:
        self.enter()
        return self

    def __exit__(self, *_: object) -> None:
        self.leave()

    def enter(self) -> None:
        """Take the terminal over."""
        before = termios.tcgetattr(self.reads)
        self._before = list(before)
        raw = list(before)
        # Keys come at once, unshown, Ctrl-C and Ctrl-Z among them; Return stays what was pressed.
        raw[LOCAL_FLAGS] &= ~(termios.ICANON | termios.ECHO | termios.ISIG | termios.IEXTEN)
        raw[INPUT_FLAGS] &= ~(termios.ICRNL | termios.IXON)
        raw[SPECIAL] = [*before[SPECIAL]]
        raw[SPECIAL][termios.VMIN], raw[SPECIAL][termios.VTIME] = 1, 0
        termios.tcsetattr(self.reads, termios.TCSADRAIN, raw)
        self._rows = ()
        self._write(ENTER)

    def leave(self) -> None:
        """Give it back as it was; a second time does nothing."""
        before, self._before = self._before, None
        if before is None:
            return
        try:
            self._write(LEAVE)
        finally:
            # The terminal itself may be gone, as after a closed window.
            with contextlib.suppress(termios.error):
                termios.tcsetattr(self.reads, termios.TCSAFLUSH, before)

    def size(self) -> Size:
        """The terminal's size now."""
        try:
            found = os.get_terminal_size(self._writes)
        except OSError:
            return SIZE
        return Size(found.columns, found.lines) if found.columns and found.lines else SIZE

    def draw(self, rows: Sequence[str]) -> None:
        """Show these rows; only what changed is written."""
        # A screen of another size is drawn whole: the terminal has moved what was on it.
        is_same_size = len(rows) == len(self._rows)
        parts = [] if is_same_size else ["\x1b[2J"]
        for number, row in enumerate(rows):
            if not is_same_size or row != self._rows[number]:
                parts.append(f"\x1b[{number + 1};1H{row}\x1b[0m")
        self._rows = tuple(rows)
        if parts:
            self._write("".join([TOGETHER, *parts, AND_NOW]))

    def forget(self) -> None:
        """Draw everything anew next time: another program wrote, or the size changed."""
        self._rows = ()

    def _write(self, text: str) -> None:
        data = text.encode("utf-8", "backslashreplace")
        while data:
            data = data[os.write(self._writes, data) :]
