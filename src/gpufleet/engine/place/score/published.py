"""The simple policies that fragmentation-aware placement is compared with.

Definitions as in the published experiments on the openb trace (hkust-adsl
kubernetes-scheduler-simulator): amounts are normalised by the largest node there, 128 cores and
8 GPUs. All are written as one integer division, so that no rounding of floats can decide.
"""

from gpufleet.engine.arrays import layout
from gpufleet.engine.arrays.compiled import leaf
from gpufleet.engine.arrays.request import is_whole
from gpufleet.engine.arrays.tables import Tables
from gpufleet.engine.place.score import fit
from gpufleet.model.device import WHOLE_GPU_MILLI

# The largest node of the openb trace.
LARGEST_CPU_MILLI = 128_000
LARGEST_GPU_MILLI = 8_000
CPU_A_GPU_MILLI = LARGEST_CPU_MILLI // LARGEST_GPU_MILLI


@leaf
def asked_gpu_milli(tables: Tables, shape: int) -> int:
    """Milli over all devices the shape asks for."""
    return int(tables.shapes[layout.SHAPE_GPU_COUNT, shape] * tables.shapes[layout.SHAPE_GPU_MILLI, shape])


@leaf
def best_fit(tables: Tables, shape: int, node: int) -> int:
    """floor(100 * (1 - (free CPU after / 128 cores + free GPU after / 8) / 2)).

    The published policy stretches these over the feasible nodes to 0..100; as that keeps the
    order and the ties at the top, the choice is the same without.
    """
    cpu = tables.resources_free[node, layout.RESOURCE_CPU_MILLI]
    cpu -= tables.shape_resources[shape, layout.RESOURCE_CPU_MILLI]
    gpu = tables.nodes[layout.NODE_FREE_GPU_MILLI, node] - asked_gpu_milli(tables, shape)
    left = 50 * (cpu + CPU_A_GPU_MILLI * gpu)
    return int((100 * LARGEST_CPU_MILLI - left) // LARGEST_CPU_MILLI)


@leaf
def dot_product(tables: Tables, shape: int, node: int) -> int:
    """floor(100 * (1 - (normalised request . normalised free) / 2))."""
    cpu = tables.resources_free[node, layout.RESOURCE_CPU_MILLI]
    cpu *= tables.shape_resources[shape, layout.RESOURCE_CPU_MILLI]
    gpu = tables.nodes[layout.NODE_FREE_GPU_MILLI, node] * asked_gpu_milli(tables, shape)
    product = cpu + CPU_A_GPU_MILLI * CPU_A_GPU_MILLI * gpu
    unit = LARGEST_CPU_MILLI * LARGEST_CPU_MILLI
    return int((100 * unit - 50 * product) // unit)


@leaf
def gpu_clustering(tables: Tables, shape: int, node: int) -> int:
    """Prefer nodes that run only tasks of the same kind, then nodes that are fuller."""
    kind = tables.shapes[layout.SHAPE_KIND, shape]
    if kind == layout.NOT_SET:
        return 0
    used = LARGEST_GPU_MILLI - tables.nodes[layout.NODE_FREE_GPU_MILLI, node]
    # Beside up to 25 for how full it is: 75 with its own kind alone, 50 with others too, 25 if it is idle.
    score = 25 * used // LARGEST_GPU_MILLI
    same = tables.kinds[node, kind]
    others = -same
    for column in range(layout.KIND_COLUMNS):
        others += tables.kinds[node, column]
    if same > 0:
        return int(score + (50 if others > 0 else 75))
    return int(score + (0 if others > 0 else 25))


@leaf
def gpu_packing(tables: Tables, shape: int, node: int) -> int:
    """Prefer GPUs in use, then nodes in use, then the smallest idle node."""
    count = tables.shapes[layout.SHAPE_GPU_COUNT, shape]
    if count == 0:
        return 0
    first = tables.nodes[layout.NODE_FIRST_DEVICE, node]
    owned = tables.nodes[layout.NODE_DEVICE_COUNT, node]
    free_gpus = 0
    for device in range(first, first + owned):
        free_gpus += tables.devices[layout.DEVICE_IDLE_MILLI, device] == WHOLE_GPU_MILLI
    # Up to 33 for an idle node, up to 50 for free GPUs of one in use, from 50 on for GPUs in use.
    if free_gpus == owned:
        return int(max(33 - owned, owned))
    if is_whole(tables, shape):
        return int(max(50 - count, 33))
    taken_milli, taken_free = least_free(tables, shape, node, count)
    if taken_free > 0:
        return int(max(50 - taken_free, 33))
    return int(max(100 - taken_milli // 100, 50))


@leaf
def least_free(tables: Tables, shape: int, node: int, count: int) -> tuple[int, int]:
    """Free milli of the ``count`` fitting devices with the least left, and how many are unused."""
    first = tables.nodes[layout.NODE_FIRST_DEVICE, node]
    last = first + tables.nodes[layout.NODE_DEVICE_COUNT, node]
    milli, unused, taken, floor = 0, 0, 0, -1
    # Level by level instead of sorting: it needs no further array, and a node has few levels.
    while taken < count:
        least = WHOLE_GPU_MILLI + 1
        for device in range(first, last):
            idle = tables.devices[layout.DEVICE_IDLE_MILLI, device]
            if floor < idle < least and fit.share_fits(tables, shape, device):
                least = idle
        if least > WHOLE_GPU_MILLI:
            break
        for device in range(first, last):
            same = tables.devices[layout.DEVICE_IDLE_MILLI, device] == least
            if taken < count and same and fit.share_fits(tables, shape, device):
                taken += 1
                milli += least
                unused += least == WHOLE_GPU_MILLI
        floor = least
    return milli, unused
