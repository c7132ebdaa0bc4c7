"""How many pods of a shape each node could take: kept as long as no node changes.

A thousand gangs that wait may ask for the same shape. Each of them is counted out before anything is tried,
and once more for the reason that its owner reads; between two of them no node has changed.
"""

from typing import NamedTuple

import numpy as np

from gpufleet.engine.arrays import layout
from gpufleet.engine.arrays.array_types import Int64Array
from gpufleet.engine.arrays.tables import TableStore
from gpufleet.engine.place.choose.placement import room_by_node
from gpufleet.engine.state.shapes import ShapeTable
from gpufleet.model.shape import Shape

KEPT_MAX = 16
"""Each keeps a number for every node, and gangs of many shapes seldom wait in turns."""


class Room(NamedTuple):
    """Pods by row of a node, and their sum; for all who ask, so nothing is written into it."""

    places: Int64Array
    total: int


class ShapeRooms:
    """The room of the fleet as it is, ``limit`` pods on each node at most."""

    def __init__(self, store: TableStore, shapes: ShapeTable, limit: int) -> None:
        self._store = store
        self._shapes = shapes
        self._limit = limit
        self._known: dict[int, tuple[Shape, Room]] = {}
        self._as_of = layout.NOT_SET

    def none(self) -> Room:
        """The room of a shape that no node may take."""
        return Room(np.zeros(self._shapes.fleet.row_count, np.int64), 0)

    def of(self, slot: int) -> Room:
        """The room of the shape in a ranking slot."""
        as_of = self._store.tables.counters.item(layout.COUNTER_CHANGES)
        if as_of != self._as_of or len(self._known) > KEPT_MAX:
            self._known.clear()
            self._as_of = as_of
        row = self._shapes.rankings.state.item(slot, layout.RANKING_SHAPE)
        shape, known = self._shapes.shape_at(row), self._known.get(row)
        # A row may have been given to another shape while no node changed.
        if known is None or known[0] is not shape:
            known = (shape, self._counted(slot))
            self._known[row] = known
        return known[1]

    def _counted(self, slot: int) -> Room:
        places, _ = self.none()
        return Room(
            places, room_by_node(self._store.tables, self._shapes.rankings, slot, self._limit, places)
        )
