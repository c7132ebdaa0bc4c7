"""The terminal is as it was before, however the view ends."""

import os
import pty
import select
import termios
from collections.abc import Iterator

import pytest

from gpufleet.top.live.terminal import LEAVE, Terminal
from gpufleet.top.screen.frame import Size

QUIET_S = 0.2
"""What was written arrives at the other side within a fraction of this."""


@pytest.fixture
def sides() -> Iterator[tuple[int, int]]:
    """The two sides of a pseudo-terminal: the person's, and the program's."""
    ours, theirs = pty.openpty()
    yield ours, theirs
    for one in (ours, theirs):
        os.close(one)


def written(ours: int) -> str:
    """All that was written so far; the kernel may hand it over in pieces."""
    found = b""
    while select.select([ours], [], [], QUIET_S)[0]:
        found += os.read(ours, 1 << 16)
    return found.decode()


def test_keys_come_at_once_and_unshown_and_afterwards_as_before(sides: tuple[int, int]) -> None:
    ours, theirs = sides
    before = termios.tcgetattr(theirs)
    with Terminal(theirs, theirs):
        during = termios.tcgetattr(theirs)
        assert not during[3] & (termios.ICANON | termios.ECHO | termios.ISIG)
        os.write(ours, b"\x03q")
        assert os.read(theirs, 10) == b"\x03q"
    assert termios.tcgetattr(theirs) == before
    assert written(ours).endswith(LEAVE)


def test_an_error_restores_it_too(sides: tuple[int, int]) -> None:
    ours, theirs = sides
    before = termios.tcgetattr(theirs)
    with pytest.raises(ZeroDivisionError), Terminal(theirs, theirs):
        raise ZeroDivisionError
    assert termios.tcgetattr(theirs) == before
    assert written(ours).endswith(LEAVE)


def test_only_rows_that_changed_are_written(sides: tuple[int, int]) -> None:
    ours, theirs = sides
    with Terminal(theirs, theirs) as terminal:
        written(ours)
        terminal.draw(["one", "two"])
        assert "one" in written(ours)
        terminal.draw(["one", "three"])
        found = written(ours)
        assert "three" in found
        assert "one" not in found
        terminal.draw(["one", "three"])
        terminal.forget()
        terminal.draw(["one", "three"])
        assert "one" in written(ours)


def test_a_terminal_without_a_size_is_taken_for_a_usual_one(sides: tuple[int, int]) -> None:
    assert Terminal(sides[1], sides[1]).size() == Size(80, 24)
