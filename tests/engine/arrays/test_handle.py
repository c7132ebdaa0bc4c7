"""A named tuple of arrays reaches a kernel whole, whatever the order of its fields."""

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pytest

from gpufleet.engine.arrays.array_types import Cube, Flags, Grid, Int64Array, Line, SmallGrid
from gpufleet.engine.arrays.compiled import kernel
from gpufleet.engine.arrays.handle import Handle, fields_of, opened
from gpufleet.engine.arrays.rankings import Rankings
from gpufleet.engine.arrays.tables import Tables
from gpufleet.engine.place.score.policy_tables import PolicyTables


class Prices(NamedTuple):
    """A tuple that stands in another one."""

    by_model: Line
    by_node: Grid


class Fleet(NamedTuple):
    """One of each kind of field."""

    counters: Line
    nodes: Grid
    limits: Cube
    present: Flags
    places: SmallGrid
    prices: Prices


class PricesInAnotherOrder(NamedTuple):
    """The fields of ``Prices``, the last first."""

    by_node: Grid
    by_model: Line


class FleetInAnotherOrder(NamedTuple):
    """The fields of ``Fleet``, the last first."""

    prices: PricesInAnotherOrder
    places: SmallGrid
    present: Flags
    limits: Cube
    nodes: Grid
    counters: Line


class Undeclared(NamedTuple):
    """A field that does not say how many axes it has."""

    counters: Int64Array


COUNTERS = np.array([7, 8, 9])
NODES: npt.NDArray[Any] = np.arange(6).reshape(2, 3)
LIMITS = np.arange(24).reshape(2, 3, 4)
PRESENT = np.array([[True, False], [False, True]])
PLACES = np.array([[1, -2], [3, 4]], np.int32)
BY_MODEL = np.array([100, 200])
BY_NODE = np.array([[11, 12], [13, 14]])
AS_PYTHON_READS_THEM = (9, 5, 23, False, -2, 200, 13)

FLEET = Fleet(COUNTERS, NODES, LIMITS, PRESENT, PLACES, Prices(BY_MODEL, BY_NODE))
IN_ANOTHER_ORDER = FleetInAnotherOrder(
    PricesInAnotherOrder(BY_NODE, BY_MODEL), PLACES, PRESENT, LIMITS, NODES, COUNTERS
)


@kernel
def cells_of(handle: Int64Array) -> tuple[int, int, int, bool, int, int, int]:
    """One cell of each array, by the name of its field."""
    fleet = opened(Fleet, handle)
    prices = fleet.prices
    return (
        fleet.counters[2],
        fleet.nodes[1, 2],
        fleet.limits[1, 2, 3],
        fleet.present[0, 1],
        fleet.places[0, 1],
        prices.by_model[1],
        prices.by_node[1, 0],
    )


@kernel
def cells_in_another_order(handle: Int64Array) -> tuple[int, int, int, bool, int, int, int]:
    """The cells of ``cells_of``, out of the other tuple."""
    fleet = opened(FleetInAnotherOrder, handle)
    prices = fleet.prices
    return (
        fleet.counters[2],
        fleet.nodes[1, 2],
        fleet.limits[1, 2, 3],
        fleet.present[0, 1],
        fleet.places[0, 1],
        prices.by_model[1],
        prices.by_node[1, 0],
    )


@kernel
def count(handle: Int64Array) -> None:
    """Write to the first counter."""
    opened(Fleet, handle).counters[0] += 1


def test_a_kernel_reads_every_array_by_the_name_of_its_field() -> None:
    assert cells_of(Handle().of(FLEET)) == AS_PYTHON_READS_THEM


def test_another_order_of_the_fields_changes_nothing() -> None:
    assert cells_in_another_order(Handle().of(IN_ANOTHER_ORDER)) == AS_PYTHON_READS_THEM


def test_what_a_kernel_writes_stands_in_the_arrays() -> None:
    counters = np.array([1])
    count(Handle().of(FLEET._replace(counters=counters)))
    assert counters.tolist() == [2]


def test_an_array_of_other_axes_is_refused_by_the_name_of_its_field() -> None:
    with pytest.raises(TypeError, match=r"Fleet\.nodes is an array of 1 axes"):
        Handle().of(FLEET._replace(nodes=COUNTERS))


def test_an_array_of_other_cells_is_refused_by_the_name_of_its_field() -> None:
    with pytest.raises(TypeError, match=r"Fleet\.present is an array of 2 axes of int64"):
        Handle().of(FLEET._replace(present=NODES))


def test_an_array_that_does_not_lie_row_by_row_is_refused_by_the_name_of_its_field() -> None:
    with pytest.raises(TypeError, match=r"Fleet\.nodes .* in C order"):
        Handle().of(FLEET._replace(nodes=NODES.T))


def test_a_field_that_does_not_say_its_axes_is_refused_by_its_name() -> None:
    with pytest.raises(TypeError, match=r"Undeclared\.counters is neither"):
        fields_of(Undeclared)


@pytest.mark.parametrize("kind", [Tables, Rankings, PolicyTables])
def test_every_field_of_the_engines_tables_says_what_it_is(kind: type[NamedTuple]) -> None:
    assert tuple(fields_of(kind)) == kind._fields
