"""What is free, as work needs it: how many pods of each number of whole GPUs would fit."""

import msgspec
import numpy as np

from gpufleet.engine.arrays import layout
from gpufleet.engine.arrays.array_types import Int64Array
from gpufleet.engine.arrays.tables import Tables

SIZES = (1, 2, 4, 8, 16)
"""Numbers of whole GPUs that pods ask for."""


class FreeCapacity(msgspec.Struct, frozen=True):
    """What is free on a fleet.

    ``gpu_milli`` are thousandths of GPUs without users, ``whole_gpus`` those that no pod has any part
    of. ``places`` says for each number of whole GPUs how many pods of that size would fit if nothing but
    GPUs counted; sizes that no node has are left out.
    """

    gpu_milli: int
    whole_gpus: int
    places: tuple[tuple[int, int], ...]


def room(tables: Tables) -> FreeCapacity:
    """What is free as of now."""
    there = tables.nodes[layout.NODE_PRESENT] == 1
    free = free_whole_gpus(tables)
    most = int(tables.nodes[layout.NODE_DEVICE_COUNT][there].max(initial=0))
    places = tuple((size, int((free // size).sum())) for size in SIZES if size <= most)
    free_milli = np.where(there, tables.nodes[layout.NODE_FREE_GPU_MILLI], 0)
    return FreeCapacity(int(np.maximum(free_milli, 0).sum()), int(free.sum()), places)


def free_whole_gpus(tables: Tables) -> Int64Array:
    """By node row, GPUs that no pod has any part of."""
    there = tables.nodes[layout.NODE_PRESENT] == 1
    return np.where(there, np.maximum(tables.nodes[layout.NODE_FREE_WHOLE_GPUS], 0), 0)


def worth(free: Int64Array) -> Int64Array:
    """What so many free GPUs on one node are worth: each gap counts once for every size that fits into it.

    8 free GPUs are worth 8 + 8 + 8 + 8, as eight single ones they would be worth 8. Emptying one node to
    fill another so gains exactly what large pods gain by it.
    """
    total = np.zeros_like(free)
    for size in SIZES:
        total += size * (free // size)
    return total
