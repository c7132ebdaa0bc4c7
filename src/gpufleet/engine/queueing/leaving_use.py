"""What queues use without the pods that leave: turns are given by that.

What a pod that leaves still holds is on its way to other work, and the search for victims counts it as gone.
If turns counted it, a queue would give its turn away while its own work leaves, and what started in its place
would be taken back for it at once.

Above a queue only use beyond its guarantee counts, so what is less there depends on what is used below. It is
carried up a queue at a time, as turns are settled: all below a queue before the queue itself.
"""

from collections.abc import Callable, Sequence

import numpy as np

from gpufleet.engine.arrays import layout
from gpufleet.engine.arrays.array_types import Int64Array
from gpufleet.engine.arrays.charge import charged
from gpufleet.engine.arrays.compiled import entry, kernel
from gpufleet.engine.arrays.handle import opened
from gpufleet.engine.arrays.tables import Tables, TableStore

# The layers of what leaves, by queue and resource column.
OWN = 0  # what pods of the queue itself are charged that leave
BELOW = 1  # by how much less the queues below it will count in it
ABOVE = 2  # by how much less it will count in the queue above it
LAYERS = 3

NO_ROWS = np.zeros(0, np.int64)
"""The rows of no pod."""


@kernel
def add_leaving(tables: Tables, pods: Int64Array, amounts: Int64Array) -> None:
    """Add what these pods, which leave, are charged where they are."""
    for number in range(len(pods)):
        pod = pods[number]
        queue = tables.pods[layout.POD_QUEUE, pod]
        if queue == layout.NOT_SET or tables.pods[layout.POD_NODE, pod] == layout.NOT_SET:
            continue
        for column in range(tables.quota_columns.shape[1]):
            amounts[OWN, queue, column] += charged(tables, pod, column)


@entry
def carry_up_by_handle(handle: Int64Array, queue: int, amounts: Int64Array) -> None:
    """Carry what leaves a queue to the one above it, by what the queue uses now."""
    tables = opened(Tables, handle)
    parent = tables.queues[layout.QUEUE_PARENT, queue]
    for column in range(amounts.shape[2]):
        counted = tables.queue_counted[queue, column]
        guaranteed = tables.queue_limits[layout.LIMIT_GUARANTEED, queue, column]
        left = counted - amounts[OWN, queue, column] - amounts[BELOW, queue, column]
        above = max(0, counted - guaranteed) - max(0, left - guaranteed)
        if parent != layout.NOT_SET:
            amounts[BELOW, parent, column] += above - amounts[ABOVE, queue, column]
        amounts[ABOVE, queue, column] = above


class LeavingUse:
    """What pods hold in the queues that leave, as of the turns of one cycle.

    ``rows_leaving`` tells the rows of all pods that leave.
    """

    def __init__(self, store: TableStore, rows_leaving: Callable[[], Int64Array] = lambda: NO_ROWS) -> None:
        self.store = store
        self.rows_leaving = rows_leaving
        self._amounts: Int64Array | None = None
        self._told: dict[int, None] = {}

    def forget(self) -> None:
        """Nothing is known of pods that leave."""
        self._amounts = None
        self._told.clear()

    def begin(self) -> list[int]:
        """Look at all pods that leave; the queues that they are of."""
        self.forget()
        return self._add(self.rows_leaving())

    def tell(self, row: int) -> None:
        """A pod leaves from now on; ``catch_up`` counts it."""
        self._told[row] = None

    def catch_up(self) -> list[int]:
        """Count the pods that were told to leave since the turns began; the queues that they are of."""
        if not self._told:
            return []
        rows = np.array(list(self._told), np.int64)
        self._told.clear()
        return self._add(rows)

    def _add(self, rows: Int64Array) -> list[int]:
        if not len(rows):
            return []
        tables = self.store.tables
        if self._amounts is None:
            self._amounts = np.zeros((LAYERS, *tables.queue_counted.shape), np.int64)
        add_leaving(tables, rows, self._amounts)
        queues = np.unique(tables.pods[layout.POD_QUEUE, rows])
        found: list[int] = queues[queues != layout.NOT_SET].tolist()
        return found

    def carry_up(self, queue: int) -> None:
        """The use of a queue, or of one below it, is another: so is what is less in the queue above it."""
        if self._amounts is not None:
            carry_up_by_handle(self.store.handle, queue, self._amounts)

    def used_without(self, queue: int) -> Sequence[int]:
        """By column, what a queue uses without the pods that leave."""
        used = self.store.tables.queue_counted[queue]
        if self._amounts is not None:
            used = used - self._amounts[OWN, queue] - self._amounts[BELOW, queue]
        without: list[int] = used.tolist()
        return without
