"""Work that waits, in the order of its turn.

A queue holds *lines*: pods of one priority and one shape, oldest first, or one gang. Pods of a
line are interchangeable (but for their labels, see ``LineKey.apart``), so when the first cannot
run the whole line is parked, and nothing in it is looked at until room was freed that its shape
could use: a hundred thousand waiting pods cost what their few distinct shapes cost. ``cycle`` takes
the heads; which queue goes first is decided by ``turns``.

Entries of heaps are dropped when they come up, not when their pod leaves. A heap that is mostly
such entries is swept, so that work which comes and goes behind a blocked head costs no memory.
"""

import heapq
from collections.abc import Iterable, Iterator
from typing import TypeVar

from gpufleet.engine.arrays.array_types import Int64Array
from gpufleet.engine.queueing.kept_out import KeptOut
from gpufleet.engine.queueing.line import SWEEP_FIRST, CalledLines, Entry, Head, Line, LineKey
from gpufleet.engine.queueing.line_calls import LineCalls
from gpufleet.model.identifiers import QueueName
from gpufleet.model.queue import Queue

Group = TypeVar("Group")


class WaitingLines:
    """Every queue with its lines."""

    def __init__(self) -> None:
        self.queues: dict[QueueName, Queue] = {}
        self.lines: dict[LineKey, Line] = {}
        self.parked_by_shape: dict[int, dict[LineKey, None]] = {}
        self.parked_gangs: dict[LineKey, None] = {}
        self.kept_out: KeptOut[Line] = KeptOut()
        self.called: dict[QueueName, CalledLines] = {}
        self._calls = LineCalls(self.kept_out)
        self.reserved_heads: dict[QueueName, Head] = {}
        self._parked_by_queue: dict[QueueName, dict[LineKey, None]] = {}
        self._heads: dict[QueueName, list[tuple[Head, LineKey]]] = {}
        self._entry_by_row: dict[int, Entry] = {}
        self.last_sequence = 0
        self._parked: dict[Line, None] = {}
        self._called = 0
        self.unreported: dict[LineKey, None] = {}

    def queue(self, name: QueueName) -> Queue:
        """The queue of that name; one that is not described has priority 0."""
        return self.queues.get(name) or Queue(name)

    def next_sequence(self) -> int:
        """The number of an arrival: what came first among equal times."""
        self.last_sequence += 1
        return self.last_sequence

    def put(self, key: LineKey, pod_row: int, created_at_us: int, name: str, sequence: int) -> None:
        """A pod takes its place in a line (a gang is put once, under any row of its own)."""
        line = self.lines.get(key)
        if line is None:
            line = self.lines[key] = Line(key)
        entry = (created_at_us, name, sequence, line, pod_row)
        waiting, unreported = line.waiting, line.unreported
        heapq.heappush(waiting, entry)
        if not unreported or key.gang is not None:
            # A line with pods that have not heard is noted already, and its key takes long to look up.
            self.unreported[line.key] = None
        unreported[sequence] = pod_row
        self._entry_by_row[pod_row] = entry
        if len(waiting) > line.sweep_at or len(unreported) > line.sweep_at:
            self._sweep(line)
        if line.beside is not None and line.waiting[0] is entry:
            line.beside.spoil()
        # Behind the first of a line that stands in its queue nothing changes there.
        if not line.parked and (line.offered is None or line.waiting[0] is entry):
            self._offer(line)

    def _sweep(self, line: Line) -> None:
        """Drop every entry that no longer stands for a waiting pod."""
        entries = self._entry_by_row
        line.waiting = [entry for entry in line.waiting if entries.get(entry[-1]) is entry]
        heapq.heapify(line.waiting)
        unreported = line.unreported.items()
        line.unreported = {
            sequence: row for sequence, row in unreported if self.is_waiting(line, sequence, row)
        }
        # Twice what is left: a sweep is paid for by the entries that came since the last one.
        line.sweep_at = max(SWEEP_FIRST, 2 * len(line.waiting))

    def take_out(self, pod_row: int) -> None:
        """A pod no longer waits; its entry is dropped when it comes up."""
        entry = self._entry_by_row.pop(pod_row, None)
        if entry is not None and entry[3].beside is not None:
            entry[3].beside.spoil()

    def withdraw(self, pod_row: int) -> None:
        """A pod leaves although it was not its turn: its line ends with its last pod."""
        entry = self._entry_by_row.pop(pod_row, None)
        if entry is not None:
            self.trim(entry[3])

    def is_waiting(self, line: Line, sequence: int, pod_row: int) -> bool:
        """True if the pod of this row and sequence still waits in this line.

        A pod that was described anew keeps its sequence and may wait in another line.
        """
        entry = self._entry_by_row.get(pod_row)
        return entry is not None and entry[2] == sequence and entry[3] is line

    def unreported_rows(self, line: Line) -> list[int]:
        """The pods of a line that wait and have not heard yet why, in the order of their arrival there."""
        # ``is_waiting`` for all of them: a call for each of a hundred thousand takes several times as long.
        entries = self._entry_by_row
        return [
            row
            for sequence, row in line.unreported.items()
            if (entry := entries.get(row)) is not None and entry[2] == sequence and entry[3] is line
        ]

    def trim(self, line: Line) -> bool:
        """Drop pods from the front of a line that no longer wait; False if none is left."""
        waiting, entries = line.waiting, self._entry_by_row
        while waiting:
            entry = waiting[0]
            if entries.get(entry[-1]) is entry:
                return True
            heapq.heappop(waiting)
            if line.beside is not None:
                line.beside.spoil()
        self._close(line)
        return False

    def trimmed(self, lines: Iterable[Line]) -> list[Line]:
        """Those of the lines of which ``trim`` leaves anything."""
        # In most lines the first pod still waits, which is seen here: thousands of calls would take longer.
        entries = self._entry_by_row
        return [
            line
            for line in lines
            if ((waiting := line.waiting) and entries.get((first := waiting[0])[-1]) is first)
            or self.trim(line)
        ]

    def _close(self, line: Line) -> None:
        if line.closed:
            # By now another line may stand for its key.
            return
        self.lines.pop(line.key, None)
        line.closed = True
        # An entry knows its line: without this they would keep each other.
        line.refused_first = None
        if line.parked:
            self._unpark(line)

    def _unpark(self, line: Line) -> None:
        self._parked.pop(line, None)
        line.parked = False
        if line.beside is not None:
            self._called -= line.beside.is_called
            line.beside.spoil()
            line.beside = None
        self.parked_gangs.pop(line.key, None)
        self.kept_out.discard(line)
        take_from(self.parked_by_shape, line.key.shape_row, line.key)
        take_from(self._parked_by_queue, line.key.queue, line.key)

    def _offer(self, line: Line) -> None:
        """See to it that the line stands in its queue, at its head's turn or an earlier one."""
        head = line.head()
        if line.offered is not None and line.offered <= head:
            return
        line.offered = head
        heads = self._heads.setdefault(line.key.queue, [])
        heapq.heappush(heads, (head, line.key))
        if len(heads) > SWEEP_FIRST + 2 * len(self.lines):
            # A sorted list is a heap.
            heads[:] = sorted({entry for entry in heads if self._offered_at(*entry) is not None})

    def _offered_at(self, head: Head, key: LineKey) -> Line | None:
        """The line that stands in its queue by this entry, None for an entry that is out of date."""
        line = self.lines.get(key)
        return line if line is not None and not line.parked and line.offered == head else None

    def advance(self, line: Line) -> None:
        """The first workload of the line was dealt with: the next one takes its place."""
        heapq.heappop(line.waiting)
        line.offered = None
        if self.trim(line):
            self._offer(line)

    def others_wait(self, line: Line) -> bool:
        """True if there may be work besides this line's that has not been refused yet."""
        return len(self.lines) - len(self._parked) + self._called > (not line.parked)

    def retime(self, line: Line, created_at_us: int) -> None:
        """The one workload of a line has its turn as if it had come at this time."""
        entry = (created_at_us, *line.waiting[0][1:])
        line.waiting[0] = self._entry_by_row[entry[-1]] = entry
        line.offered = None
        if not line.parked:
            self._offer(line)

    def move_first(self, line: Line, key: LineKey) -> None:
        """The first workload of the line goes to the line of this key, and is told there if at all."""
        created_at_us, name, sequence, _, pod_row = line.waiting[0]
        was_unreported = line.take_unreported(sequence)
        self.advance(line)
        self.put(key, pod_row, created_at_us, name, sequence)
        if not was_unreported:
            self.lines[key].take_unreported(sequence)

    def park(self, line: Line, *, holds_back: bool = True, lacks_room: bool = True) -> None:
        """The line cannot run until room is freed.

        ``holds_back`` False lets work behind it in a strict queue go on: what a gang that runs
        would still like to have. ``lacks_room`` False: no room would help, it is woken by other
        changes.
        """
        self._parked[line] = None
        line.parked = True
        line.holds_back = holds_back
        line.offered = None
        self._parked_by_queue.setdefault(line.key.queue, {})[line.key] = None
        if not lacks_room:
            return
        if line.key.gang is not None:
            self.parked_gangs[line.key] = None
        else:
            self.parked_by_shape.setdefault(line.key.shape_row, {})[line.key] = None

    def waits_for_room(self, key: LineKey) -> bool:
        """True if the line is parked until room is freed."""
        return key in self.parked_gangs or key in self.parked_by_shape.get(key.shape_row, {})

    def wake(self, key: LineKey) -> None:
        """Room was freed that the line may use."""
        line = self.lines[key]
        self._unpark(line)
        if self.trim(line):
            self._offer(line)

    def parked_lines(self) -> Iterator[Line]:
        """The lines that are parked, have work and take no turn in this step, queue by queue.

        Nothing may be parked or woken until the last one was taken.
        """
        parked = (self.lines[key] for keys in self._parked_by_queue.values() for key in keys)
        return (line for line in parked if not line.called and self.trim(line))

    def parked_but_for_quota(self) -> set[Line]:
        """The lines that are parked for another reason than that quota keeps them out."""
        # All of those are parked: where they are as many nothing has to be compared.
        if len(self._parked) == len(self.kept_out):
            return set()
        # Sets are compared in C: with a thousand queues most parked lines are kept out by quota.
        return self._parked.keys() - self.kept_out.keys()

    def call(self, numbers: Int64Array) -> None:
        """The queues of lines that quota keeps out may have more: these take their turn.

        ``numbers`` are theirs in ``kept_out``. Most lines that are called are not served, because the quota
        is gone before. So a line stays parked until it is its turn and it is woken. Where one line holds back
        others, and for a gang, which is retimed, that would not be the same, so these are woken at once.
        """
        found, woken = self._calls.by_queue(numbers, self._wakes_at_once)
        for line in woken:
            self.wake(line.key)
        for lines in found:
            lines.is_called = True
            self.called[lines.queue] = lines
            self._called += len(lines.lines)

    def _wakes_at_once(self, name: QueueName) -> bool:
        queue = self.queues.get(name)
        return queue is None or queue.strict

    def end_calls(self) -> None:
        """Lines that were called stay parked: it was not their turn, or they were refused together."""
        for lines in self.called.values():
            lines.is_called = False
        self._called = 0
        self.called.clear()

    def first(self, name: QueueName) -> Line | None:
        """The line of a queue whose turn it is, None if nothing in the queue can run."""
        awake = self._first_awake(name) if name in self._heads else None
        called = self._first_called(name) if name in self.called else None
        # A line that was called stays parked, so it is not among the others.
        if called is None or awake is None:
            return awake or called
        return called if called.head() < awake.head() else awake

    def _first_called(self, name: QueueName) -> Line | None:
        """The parked line of a queue that was called and has the best turn."""
        together = self.called[name]
        known = together.first
        if known is not None and self._entry_by_row.get(known[-1]) is known:
            return known[3]
        while True:
            first, entry, priority = None, None, 0
            for line in together.left():
                one, theirs = line.waiting[0], line.key.priority
                if entry is None or theirs > priority or (theirs == priority and one < entry):
                    first, entry, priority = line, one, theirs
            if first is None:
                return None
            # What stands for no waiting pod any more is dropped, and then another may be first.
            if self.trim(first) and first.waiting[0] is entry:
                together.first = entry
                return first

    def _first_awake(self, name: QueueName) -> Line | None:
        """The line of a queue that is not parked and has the best turn."""
        heads = self._heads.get(name)
        while heads:
            head, key = heads[0]
            line = self._offered_at(head, key)
            if line is not None and self.trim(line):
                first = line.waiting[0]
                # The number of an arrival stands for its name, too: the same workload is the first.
                if first[2] == head.sequence and first[0] == head.created_at_us:
                    return None if self._is_held_back(line) else line
                line.offered = None
                self._offer(line)
            heapq.heappop(heads)
        self._heads.pop(name, None)
        return None

    def _is_held_back(self, line: Line) -> bool:
        """True if an earlier workload of a strict queue waits for room."""
        name = line.key.queue
        queue = self.queues.get(name)
        if queue is None or not queue.strict:
            return False
        # A holder of a reservation waits too, and stands in no line meanwhile.
        reserved = self.reserved_heads.get(name)
        if reserved is not None and reserved < line.head():
            return True
        if name not in self._parked_by_queue:
            return False
        parked = [self.lines[key] for key in self._parked_by_queue[name]]
        return any(one.holds_back and self.trim(one) and one.head() < line.head() for one in parked)

    def take_unreported(self) -> list[LineKey]:
        """Lines with pods that have not heard yet why they wait."""
        if not self.unreported:
            return []
        keys = list(self.unreported)
        self.unreported.clear()
        return keys

    def tell_later(self, key: LineKey) -> None:
        """The line has pods to tell, but it is not known yet what."""
        self.unreported[key] = None

    @property
    def has_turns(self) -> bool:
        """True if some queue may have a workload that is not parked, or was called."""
        return bool(self._heads or self.called)

    def queues_with_work(self) -> list[QueueName]:
        """Queues that may have a workload that is not parked, or was called."""
        return list(self._heads | self.called) if self.called else list(self._heads)

    def awake(self) -> Iterator[Line]:
        """The lines that are not parked."""
        entries = (entry for heads in self._heads.values() for entry in heads)
        return (line for entry in entries if (line := self._offered_at(*entry)) is not None)


def take_from(groups: dict[Group, dict[LineKey, None]], group: Group, key: LineKey) -> None:
    """Take a line out of its group, and the group away with its last line."""
    lines = groups.get(group)
    if lines is not None:
        lines.pop(key, None)
        if not lines:
            del groups[group]
