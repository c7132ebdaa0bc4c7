"""What decides whether a pod may be evicted, as columns by pod row: to find candidates in one compiled pass.

No trial changes any of it: a pod's description, its times, and what ``lifecycle.departures`` notes of it.

A pod is written into the columns when these are read. Where nothing is ever evicted most pods come and go
without being written at all.
"""

from collections.abc import Iterable, Mapping

import numpy as np

from gpufleet.engine.arrays.array_types import Int64Array
from gpufleet.engine.arrays.layout import NOT_SET
from gpufleet.engine.arrays.numbering import Numbering
from gpufleet.engine.arrays.tables import grown
from gpufleet.model.identifiers import PodUid, QueueName
from gpufleet.model.named_parts import named_part_milli
from gpufleet.model.pod import Pod

QUEUE = 0  # the number of its queue
PRIORITY = 1  # of two victims the one with less goes first
CREATED_AT_US = 2  # of equal victims the newest goes first
ALONE = 3  # 1 for pods of no gang that may be evicted for another's sake; gangs are looked at as a whole
PARTS_MILLI = 4  # what it has of GPUs by names of parts, such as nvidia.com/mig-1g.10gb, in milli of a GPU
STARTED_AT_US = 5  # UNKNOWN for one that was not heard to run
CHECKPOINTED_AT_US = 6  # UNKNOWN without a checkpoint
LEAVING = 7  # 1 if it was told to end
REFUSED = 8  # 1 if its eviction was refused a moment ago
AWAITED_BY = 9  # the number of the first nomination that waits for it to go, or NO_NOMINATION
NOMINATION = 10  # the number of its nomination, or NO_NOMINATION
PLACED_IN_STEP = 11  # 1 if it was given its place in this very step
ORDER = 12  # ``order_of``
COLUMNS = 13  # how many there are

# Before every time, and after every number of a nomination: comparisons need no case of their own.
UNKNOWN = -(1 << 62)
NO_NOMINATION = 1 << 62
UUID_LENGTH = 36
PASSING = slice(STARTED_AT_US, ORDER)
"""The columns that do not follow from a description."""
NOT_HEARD_OF = np.array([UNKNOWN, UNKNOWN, 0, 0, NO_NOMINATION, NO_NOMINATION, 0], np.int64)
"""How it is in these with a pod of which nothing was heard."""


class EvictionColumns:
    """Cells by column and pod row; those of rows without a pod hold any value."""

    def __init__(self) -> None:
        self._cells: Int64Array = np.zeros((COLUMNS, 256), np.int64)
        self._queues: Numbering[QueueName] = Numbering()
        self._unwritten: dict[int, Pod] = {}
        self._unmarked: dict[int, None] = {}

    @property
    def cells(self) -> Int64Array:
        """Every cell as of now."""
        if self._unwritten or self._unmarked:
            self._catch_up()
        return self._cells

    def _catch_up(self) -> None:
        """Write the pods that came since the cells were last read, and the rows marked since then."""
        for row, pod in self._unwritten.items():
            if row >= self._cells.shape[1]:
                self._cells = np.asarray(grown(self._cells, 1, row + 1, 0), np.int64)
            self._cells[PASSING, row] = NOT_HEARD_OF
            self._cells[ORDER, row] = order_of(pod.uid)
            self._describe(row, pod)
        for row in self._unmarked:
            self._cells[PLACED_IN_STEP, row] = 1
        self._unwritten.clear()
        self._unmarked.clear()

    def begin(self, row: int, pod: Pod) -> None:
        """A row stands for a pod that was not known before."""
        self._unwritten[row] = pod
        self._unmarked.pop(row, None)

    def put(self, row: int, pod: Pod) -> None:
        """The pod of a row is described like this from now on, and was described otherwise before."""
        self._queues.drop(int(self.cells[QUEUE, row]))
        self._describe(row, pod)

    def _describe(self, row: int, pod: Pod) -> None:
        cells = self._cells
        cells[QUEUE, row] = self._queues.hold(pod.queue)
        cells[PRIORITY, row] = pod.priority
        cells[CREATED_AT_US, row] = pod.created_at_us
        cells[ALONE, row] = int(pod.makes_room and pod.gang is None)
        named = pod.shape.resources.other
        cells[PARTS_MILLI, row] = sum(named_part_milli(name) * count for name, count in named)

    def drop(self, row: int) -> None:
        """A row no longer stands for its pod."""
        self._unmarked.pop(row, None)
        if self._unwritten.pop(row, None) is None:
            self._queues.drop(int(self._cells[QUEUE, row]))

    def mark(self, row: int) -> None:
        """A row was given its place in this very step."""
        self._unmarked[row] = None

    def unmark(self, rows: Iterable[int]) -> None:
        """Rows were not given their place in this very step, but earlier."""
        # One by one: there is one row most of the time, for which an index of rows takes ten times as long.
        for row in rows:
            if row in self._unmarked:
                del self._unmarked[row]
            elif row < self._cells.shape[1]:
                self._cells[PLACED_IN_STEP, row] = 0

    def code(self, queue: QueueName) -> int:
        """The number of a queue; one that no pod has for a queue without pods."""
        return self.code_by_queue.get(queue, NOT_SET)

    @property
    def code_by_queue(self) -> Mapping[QueueName, int]:
        """The numbers of the queues that have pods."""
        return self._known_queues().number_by_value

    @property
    def queues(self) -> Iterable[QueueName]:
        """The queues that pods name."""
        return self._known_queues().number_by_value

    @property
    def codes(self) -> int:
        """Above every number of a queue."""
        return self._known_queues().bound

    def _known_queues(self) -> Numbering[QueueName]:
        if self._unwritten:
            self._catch_up()
        return self._queues


def order_of(uid: PodUid) -> int:
    """A number by which pods go that cost the same: that of the first 60 bits of a UUID.

    It follows from the pod alone. The number of its row does not: after a restart pods arrive in another
    order. Of a uid that is no UUID the first seven bytes count.
    """
    try:
        return int(f"{uid[:8]}{uid[9:13]}{uid[14:17]}", 16) if len(uid) == UUID_LENGTH else _first_bytes(uid)
    except ValueError:
        return _first_bytes(uid)


def _first_bytes(uid: PodUid) -> int:
    return int.from_bytes(uid.encode()[:7].ljust(7, b"\0"))


class TimesByRow:
    """One column of times, read and written like a mapping from rows."""

    def __init__(self, columns: EvictionColumns, column: int) -> None:
        self.columns = columns
        self.column = column

    def get(self, row: int, otherwise: int) -> int:
        """The time of a row, or ``otherwise`` where it is not known."""
        at_us = int(self.columns.cells[self.column, row])
        return otherwise if at_us == UNKNOWN else at_us

    def __setitem__(self, row: int, at_us: int) -> None:
        self.columns.cells[self.column, row] = at_us

    def __contains__(self, row: int) -> bool:
        return bool(self.columns.cells[self.column, row] != UNKNOWN)


class PlacedInStep:
    """The rows that were given their place in this very step."""

    def __init__(self, columns: EvictionColumns) -> None:
        self.columns = columns
        self._rows: dict[int, None] = {}

    def add(self, row: int) -> None:
        """A row was given its place."""
        self.columns.mark(row)
        self._rows[row] = None

    def __contains__(self, row: int) -> bool:
        return bool(self.columns.cells[PLACED_IN_STEP, row])

    def clear(self) -> None:
        """Another step begins."""
        if self._rows:
            self.columns.unmark(self._rows)
            self._rows.clear()
