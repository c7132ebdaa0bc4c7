"""The one way out: everything that a command says goes through here or through the streams made here.

Names and messages come from everything that may write to a cluster or hand us a file, and a terminal would
act on what is in them. Lines and documents are made visible where they are written, and ``visible_streams``
does it once more for whatever else a command or a library writes. What a command itself does at a terminal
(colour, a line of progress) goes around the streams, to ``terminal_of``.
"""

import contextlib
import sys
from collections.abc import Iterable, Iterator
from typing import TextIO, cast

import click

from gpufleet.model.visible import json_text, visible_line, visible_text


class VisibleStream:
    """A text stream on which nothing hidden goes out but ends of lines and tabulators.

    ``terminal`` is what it writes to; bytes, which its ``buffer`` takes, are data and stay as they are.
    """

    def __init__(self, terminal: TextIO) -> None:
        self.terminal = terminal

    def write(self, text: str) -> int:
        """Write the text, made visible."""
        if not isinstance(text, str):
            raise TypeError(f"text is expected, not {type(text).__name__}")
        self.terminal.write(visible_text(text))
        return len(text)

    def writelines(self, lines: Iterable[str]) -> None:
        """Write each of them."""
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> object:
        return getattr(self.terminal, name)


@contextlib.contextmanager
def visible_streams() -> Iterator[None]:
    """Standard output and standard error are visible streams in here."""
    before = sys.stdout, sys.stderr
    sys.stdout, sys.stderr = (cast("TextIO", VisibleStream(terminal_of(one))) for one in before)
    try:
        yield
    finally:
        sys.stdout, sys.stderr = before


def terminal_of(stream: TextIO) -> TextIO:
    """What stands behind a visible stream, for colours and movements that are our own."""
    return stream.terminal if isinstance(stream, VisibleStream) else stream


def echo_line(line: str, *, err: bool = False) -> None:
    """One line for people."""
    click.echo(visible_line(line), err=err)


def echo_painted(line: str, *, colored: bool) -> None:
    """A line to which colours were given, after it was made visible."""
    click.echo(line, file=terminal_of(sys.stdout), color=colored)


def echo_json(value: object, *, indent: int = 2, err: bool = False) -> None:
    """A value for programs, on one line if ``indent`` is 0."""
    click.echo(json_text(value, indent), err=err)


def echo_data(text: str) -> None:
    """A text that is as its owner wrote it, for a file or a pipe; people see it made visible."""
    if sys.stdout.isatty():
        click.echo(visible_text(text), nl=False)
    else:
        # As bytes, because a stream of text refuses what a file may hold beside UTF-8.
        click.echo(text.encode("utf-8", "surrogateescape"), nl=False)
