"""What a handle is inside a kernel: numba's type of the named tuple, and the machine code that reads it.

Apart from ``handle`` because it needs numba, which is imported only when the first kernel is called.
"""

from typing import Any

import numpy as np
from numba.core import cgutils, types
from numba.core.registry import cpu_target
from numba.core.types.containers import BaseTuple
from numba.extending import intrinsic
from numba.np.arrayobj import make_array, populate_array
from numba.np.numpy_support import from_dtype

from gpufleet.engine.arrays.array_types import ArrayKind
from gpufleet.engine.arrays.handle import ADDRESS, EXTENT, HANDLE_COLUMNS, fields_of


def compiled_type(declared: ArrayKind | type[Any]) -> Any:
    """The type that numba knows an array, or a named tuple of arrays, by."""
    if isinstance(declared, ArrayKind):
        return types.Array(from_dtype(np.dtype(declared.cells)), declared.axes, "C")
    members = [compiled_type(one) for one in fields_of(declared).values()]
    return BaseTuple.from_types(members, declared)


class Reader:
    """Writes the machine code that reads the rows of a handle, one after the other."""

    def __init__(self, context: Any, builder: Any, cells: Any) -> None:
        self.context = context
        self.builder = builder
        self.cells = cells
        self.row = 0

    def _cell(self, column: int) -> Any:
        position = cgutils.intp_t(self.row * HANDLE_COLUMNS + column)
        return self.builder.load(self.builder.gep(self.cells, [position]))

    def read(self, declared: ArrayKind | type[Any]) -> Any:
        """What stands in the next row, or in the next rows for a nested tuple."""
        if isinstance(declared, ArrayKind):
            return self._array(declared)
        members = [self.read(one) for one in fields_of(declared).values()]
        return self.context.make_tuple(self.builder, compiled_type(declared), members)

    def _array(self, declared: ArrayKind) -> Any:
        kind = compiled_type(declared)
        array = make_array(kind)(self.context, self.builder)
        extents = [self._cell(EXTENT + axis) for axis in range(declared.axes)]
        size = cgutils.intp_t(np.dtype(declared.cells).itemsize)
        strides = [size]
        for extent in reversed(extents[1:]):
            strides.insert(0, self.builder.mul(strides[0], extent))
        cells = self.context.get_data_type(kind.dtype).as_pointer()
        data = self.builder.inttoptr(self._cell(ADDRESS), cells)
        # Without ``meminfo`` numba counts no references: the tuple that ``Handle`` keeps owns the memory.
        populate_array(array, data=data, shape=extents, strides=strides, itemsize=size, meminfo=None)
        self.row += 1
        return array._getvalue()  # noqa: SLF001 - how numba ends the making of an array


def _open(_typing_context: Any, kind: Any, handle: Any) -> Any:
    result = compiled_type(kind.instance_class)

    def generate(context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        cells = make_array(handle)(context, builder, value=arguments[1]).data
        return Reader(context, builder, cells).read(kind.instance_class)

    return result(kind, handle), generate


OPENED = intrinsic(_open)
"""``handle.opened``, as numba knows it."""


def type_of_opened() -> Any:
    """The type that numba knows ``handle.opened`` by."""
    return cpu_target.typing_context.resolve_value_type(OPENED)
