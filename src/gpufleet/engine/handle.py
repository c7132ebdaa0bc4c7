"""Handing many arrays to a kernel at the price of one.

Each array that Python passes to a compiled function costs about 0.2 microseconds, and the engine's
tables are forty. So the hottest kernels take a *handle*: one small array with the address and the
extent of every array of a named tuple, from which they make the tuple again. A handle is only as
good as the tuple it was made of; ``Handle.of`` makes another one whenever the tuple is another, and
keeps the tuple alive meanwhile. ``opened`` has one function a kind of tuple, ``hot_kernels`` uses
them.
"""

from typing import Any, NamedTuple

import numba
import numpy as np
import numpy.typing as npt
from numba.core import cgutils, types
from numba.extending import intrinsic

from gpufleet.engine.compiled import opener

Int64Array = npt.NDArray[np.int64]
BoolArray = npt.NDArray[np.bool_]

ADDRESS = 0
EXTENT = 1
HANDLE_COLUMNS = 4


def arrays_in(tables: NamedTuple) -> list[npt.NDArray[Any]]:
    """The arrays of a named tuple in order, those of nested tuples in their place."""
    found: list[npt.NDArray[Any]] = []
    for value in tables:
        found.extend([value] if isinstance(value, np.ndarray) else arrays_in(value))
    return found


class Handle:
    """Makes the handle of a named tuple and remembers it."""

    def __init__(self) -> None:
        self._tables: NamedTuple | None = None
        self._rows: Int64Array = np.zeros((0, HANDLE_COLUMNS), np.int64)

    def of(self, tables: NamedTuple) -> Int64Array:
        """The handle of these arrays, row by row (address, extent of up to three axes)."""
        if tables is not self._tables:
            arrays = arrays_in(tables)
            rows = np.zeros((len(arrays), HANDLE_COLUMNS), np.int64)
            for row, array in enumerate(arrays):
                rows[row, ADDRESS] = array.ctypes.data
                rows[row, EXTENT : EXTENT + array.ndim] = array.shape
            self._tables, self._rows = tables, rows
        return self._rows


@intrinsic  # type: ignore[untyped-decorator]
def pointer(_typing_context: Any, _address: Any) -> Any:
    """An address as a pointer."""

    def generate(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        return builder.inttoptr(arguments[0], cgutils.voidptr_t)

    return types.voidptr(types.int64), generate


@opener
def line(handle: Int64Array, row: int) -> Int64Array:
    """An array of one axis."""
    return numba.carray(pointer(handle[row, ADDRESS]), handle[row, EXTENT], np.int64)


@opener
def grid(handle: Int64Array, row: int) -> Int64Array:
    """An array of two axes."""
    extent = (handle[row, EXTENT], handle[row, EXTENT + 1])
    return numba.carray(pointer(handle[row, ADDRESS]), extent, np.int64)


@opener
def cube(handle: Int64Array, row: int) -> Int64Array:
    """An array of three axes."""
    extent = (handle[row, EXTENT], handle[row, EXTENT + 1], handle[row, EXTENT + 2])
    return numba.carray(pointer(handle[row, ADDRESS]), extent, np.int64)


@opener
def flags(handle: Int64Array, row: int) -> BoolArray:
    """An array of truths with two axes."""
    extent = (handle[row, EXTENT], handle[row, EXTENT + 1])
    return numba.carray(pointer(handle[row, ADDRESS]), extent, np.bool_)
