"""Work that waits, in the order of its turn.

A queue holds *lines*: pods of one priority and one shape, oldest first, or one gang. Pods of a
line are interchangeable, so when the first cannot run the whole line is parked, and nothing in it
is looked at until room was freed that its shape could use: a hundred thousand waiting pods cost
what their few distinct shapes cost. ``cycle`` takes the heads; which queue goes first is asked of
a ``QueueOrder``.
"""

import heapq
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from gpufleet.model.identifiers import GangName, QueueName
from gpufleet.model.queue import Queue


class Head(NamedTuple):
    """The turn of a workload inside its queue; smaller goes first."""

    minus_priority: int
    created_at_us: int
    sequence: int


class QueueOrder(Protocol):
    """Which queue is served next: the seam for quota and fair share."""

    def key(self, queue: Queue, head: Head) -> tuple[int, ...]:
        """A sort key for a queue whose first workload is ``head``; the smallest is served.

        Asked anew after each decision about the queue.
        """
        ...


class PriorityOrder:
    """Queues by priority; equal ones as if they were a single queue."""

    def key(self, queue: Queue, head: Head) -> tuple[int, ...]:
        """Higher queue priority, then the head's own turn."""
        return (-queue.priority, *head)


class LineKey(NamedTuple):
    """What the workloads of a line have in common."""

    queue: QueueName
    priority: int
    shape_row: int
    gang: GangName | None = None


@dataclass(slots=True)
class Line:
    """Interchangeable workloads; ``waiting`` is a heap of (created, sequence, pod row).

    ``untold`` are pods that have not heard yet why they wait.
    """

    key: LineKey
    waiting: list[tuple[int, int, int]] = field(default_factory=list)
    parked: bool = False
    untold: list[tuple[int, int]] = field(default_factory=list)

    def head(self) -> Head:
        """The turn of the first workload."""
        created_at_us, sequence, _ = self.waiting[0]
        return Head(-self.key.priority, created_at_us, sequence)


class WaitingRoom:
    """Every queue with its lines."""

    def __init__(self, order: QueueOrder) -> None:
        self.order = order
        self.queues: dict[QueueName, Queue] = {}
        self.lines: dict[LineKey, Line] = {}
        self.parked_by_shape: dict[int, dict[LineKey, None]] = {}
        self.parked_gangs: dict[LineKey, None] = {}
        self._heads: dict[QueueName, list[tuple[Head, LineKey]]] = {}
        self._sequence_by_row: dict[int, int] = {}
        self._sequence = 0
        self._untold: dict[LineKey, None] = {}

    def queue(self, name: QueueName) -> Queue:
        """The queue of that name; one that nobody described has priority 0."""
        return self.queues.get(name) or Queue(name)

    def next_sequence(self) -> int:
        """The number of an arrival: what came first among equal times."""
        self._sequence += 1
        return self._sequence

    def put(self, key: LineKey, pod_row: int, created_at_us: int, sequence: int) -> None:
        """A pod takes its place in a line (a gang is put once, under any row of its own)."""
        line = self.lines.get(key)
        if line is None:
            line = self.lines[key] = Line(key)
        heapq.heappush(line.waiting, (created_at_us, sequence, pod_row))
        line.untold.append((sequence, pod_row))
        self._untold[key] = None
        self._sequence_by_row[pod_row] = sequence
        if not line.parked and line.waiting[0][1] == sequence:
            self._offer(line)

    def take_out(self, pod_row: int) -> None:
        """A pod no longer waits; its entry is dropped when it comes up."""
        self._sequence_by_row.pop(pod_row, None)

    def is_waiting(self, sequence: int, pod_row: int) -> bool:
        """True if this entry of a line still stands for a waiting pod."""
        return self._sequence_by_row.get(pod_row) == sequence

    def trim(self, line: Line) -> bool:
        """Drop pods from the front of a line that no longer wait; False if none is left."""
        while line.waiting and not self.is_waiting(line.waiting[0][1], line.waiting[0][2]):
            heapq.heappop(line.waiting)
        if line.waiting:
            return True
        self._close(line)
        return False

    def _close(self, line: Line) -> None:
        self.lines.pop(line.key, None)
        self._unpark(line)

    def _unpark(self, line: Line) -> None:
        line.parked = False
        self.parked_gangs.pop(line.key, None)
        parked = self.parked_by_shape.get(line.key.shape_row)
        if parked is not None:
            parked.pop(line.key, None)
            if not parked:
                del self.parked_by_shape[line.key.shape_row]

    def _offer(self, line: Line) -> None:
        heads = self._heads.setdefault(line.key.queue, [])
        heapq.heappush(heads, (line.head(), line.key))

    def advance(self, line: Line) -> None:
        """The first workload of the line was dealt with: the next one takes its place."""
        heapq.heappop(line.waiting)
        if self.trim(line):
            self._offer(line)

    def park(self, line: Line) -> None:
        """The line cannot run until room is freed."""
        line.parked = True
        if line.key.gang is not None:
            self.parked_gangs[line.key] = None
        else:
            self.parked_by_shape.setdefault(line.key.shape_row, {})[line.key] = None

    def wake(self, key: LineKey) -> None:
        """Room was freed that the line may use."""
        line = self.lines[key]
        self._unpark(line)
        if self.trim(line):
            self._offer(line)

    def first(self, name: QueueName) -> Line | None:
        """The line of a queue whose turn it is, None if nothing in the queue can run."""
        heads = self._heads.get(name)
        while heads:
            (_, created_at_us, sequence), key = heads[0]
            line = self.lines.get(key)
            if line is not None and not line.parked and self.trim(line):
                first = line.waiting[0]
                if first[1] == sequence and first[0] == created_at_us:
                    return line
            heapq.heappop(heads)
        self._heads.pop(name, None)
        return None

    def take_untold(self) -> list[LineKey]:
        """Lines with pods that have not heard yet why they wait."""
        keys = list(self._untold)
        self._untold.clear()
        return keys

    def tell_later(self, key: LineKey) -> None:
        """The line has pods to tell, but nobody knows yet what."""
        self._untold[key] = None

    def queues_with_work(self) -> list[QueueName]:
        """Queues that may have a workload that is not parked."""
        return list(self._heads)
