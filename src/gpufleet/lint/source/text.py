"""One text that is linted, and where in it an offset stands; ``parse`` makes nodes of it."""

from bisect import bisect_right
from dataclasses import dataclass
from functools import cached_property

BYTE_ORDER_MARK = "\ufeff"


@dataclass(frozen=True, order=True)
class Position:
    """Line and column as editors count them, from one."""

    line: int
    column: int


@dataclass(frozen=True)
class SourceText:
    """A named text. Offsets count its characters."""

    name: str
    text: str

    @cached_property
    def _line_starts(self) -> list[int]:
        # Only what editors count as the end of a line: a parser of YAML 1.1 counts others too.
        starts = [0]
        found = self.text.find("\n")
        while found >= 0:
            starts.append(found + 1)
            found = self.text.find("\n", found + 1)
        return starts

    def position(self, offset: int) -> Position:
        """Where this offset stands."""
        line = bisect_right(self._line_starts, offset)
        return Position(line, offset - self._line_starts[line - 1] + 1)

    def line_start(self, offset: int) -> int:
        """The offset at which the line of this offset begins."""
        return self._line_starts[bisect_right(self._line_starts, offset) - 1]

    def line_end(self, offset: int) -> int:
        """The offset at which the line of this offset ends, before its line break."""
        end = self.text.find("\n", offset)
        if end < 0:
            return len(self.text)
        return end - 1 if end > offset and self.text[end - 1] == "\r" else end

    def next_line(self, offset: int) -> int:
        """The offset at which the line after that of this offset begins, or the end of the text."""
        end = self.text.find("\n", offset)
        return len(self.text) if end < 0 else end + 1

    def line(self, number: int) -> str:
        """The line of this number, without its line break; empty beyond the end."""
        if number > len(self._line_starts):
            return ""
        start = self._line_starts[number - 1]
        return self.text[start : self.line_end(start)]

    @property
    def newline(self) -> str:
        """The line break that the text uses."""
        first = self.text.find("\n")
        return "\r\n" if first > 0 and self.text[first - 1] == "\r" else "\n"


@dataclass(frozen=True)
class Problem:
    """Why a part of the input could not be judged: it is malformed, or of a wrong type."""

    source: str
    position: Position
    reason: str

    @property
    def place(self) -> str:
        """Where it is, as editors read it."""
        return f"{self.source}:{self.position.line}:{self.position.column}"

    def __str__(self) -> str:
        """The problem as one line, with its place in front."""
        return f"{self.place}: {self.reason}"
