"""What the columns of evictions say of rows, whenever they are read."""

from gpufleet.engine.arrays.eviction_columns import PLACED_IN_STEP, EvictionColumns, PlacedInStep
from tests.engine.fleet_builder import pod, shape

BEYOND_FIRST_ROOM = 256
"""The columns begin with room for so many rows."""


def test_a_pod_that_was_placed_and_is_gone_before_columns_are_read_leaves_nothing() -> None:
    columns = EvictionColumns()
    placed = PlacedInStep(columns)
    columns.begin(BEYOND_FIRST_ROOM, pod("a", shape(1)))
    placed.add(BEYOND_FIRST_ROOM)
    columns.drop(BEYOND_FIRST_ROOM)
    assert not columns.cells[PLACED_IN_STEP].any()
    placed.clear()
    columns.begin(BEYOND_FIRST_ROOM, pod("b", shape(1)))
    assert BEYOND_FIRST_ROOM not in placed


def test_a_row_counts_as_placed_until_the_next_step_and_no_longer() -> None:
    columns = EvictionColumns()
    placed = PlacedInStep(columns)
    columns.begin(0, pod("a", shape(1)))
    placed.add(0)
    assert 0 in placed
    placed.clear()
    assert 0 not in placed
