"""When lines of waiting work are to be looked at again: then their first workload may hold a reservation."""

import heapq

from gpufleet.engine.queueing.line import Line, LineKey
from gpufleet.engine.queueing.waiting import WaitingLines

SWEEP_FIRST = 64
"""So many more than there are lines are not worth sweeping."""


class RetryTimes:
    """A moment for each line that has one."""

    def __init__(self, waiting: WaitingLines) -> None:
        self.waiting = waiting
        self.heap: list[tuple[int, int, LineKey]] = []
        self._due_us_by_key: dict[LineKey, int] = {}
        self._number = 0

    def note(self, key: LineKey, due_us: int) -> None:
        """A line is to be looked at again then, and not at the moment that was noted before."""
        if self._due_us_by_key.get(key) == due_us:
            return
        self._number += 1
        self._due_us_by_key[key] = due_us
        # The number tells entries of one moment apart, so that keys are never compared.
        heapq.heappush(self.heap, (due_us, self._number, key))
        if len(self.heap) > SWEEP_FIRST + 2 * len(self.waiting.lines):
            self._sweep()

    def wake(self, at_us: int, *, behind_holders: bool) -> None:
        """Lines that are due wake; those that are behind the holder of their queue only if that is asked."""
        while self.heap and self.heap[0][0] <= at_us:
            due_us, _, key = heapq.heappop(self.heap)
            # An entry of another moment is an old one: the newest counts.
            if self._due_us_by_key.get(key) == due_us:
                del self._due_us_by_key[key]
                line = self.waiting.lines.get(key)
                if line is not None and line.parked and (behind_holders or not self._is_behind_holder(line)):
                    self.waiting.wake(key)

    def _is_behind_holder(self, line: Line) -> bool:
        """True if other work of its queue holds a place and has its turn before: a queue has one holder."""
        reserved = self.waiting.reserved_heads.get(line.key.queue)
        return reserved is not None and self.waiting.trim(line) and not line.head() < reserved

    def first_us(self) -> int | None:
        """When the next line is due."""
        return self.heap[0][0] if self.heap else None

    def _sweep(self) -> None:
        """Forget lines that are gone, and moments that were noted anew."""
        lines, due_us = self.waiting.lines, self._due_us_by_key
        self._due_us_by_key = {key: at_us for key, at_us in due_us.items() if key in lines}
        # A sorted list is a heap.
        self.heap = sorted(entry for entry in self.heap if self._due_us_by_key.get(entry[2]) == entry[0])
