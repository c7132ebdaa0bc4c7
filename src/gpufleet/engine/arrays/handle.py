"""Handing many arrays to a kernel at the price of one.

Each array that Python passes to a compiled function costs about 0.2 microseconds, and the engine's tables
are forty. So the hottest kernels take a *handle*: one small array with the address and the extents of every
array of a named tuple, from which ``opened`` makes the tuple again inside the kernel.

Both sides go by the fields of the named tuple, in whatever order they stand, and by what each field is
declared as (``Line``, ``Grid``, ``SmallGrid``, ``Cube``, ``Flags``, or another such tuple). ``Handle.of``
refuses, by the name of its field, an array that is not what its field declares. A handle is only as good as
the tuple that it was made of: ``Handle.of`` makes another one whenever the tuple is another, and keeps the
tuple alive meanwhile. What numba must know of all this is in ``handle_in_kernels``.
"""

from collections.abc import Hashable
from functools import cache
from typing import Any, NamedTuple, TypeVar, cast, get_args, get_type_hints

import numpy as np
import numpy.typing as npt

from gpufleet.engine.arrays.array_types import ArrayKind, Int64Array

Kind = TypeVar("Kind")


# The columns of a handle.
ADDRESS = 0
EXTENT = 1
HANDLE_COLUMNS = 4
"""The address, and the extents of the three axes that a ``Cube`` has."""


def fields_of(kind: type[Any]) -> dict[str, ArrayKind | type[Any]]:
    """The fields of a named tuple in their order: the kind of each array, the class of each nested tuple.

    Raises TypeError for a field that is declared as anything else.
    """
    hints = get_type_hints(kind, include_extras=True)
    fields: dict[str, ArrayKind | type[Any]] = {}
    for name in kind._fields:
        declared = [one for one in get_args(hints[name]) if isinstance(one, ArrayKind)]
        if declared:
            fields[name] = declared[0]
        elif isinstance(hints[name], type) and hasattr(hints[name], "_fields"):
            fields[name] = hints[name]
        else:
            raise TypeError(
                f"{kind.__name__}.{name} is neither a Line, Grid, SmallGrid, Cube, Flags nor such a tuple"
            )
    return fields


@cache
def fields_known(kind: Hashable) -> dict[str, ArrayKind | type[Any]]:
    """``fields_of``, read once: it takes a tenth of a millisecond, and growing tables need new handles."""
    return fields_of(cast("type[Any]", kind))


def arrays_in(tables: NamedTuple) -> list[npt.NDArray[Any]]:
    """The arrays of a named tuple in the order of its fields, those of nested tuples in their place.

    Raises TypeError for an array that is not what its field declares.
    """
    found: list[npt.NDArray[Any]] = []
    for name, declared in fields_known(cast("Hashable", type(tables))).items():
        value = getattr(tables, name)
        if not isinstance(declared, ArrayKind):
            found += arrays_in(value)
            continue
        # A kernel takes cells, axes and order of cells for granted: anything else would be read as garbage.
        if (value.dtype, value.ndim) != (declared.cells, declared.axes) or not value.flags.c_contiguous:
            raise TypeError(
                f"{type(tables).__name__}.{name} is an array of {value.ndim} axes of {value.dtype}, "
                f"not one of {declared.axes} axes of {declared.cells.__name__} in C order"
            )
        found.append(value)
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


class Opened:
    """What stands for ``opened`` until a kernel that calls it is compiled."""

    def __call__(self, kind: type[Kind], handle: Int64Array) -> Kind:
        """The named tuple that a handle was made of."""
        raise NotImplementedError("a handle is opened inside a kernel")

    @property
    def _numba_type_(self) -> Any:
        """What numba asks of a value that stands in the source of a kernel."""
        from gpufleet.engine.arrays import handle_in_kernels

        return handle_in_kernels.type_of_opened()


opened = Opened()
"""From a handle back to the named tuple, inside a kernel: ``opened(Tables, handle)``."""
