"""Which lines are called together, and that what is kept of them from cycle to cycle decides nothing."""

import numpy as np
import pytest

from gpufleet.engine.queueing.kept_out import KeptOut
from gpufleet.engine.queueing.line import Line, LineKey
from gpufleet.engine.queueing.line_calls import CALLED_TOGETHER_MAX, LineCalls
from gpufleet.engine.queueing.turns import Turns
from gpufleet.model.identifiers import GangName, QueueName
from tests.engine.queueing.backlog import told

NOTHING = np.zeros(1, np.int64)
ROWS = {"a": 7, "b": 3}


def line(queue: str, shape: int, gang: str | None = None) -> Line:
    """A line without work."""
    return Line(LineKey(QueueName(queue), 0, shape, None if gang is None else GangName(gang)))


class Calls:
    """Lines that quota keeps out, and who is called of them."""

    def __init__(self, *lines: Line) -> None:
        self.kept_out: KeptOut[Line] = KeptOut()
        self.calls = LineCalls(self.kept_out)
        for one in lines:
            self.put(one)

    def put(self, one: Line) -> None:
        """Quota keeps a line out (again)."""
        self.kept_out.put(one, ROWS[one.key.queue], NOTHING, NOTHING)

    def call(self, *lines: Line, wakes: str = "") -> tuple[list[list[Line]], list[Line]]:
        """The lines that are called, queue by queue, and those that are woken."""
        numbers = np.array(sorted(map(self.kept_out.number_of, lines)), np.int64)
        found, woken = self.calls.by_queue(numbers, wakes.__eq__)
        return [together.lines for together in found], woken


def test_lines_are_called_queue_by_queue_in_the_order_in_which_they_came() -> None:
    b1, a1, b2, a2 = (line(queue, shape) for shape, queue in enumerate("baba"))
    assert Calls(b1, a1, b2, a2).call(b1, a1, b2, a2) == ([[b1, b2], [a1, a2]], [])


def test_a_queue_of_which_nothing_changed_has_the_same_lines_together() -> None:
    a1, a2, b1 = line("a", 1), line("a", 2), line("b", 1)
    calls = Calls(a1, a2, b1)
    calls.call(a1, a2, b1)
    of_a, of_b = a1.beside, b1.beside
    # Where quota fell free in another tree, nothing of this one is asked, and it stays as it was.
    assert calls.call(b1) == ([[b1]], [])
    assert calls.call(a1, a2, b1) == ([[a1, a2], [b1]], [])
    assert a1.beside is a2.beside is of_a
    assert b1.beside is of_b


def test_a_line_that_fits_no_more_or_was_kept_out_again_leaves_new_company() -> None:
    a1, a2 = line("a", 1), line("a", 2)
    calls = Calls(a1, a2)
    calls.call(a1, a2)
    before = a1.beside
    assert calls.call(a1) == ([[a1]], [])
    assert a1.beside is not before
    calls.kept_out.discard(a2)
    calls.put(a2)
    assert calls.call(a1, a2) == ([[a1, a2]], [])
    assert a1.beside is a2.beside


def test_gangs_and_lines_of_queues_that_wake_at_once_are_woken_in_their_order() -> None:
    team, b1, a1, a2 = line("a", 0, "team"), line("b", 1), line("a", 1), line("a", 2)
    assert Calls(team, b1, a1, a2).call(team, b1, a1, a2) == ([[b1], [a1, a2]], [team])
    assert Calls(team, b1, a1, a2).call(team, b1, a1, a2, wakes="a") == ([[b1]], [team, a1, a2])


def test_so_many_lines_of_a_queue_are_called_and_the_others_are_woken() -> None:
    lines = [line("a", shape) for shape in range(CALLED_TOGETHER_MAX + 2)]
    assert Calls(*lines).call(*lines) == ([lines[:-2]], lines[-2:])


@pytest.mark.parametrize("seed", range(4))
def test_a_scheduler_that_keeps_nothing_of_called_lines_says_the_same(
    monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    said = told(seed).said

    def forget_all(calls: LineCalls) -> None:
        calls.kept_out.take_changed()
        calls._lines_by_row.clear()

    def forget_keys(turns: Turns) -> None:
        turns._lasting_keys.clear()
        turns._called_contestants.clear()

    monkeypatch.setattr(LineCalls, "_forget_changed", forget_all)
    monkeypatch.setattr(Turns, "_forget_keys_of_other_use", forget_keys)
    assert told(seed).said == said
