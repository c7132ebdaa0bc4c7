"""The state of the engine as a struct of arrays, and how it grows.

``Tables`` is handed to every kernel. Arrays have spare rows; when one is full a larger one takes
its place, so a ``Tables`` value must be fetched anew from ``TableStore.tables`` after anything
was added. What a trial may touch is written through ``journal`` only.
"""

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from gpufleet.engine.arrays import layout
from gpufleet.engine.arrays.array_types import Cube, Flags, Grid, Int64Array, Line, SmallGrid
from gpufleet.engine.arrays.handle import Handle


class Tables(NamedTuple):
    """Every array of the engine; see ``layout`` for the columns."""

    nodes: Grid
    resources_free: Grid
    kinds: Grid
    devices: Grid
    pods: Grid
    pod_devices: SmallGrid
    shapes: Grid
    shape_resources: Grid
    shape_models: Flags
    counters: Line
    journal: Grid
    changes: Line
    changed_at: Line
    gained_at: Line
    queues: Grid
    queue_counted: Grid
    queue_total: Grid
    queue_protected: Grid
    queue_limits: Cube
    quota_columns: Grid
    shape_charges: Grid
    shape_claims: Grid
    model_prices: Line


def grown(array: npt.NDArray[np.generic], axis: int, size: int, fill: int) -> npt.NDArray[np.generic]:
    """A copy of the array with at least ``size`` entries along ``axis``, new ones set to ``fill``."""
    shape = list(array.shape)
    shape[axis] = max(size, 2 * shape[axis])
    # Memory of which nothing but zeros was ever asked is handed out when it is written to.
    larger = np.full(shape, fill, dtype=array.dtype) if fill else np.zeros(shape, dtype=array.dtype)
    larger[tuple(slice(0, length) for length in array.shape)] = array
    return larger


# field of Tables -> (axis of its rows, value of an empty row)
GROWTH = {
    "nodes": (1, 0),
    "resources_free": (0, 0),
    "kinds": (0, 0),
    "devices": (1, 0),
    "pods": (1, 0),
    "pod_devices": (0, layout.NOT_SET),
    "shapes": (1, 0),
    "shape_resources": (0, 0),
    "shape_models": (0, 0),
    "journal": (0, 0),
    "changed_at": (0, layout.NOT_SET),
    "gained_at": (0, layout.NOT_SET),
    "queues": (1, 0),
    "queue_counted": (0, 0),
    "queue_total": (0, 0),
    "queue_protected": (0, 0),
    "queue_limits": (1, 0),
    "quota_columns": (1, layout.NOT_SET),
    "shape_charges": (0, 0),
    "shape_claims": (0, 0),
    "model_prices": (0, layout.ONE_PRICE_MILLI),
}


class TableStore:
    """Owns the arrays and replaces those that are full."""

    def __init__(self) -> None:
        self._handle = Handle()
        self.writes_a_charge = 0
        self.tables = Tables(
            nodes=np.zeros((layout.NODE_COLUMNS, 64), np.int64),
            resources_free=np.zeros((64, layout.RESOURCE_FIXED_COLUMNS), np.int64),
            kinds=np.zeros((64, layout.KIND_COLUMNS), np.int64),
            devices=np.zeros((layout.DEVICE_COLUMNS, 256), np.int64),
            pods=np.zeros((layout.POD_COLUMNS, 256), np.int64),
            pod_devices=np.full((256, layout.DEVICES_A_POD_AT_FIRST), layout.NOT_SET, np.int32),
            shapes=np.zeros((layout.SHAPE_COLUMNS, 64), np.int64),
            shape_resources=np.zeros((64, layout.RESOURCE_FIXED_COLUMNS), np.int64),
            shape_models=np.zeros((64, 8), np.bool_),
            counters=np.zeros(layout.COUNTER_COLUMNS, np.int64),
            journal=np.zeros((4096, 4), np.int64),
            changes=np.zeros(1024, np.int64),
            changed_at=np.full(64, layout.NOT_SET, np.int64),
            gained_at=np.full(64, layout.NOT_SET, np.int64),
            queues=np.zeros((layout.QUEUE_COLUMNS, 8), np.int64),
            queue_counted=np.zeros((8, 4), np.int64),
            queue_total=np.zeros((8, 4), np.int64),
            queue_protected=np.zeros((8, 4), np.int64),
            queue_limits=np.zeros((layout.LIMIT_KINDS, 8, 4), np.int64),
            quota_columns=np.full((layout.QUOTA_COLUMNS, 4), layout.NOT_SET, np.int64),
            shape_charges=np.zeros((64, 4), np.int64),
            shape_claims=np.zeros((64, 4), np.int64),
            model_prices=np.full(8, layout.ONE_PRICE_MILLI, np.int64),
        )

    @property
    def handle(self) -> Int64Array:
        """The tables as a kernel's argument; good until the next addition."""
        return self._handle.of(self.tables)

    def make_room(self, field: str, rows: int, axis: int | None = None) -> None:
        """See to it that the table ``field`` has at least ``rows`` rows (or columns, by ``axis``)."""
        row_axis, fill = GROWTH[field]
        array = getattr(self.tables, field)
        along = row_axis if axis is None else axis
        if array.shape[along] < rows:
            larger: Any = {field: grown(array, along, rows, fill)}
            self.tables = self.tables._replace(**larger)

    def make_node_room(self, rows: int) -> None:
        """Room for ``rows`` nodes in every table that has a row a node."""
        for field in ("nodes", "resources_free", "kinds", "changed_at", "gained_at"):
            self.make_room(field, rows)
        if len(self.tables.changes) < rows:
            self._lengthen_changes(rows)

    def _lengthen_changes(self, rows: int) -> None:
        """A longer ring of changes; the positions in it move, so the old entries are replayed."""
        old = self.tables.changes
        longer = np.zeros(max(rows, 2 * len(old)), np.int64)
        head = int(self.tables.counters[layout.COUNTER_CHANGES])
        for position in range(max(0, head - len(old)), head):
            longer[position % len(longer)] = old[position % len(old)]
        self.tables = self.tables._replace(changes=longer)

    def make_resource_room(self, columns: int) -> None:
        """Room for ``columns`` kinds of host resource."""
        self.make_room("resources_free", columns, axis=1)
        self.make_room("shape_resources", columns, axis=1)

    def make_queue_room(self, rows: int, columns: int) -> None:
        """Room for that many queues and quota resources."""
        for field in ("queues", "queue_counted", "queue_total", "queue_protected", "queue_limits"):
            self.make_room(field, rows)
        for field in ("queue_counted", "queue_total", "queue_protected", "shape_charges", "shape_claims"):
            self.make_room(field, columns, axis=1)
        self.make_room("queue_limits", columns, axis=2)
        self.make_room("quota_columns", columns)

    def mark(self) -> int:
        """Where the journal stands; ``journal.undo`` comes back here."""
        return int(self.tables.counters[layout.COUNTER_JOURNAL_LENGTH])

    def keep(self) -> None:
        """What was written so far stays for good: the journal is empty again."""
        self.tables.counters[layout.COUNTER_JOURNAL_LENGTH] = 0

    def make_journal_room(self, writes: int) -> None:
        """Room for that many more journalled writes."""
        tables = self.tables
        rows = tables.counters.item(layout.COUNTER_JOURNAL_LENGTH) + writes
        if rows > len(tables.journal):
            self.make_room("journal", rows)
