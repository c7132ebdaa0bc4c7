"""A terminal for a program under test: a pseudo-terminal, and the screen that the program draws on it.

It knows only the control sequences that the program is allowed to send; any other fails the test, because a
real terminal would obey it. ``mode`` tells whether the terminal is as it was before.
"""

import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import termios
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Self

ALLOWED = re.compile(
    r"\x1b\[\?(?:1049|25|2026)[hl]|\x1b\[2J|\x1b\[(?P<row>[0-9]+);1H|\x1b\[[0-9;]*m|(?P<text>[^\x1b]+)"
)
BEGUN = re.compile(r"\x1b(?:\[[?0-9;]*)?$")


class PtyTerminal:
    """The program runs while the block of ``with`` lasts, and is killed at its end if it still does."""

    def __init__(
        self, command: Sequence[str], environment: Mapping[str, str], *, width: int = 80, height: int = 24
    ) -> None:
        self.rows: list[str] = [""] * height
        self.is_alternate = False
        self.is_cursor_shown = True
        self.written = ""
        self.plain = ""
        """What was written on the ordinary screen."""
        self._rest = ""
        self._row = 0
        self._ours, theirs = pty.openpty()
        self.resize(width, height)
        self.mode = termios.tcgetattr(self._ours)
        self.program = subprocess.Popen(
            command,
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            env=dict(environment),
            start_new_session=True,
        )
        os.close(theirs)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self.program.poll() is None:
            self.program.kill()
        self.program.wait()
        os.close(self._ours)

    def press(self, keys: str) -> None:
        """Type these bytes."""
        os.write(self._ours, keys.encode())

    def resize(self, width: int, height: int) -> None:
        """Give the terminal another size; the kernel tells the program."""
        self._height = height
        fcntl.ioctl(self._ours, termios.TIOCSWINSZ, struct.pack("HHHH", height, width, 0, 0))
        if hasattr(self, "program"):
            self.program.send_signal(signal.SIGWINCH)

    @property
    def screen(self) -> str:
        """The rows, without what follows them."""
        return "\n".join(row.rstrip() for row in self.rows)

    def until(self, holds: Callable[[str], bool], wait_s: float = 60.0, *, every_s: float = 0.1) -> str:
        """The screen once this holds of it."""
        limit_s = time.monotonic() + wait_s
        while not holds(self.screen):
            assert time.monotonic() < limit_s, f"not within {wait_s:.0f} s:\n{self.screen}\n{self.plain}"
            self._take(every_s)
        return self.screen

    def ended(self, wait_s: float = 20.0) -> int:
        """The exit code, once the program has ended."""
        limit_s = time.monotonic() + wait_s
        while self.program.poll() is None:
            assert time.monotonic() < limit_s, f"it did not end:\n{self.screen}"
            self._take(0.05)
        self._take(0.05)
        return int(self.program.returncode)

    def is_restored(self) -> bool:
        """Whether the terminal is as it was before the program."""
        is_same = termios.tcgetattr(self._ours) == self.mode
        return is_same and self.is_cursor_shown and not self.is_alternate

    def _take(self, wait_s: float) -> None:
        if not select.select([self._ours], [], [], wait_s)[0]:
            return
        try:
            data = os.read(self._ours, 1 << 16)
        except OSError:
            # The program has closed its side.
            time.sleep(wait_s)
            return
        text = self._rest + data.decode("utf-8", "replace")
        begun = BEGUN.search(text)
        self._rest = begun[0] if begun else ""
        self._write(text[: len(text) - len(self._rest)])

    def _write(self, text: str) -> None:
        self.written += text
        place = 0
        while place < len(text):
            found = ALLOWED.match(text, place)
            assert found is not None, f"a sequence that nothing may send: {text[place : place + 20]!r}"
            place = found.end()
            self._obey(found)

    def _obey(self, found: re.Match[str]) -> None:
        match found[0]:
            case "\x1b[?1049h" | "\x1b[?1049l":
                self.is_alternate = found[0].endswith("h")
            case "\x1b[?25h" | "\x1b[?25l":
                self.is_cursor_shown = found[0].endswith("h")
            case "\x1b[2J":
                self.rows = [""] * self._height
            case _ if found["row"]:
                self._row = int(found["row"]) - 1
                assert self._row < self._height, "it draws below the screen"
                self.rows[self._row] = ""
            case _ if found["text"]:
                if self.is_alternate:
                    self.rows[self._row] += found["text"]
                else:
                    self.plain += found["text"]
