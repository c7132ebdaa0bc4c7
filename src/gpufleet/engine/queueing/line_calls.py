"""Which lines that quota keeps out take their turn when quota falls free: all that fit, queue by queue.

Most of them are called again the next time, and most queues find nothing changed then: the same lines with
the same first pods. So the lines of a queue stay together until one of them is another, with what was learned
of all of them. A cycle that starts ten pods then costs a look at each queue, and not one at each line.
"""

from collections.abc import Callable

import numpy as np

from gpufleet.engine.arrays import layout
from gpufleet.engine.arrays.array_types import Int64Array
from gpufleet.engine.queueing.kept_out import KeptOut
from gpufleet.engine.queueing.line import CalledLines, Line
from gpufleet.model.identifiers import QueueName

CALLED_TOGETHER_MAX = 64
"""How many lines of a queue are called at most: each turn looks at all of them. Further lines are woken."""


class LineCalls:
    """The lines of each queue that were called the last time."""

    def __init__(self, kept_out: KeptOut[Line]) -> None:
        self.kept_out = kept_out
        self._lines_by_row: dict[int, CalledLines] = {}
        self._row_by_number: dict[int, int] = {}

    def by_queue(
        self, numbers: Int64Array, wakes_at_once: Callable[[QueueName], bool]
    ) -> tuple[list[CalledLines], list[Line]]:
        """The lines of these numbers in ``kept_out``, queue by queue, and those that are to be woken at once.

        Both are in the order of their numbers. ``wakes_at_once`` tells of a queue that all its lines are.
        """
        self._forget_changed()
        found: list[CalledLines] = []
        woken: list[tuple[int, Line]] = []
        by_row, places = grouped(numbers, self.kept_out.queue_rows(numbers))
        for row, first, end in places:
            theirs = by_row[first:end]
            together = self._lines_by_row.get(row)
            if together is None or together.numbers != theirs:
                together = self._new(row, theirs, wakes_at_once, woken)
            if together.lines:
                found.append(together)
        if woken:
            # By number: the line that wakes first gives its number away first.
            woken.sort(key=lambda one: one[0])
            found.sort(key=lambda together: self.kept_out.number_of(together.lines[0]))
        return found, [line for _, line in woken]

    def _forget_changed(self) -> None:
        """Forget the lines of queues of which a line was put anew or is gone."""
        for number in self.kept_out.take_changed():
            row = self._row_by_number.pop(number, None)
            if row is not None:
                self._lines_by_row.pop(row, None)

    def _new(
        self,
        row: int,
        numbers: list[int],
        wakes_at_once: Callable[[QueueName], bool],
        woken: list[tuple[int, Line]],
    ) -> CalledLines:
        """The lines of a queue that are called together from now on; ``woken`` gets those that are not."""
        lines = [self.kept_out.key_at(number) for number in numbers]
        name = lines[0].key.queue
        together = self._lines_by_row[row] = CalledLines(name, numbers)
        wakes = wakes_at_once(name)
        for number, line in zip(numbers, lines, strict=True):
            self._row_by_number[number] = row
            if wakes or line.key.gang is not None or len(together.lines) == CALLED_TOGETHER_MAX:
                woken.append((number, line))
            else:
                line.beside = together
                together.lines.append(line)
        return together


def grouped(numbers: Int64Array, rows: Int64Array) -> tuple[list[int], list[tuple[int, int, int]]]:
    """The numbers by row, those of a row in their order; and for each row where its numbers begin and end.

    The rows are in the order of their first number.
    """
    if not len(numbers):
        return [], []
    # Stable, so that the numbers of a row, which ascend, stay as they are.
    order = np.argsort(rows, kind="stable")
    by_row, sorted_rows = numbers[order], rows[order]
    firsts = np.flatnonzero(np.diff(sorted_rows, prepend=layout.NOT_SET - 1))
    ends = np.append(firsts[1:], len(rows))
    turns = np.argsort(by_row[firsts])
    places = (sorted_rows[firsts][turns].tolist(), firsts[turns].tolist(), ends[turns].tolist())
    return by_row.tolist(), list(zip(*places, strict=True))
