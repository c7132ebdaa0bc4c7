"""Which shapes' surveys are kept, and where: the owner of the arrays that ``survey`` fills.

Work that waits is refused again and again, and between two refusals of a shape few nodes change. A shape
has a place while it is among those that were refused last, as many as the memory is enough for.
"""

import numpy as np

from gpufleet.engine.arrays import layout
from gpufleet.engine.arrays.array_types import Int64Array
from gpufleet.engine.arrays.handle import Handle
from gpufleet.engine.arrays.tables import TableStore
from gpufleet.engine.place.refusal.survey import (
    ABSENT,
    NEAREST_COLUMNS,
    SET_COLUMNS,
    SURVEYED_COLUMNS,
    SURVEYED_STALE,
    Surveyed,
    refresh_by_handle,
    survey_by_handle,
)
from gpufleet.engine.state.shapes import ShapeTable
from gpufleet.model.shape import Shape

SURVEY_MEMORY_MIB = 32
"""Enough for 128 shapes over 10,000 nodes, and for 1,000 over 1,000."""
PLACES_MAX = 1024
"""More shapes than this are seldom refused in turn, and each has a row of state."""


def empty_survey(places: int, node_rows: int) -> Surveyed:
    """Room for the surveys of that many shapes; pages that were never written take no memory."""
    state = np.zeros((places, SURVEYED_COLUMNS), np.int64)
    state[:, SURVEYED_STALE] = 1
    cells = (places, node_rows)
    return Surveyed(state, np.zeros(cells, np.int64), np.zeros(cells, np.int64))


class SurveyCache:
    """Asks the nodes what they have against the shape of a ranking slot."""

    def __init__(self, store: TableStore, shapes: ShapeTable) -> None:
        self.store = store
        self.shapes = shapes
        self._surveyed = empty_survey(1, 0)
        self._handle = Handle()
        self._place_by_row: dict[int, int] = {}
        self._shapes: list[Shape | None] = [None]

    def survey(self, slot: int, beyond_room: Int64Array) -> tuple[dict[int, int], Int64Array]:
        """How many nodes have each set of reasons, and the nearest node (see ``survey.survey``)."""
        place = self._place(slot)
        # There are no more sets of reasons than nodes.
        sets = np.zeros((SET_COLUMNS, self.shapes.fleet.row_count), np.int64)
        near = np.zeros(NEAREST_COLUMNS, np.int64)
        handles = (self.store.handle, self.shapes.rankings_handle, self._handle.of(self._surveyed))
        known = survey_by_handle(*handles, slot, place, beyond_room, sets, near)
        return dict(zip(*sets[:, :known].tolist(), strict=True)), near

    def reasons_by_row(self, slot: int, beyond_room: Int64Array) -> Int64Array:
        """The reasons of each row of nodes; of rows without a node all bits are set."""
        place = self._place(slot)
        handles = (self.store.handle, self.shapes.rankings_handle, self._handle.of(self._surveyed))
        refresh_by_handle(*handles, slot, place)
        # A copy: what neighbours have against one pod is written into it.
        found = self._surveyed.reasons[place, : self.shapes.fleet.row_count].copy()
        if len(beyond_room):
            found |= np.where(found == ABSENT, 0, beyond_room[: len(found)])
        return found

    def kept(self) -> list[int]:
        """The rows of shapes whose survey is kept."""
        shapes = self.shapes.shapes
        return [row for row, place in self._place_by_row.items() if shapes[row] is self._shapes[place]]

    def _place(self, slot: int) -> int:
        """The place of a shape, made ready if it has none yet."""
        node_rows = len(self.store.tables.changed_at)
        if self._surveyed.reasons.shape[1] != node_rows:
            self._make_room(node_rows)
        row = int(self.shapes.rankings.state[slot, layout.RANKING_SHAPE])
        place = self._place_by_row.pop(row, None)
        if place is None:
            place = self._free_place()
        self._place_by_row[row] = place  # the dictionary's order is that of last use
        shape = self.shapes.shape_at(row)
        # A row may have been given to another shape since.
        if self._shapes[place] is not shape:
            self._shapes[place] = shape
            self._surveyed.state[place, SURVEYED_STALE] = 1
        return place

    def _free_place(self) -> int:
        if len(self._place_by_row) < len(self._shapes):
            return len(self._place_by_row)
        # The place of the shape that was asked about longest ago.
        return self._place_by_row.pop(next(iter(self._place_by_row)))

    def _make_room(self, node_rows: int) -> None:
        """The fleet has grown: every survey is made anew."""
        bytes_a_place = (self._surveyed.reasons.itemsize + self._surveyed.distances.itemsize) * node_rows
        places = max(1, min(PLACES_MAX, SURVEY_MEMORY_MIB * 1024 * 1024 // bytes_a_place))
        self._surveyed = empty_survey(places, node_rows)
        self._place_by_row.clear()
        self._shapes = [None] * places
