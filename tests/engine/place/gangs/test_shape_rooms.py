"""The room for a shape: counted once while nothing changes, and right after each change."""

import pytest

from gpufleet.engine.arrays.array_types import Int64Array
from gpufleet.engine.arrays.rankings import Rankings
from gpufleet.engine.arrays.tables import Tables
from gpufleet.engine.place.choose.placement import room_by_node
from gpufleet.engine.place.gangs import shape_rooms
from gpufleet.engine.place.gangs.shape_rooms import ShapeRooms
from gpufleet.model.shape import Shape
from tests.engine.fleet_builder import Story, node, pod, shape

PAIR = shape(2)


class Counted:
    """A fleet, and the room that is kept; ``asked`` are the counts that were really made."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.told = Story()
        self.told.nodes(node("a", 8), node("b", 4))
        state = self.told.engine.state
        self.shapes = state.shapes
        self.rooms = ShapeRooms(state.store, state.shapes, 100)
        self.asked = 0

        def counted(tables: Tables, rankings: Rankings, slot: int, limit: int, places: Int64Array) -> int:
            self.asked += 1
            return room_by_node(tables, rankings, slot, limit, places)

        monkeypatch.setattr(shape_rooms, "room_by_node", counted)

    def places(self, of: Shape = PAIR) -> list[int]:
        """The pods of a shape that each node takes."""
        row = self.shapes.hold(of)
        found = self.rooms.of(self.shapes.slot(row))
        self.shapes.drop(row)
        assert found.total == found.places.sum()
        return [int(count) for count in found.places]


@pytest.fixture
def fleet(monkeypatch: pytest.MonkeyPatch) -> Counted:
    return Counted(monkeypatch)


def test_each_shape_is_counted_once_while_nothing_changes(fleet: Counted) -> None:
    for _ in range(3):
        assert fleet.places() == [4, 2]
        assert fleet.places(shape(4)) == [2, 1]
    assert fleet.asked == 2


def test_a_pod_that_comes_or_goes_and_a_node_that_changes_are_counted_anew(fleet: Counted) -> None:
    assert fleet.places() == [4, 2]
    fleet.told.arrive(pod("one", shape(4)))
    assert sum(fleet.places()) == 4
    fleet.told.depart("one")
    assert fleet.places() == [4, 2]
    fleet.told.nodes(node("a", 8, cordoned=True))
    assert fleet.places() == [0, 2]
    fleet.told.nodes(node("a", 8), node("c", 2))
    assert fleet.places() == [4, 2, 1]


def test_more_shapes_than_are_kept_are_counted_all_the_same(fleet: Counted) -> None:
    for _ in range(2):
        for milli in range(1, 2 * shape_rooms.KEPT_MAX):
            assert fleet.places(shape(4, cpu_milli=milli)) == [2, 1]
