"""The types of the engine's arrays, and what a field of a named tuple of arrays is declared as.

``Int64Array`` and ``BoolArray`` are for arguments. The fields of such tuples say how many axes they have too
(``Line``, ``Grid``, ``Cube``, ``Flags``), because ``handle`` makes the arrays again from that.
"""

from typing import Annotated, NamedTuple

import numpy as np
import numpy.typing as npt

Int64Array = npt.NDArray[np.int64]
BoolArray = npt.NDArray[np.bool_]


class ArrayKind(NamedTuple):
    """What a field holds: the type of its cells and how many axes it has."""

    cells: type[np.generic]
    axes: int


Line = Annotated[Int64Array, ArrayKind(np.int64, 1)]
Grid = Annotated[Int64Array, ArrayKind(np.int64, 2)]
Cube = Annotated[Int64Array, ArrayKind(np.int64, 3)]
Flags = Annotated[BoolArray, ArrayKind(np.bool_, 2)]
