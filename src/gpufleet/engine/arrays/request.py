"""What a shape asks of one device, as the kernels read it: the whole of it or a share, of which models.

Whether the device has it to give is ``place.score.fit``.
"""

from gpufleet.engine.arrays import layout
from gpufleet.engine.arrays.compiled import leaf
from gpufleet.engine.arrays.tables import Tables
from gpufleet.model.device import WHOLE_GPU_MILLI


@leaf
def is_whole(tables: Tables, shape: int) -> bool:
    """True if the shape asks for entire devices."""
    return bool(tables.shapes[layout.SHAPE_GPU_MILLI, shape] == WHOLE_GPU_MILLI)


@leaf
def accepts_model(tables: Tables, shape: int, device: int) -> bool:
    """True if the shape accepts the device's model."""
    if tables.shapes[layout.SHAPE_ANY_MODEL, shape]:
        return True
    return bool(tables.shape_models[shape, tables.devices[layout.DEVICE_MODEL, device]])


@leaf
def share_mib(tables: Tables, shape: int, device: int) -> int:
    """Memory of the share on this device in MiB; 0 where neither shape nor device tells."""
    stated = tables.shapes[layout.SHAPE_GPU_MIB, shape]
    if stated != layout.NOT_SET:
        return int(stated)
    total = tables.devices[layout.DEVICE_TOTAL_MIB, device]
    if total == layout.NOT_SET:
        return 0
    return int(total * tables.shapes[layout.SHAPE_GPU_MILLI, shape] // WHOLE_GPU_MILLI)
