"""The types of the engine's arrays, and what a field of a named tuple of arrays is declared as.

``Int64Array`` and ``BoolArray`` are for arguments. The fields of such tuples say how many axes they have too
(``Line``, ``Grid``, ``SmallGrid``, ``Cube``, ``Flags``), because ``handle`` makes the arrays again from that.
"""

from typing import Annotated, NamedTuple

import numpy as np
import numpy.typing as npt

Int64Array = npt.NDArray[np.int64]
Int32Array = npt.NDArray[np.int32]
BoolArray = npt.NDArray[np.bool_]


class ArrayKind(NamedTuple):
    """What a field holds: the type of its cells and how many axes it has."""

    cells: type[np.generic]
    axes: int


Line = Annotated[Int64Array, ArrayKind(np.int64, 1)]
Grid = Annotated[Int64Array, ArrayKind(np.int64, 2)]
SmallGrid = Annotated[Int32Array, ArrayKind(np.int32, 2)]
"""Half as large as a ``Grid``: for rows of other tables, of which there are never two thousand million."""
Cube = Annotated[Int64Array, ArrayKind(np.int64, 3)]
Flags = Annotated[BoolArray, ArrayKind(np.bool_, 2)]
