"""Which GPUs of a node are near each other: on one fast link, or at least on one NUMA node.

A pod of several whole GPUs is slower, often by far, when they are apart. So it gets them near each other
where that can be had (``device_choice``), on a node that has them so (``total``), and where it asks for
it, nowhere else (``fit``). How near is a column of the devices: those with one number there are together.
"""

from gpufleet.engine.arrays import layout
from gpufleet.engine.arrays.compiled import leaf
from gpufleet.engine.arrays.tables import Tables
from gpufleet.model.shape import Within

ANYWHERE = int(Within.NODE)
NUMA_NODE = int(Within.NUMA_NODE)
LINK_GROUP = int(Within.LINK_GROUP)


@leaf
def must_be_near(tables: Tables, shape: int) -> bool:
    """True if the shape takes its GPUs near each other or not at all."""
    return bool(tables.shapes[layout.SHAPE_WITHIN, shape] != ANYWHERE)


@leaf
def column_of(within: int) -> int:
    """The column of the devices that tells which of them are together."""
    return layout.DEVICE_LINK_GROUP if within == LINK_GROUP else layout.DEVICE_NUMA_NODE


@leaf
def leads(tables: Tables, column: int, first: int, device: int) -> bool:
    """True if no device of the node before this one is of the same group."""
    for other in range(first, device):
        if tables.devices[column, other] == tables.devices[column, device]:
            return False
    return True
