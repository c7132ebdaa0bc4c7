"""Whether a node has room for a shape: the answer, the reasons against, and how many would fit.

Only amounts are judged here; labels, taints and cordons are ``eligibility``. ``fits`` is the hot
path, ``reasons_against`` tells every reason of the same question, and a property test holds the
two together. ``ranking`` asks ``fits`` for every node it scores.
"""

from gpufleet.engine.arrays import layout
from gpufleet.engine.arrays.compiled import kernel, leaf
from gpufleet.engine.arrays.request import accepts_model, is_whole, share_mib
from gpufleet.engine.arrays.tables import Tables
from gpufleet.engine.node_reasons.cpu import BIT as CPU
from gpufleet.engine.node_reasons.gpu_apart import BIT as GPU_APART
from gpufleet.engine.node_reasons.gpu_busy import BIT as GPU_BUSY
from gpufleet.engine.node_reasons.gpu_count import BIT as GPU_COUNT
from gpufleet.engine.node_reasons.gpu_fragmented import BIT as GPU_FRAGMENTED
from gpufleet.engine.node_reasons.gpu_memory import BIT as GPU_MEMORY
from gpufleet.engine.node_reasons.gpu_model import BIT as GPU_MODEL
from gpufleet.engine.node_reasons.gpu_sharing import BIT as GPU_SHARING
from gpufleet.engine.node_reasons.gpu_sick import BIT as GPU_SICK
from gpufleet.engine.node_reasons.gpu_withheld import BIT as GPU_WITHHELD
from gpufleet.engine.node_reasons.memory import BIT as MEMORY
from gpufleet.engine.node_reasons.no_gpu import BIT as NO_GPU
from gpufleet.engine.node_reasons.other_resource import BIT as OTHER_RESOURCE
from gpufleet.engine.node_reasons.pods import BIT as PODS
from gpufleet.engine.node_reasons.storage import BIT as STORAGE
from gpufleet.engine.place.score import locality
from gpufleet.model.device import Serves

SERVES_WHOLE = int(Serves.WHOLE)
SERVES_SHARE = int(Serves.SHARE)
SERVES_NOTHING = int(Serves.NOTHING)


@leaf
def share_memory_fits(tables: Tables, shape: int, device: int) -> bool:
    """True if the device has memory for the share.

    As long as every share of a device is in proportion to its milli, memory cannot run out before
    the milli do, and is not looked at.
    """
    stated = tables.shapes[layout.SHAPE_GPU_MIB, shape] != layout.NOT_SET
    if not stated and tables.devices[layout.DEVICE_MEMORY_SHARES, device] == 0:
        return True
    return share_mib(tables, shape, device) <= tables.devices[layout.DEVICE_FREE_MIB, device]


@leaf
def share_fits(tables: Tables, shape: int, device: int) -> bool:
    """True if the device can take one share of this shape now."""
    if tables.devices[layout.DEVICE_IDLE_MILLI, device] < tables.shapes[layout.SHAPE_GPU_MILLI, shape]:
        return False
    if tables.devices[layout.DEVICE_SERVES, device] & SERVES_SHARE == 0:
        return False
    if tables.devices[layout.DEVICE_HEALTHY, device] == 0:
        return False
    return accepts_model(tables, shape, device) and share_memory_fits(tables, shape, device)


@leaf
def whole_fits(tables: Tables, shape: int, device: int) -> bool:
    """True if the device is entirely free and good for this shape.

    A whole request with a memory accepts only devices with at least that much in all.
    """
    if tables.devices[layout.DEVICE_WHOLE_FREE, device] == 0:
        return False
    stated = tables.shapes[layout.SHAPE_GPU_MIB, shape]
    if stated != layout.NOT_SET and tables.devices[layout.DEVICE_TOTAL_MIB, device] < stated:
        return False
    return accepts_model(tables, shape, device)


@leaf
def device_fits(tables: Tables, shape: int, device: int) -> bool:
    """True if the device can serve one of the devices the shape asks for."""
    if is_whole(tables, shape):
        return whole_fits(tables, shape, device)
    return share_fits(tables, shape, device)


@leaf
def host_fits(tables: Tables, shape: int, node: int) -> bool:
    """True if CPU, memory, pods and every other host resource suffice.

    What is not asked for is not looked at, so that a node that is over-committed in memory still
    takes a pod that asks for none, as in Kubernetes.
    """
    for column in range(tables.shape_resources.shape[1]):
        asked = tables.shape_resources[shape, column]
        if asked > 0 and asked > tables.resources_free[node, column]:
            return False
    return True


@leaf
def fits(tables: Tables, shape: int, node: int) -> bool:
    """True if the node has room for one pod of the shape now."""
    count = tables.shapes[layout.SHAPE_GPU_COUNT, shape]
    whole = is_whole(tables, shape)
    # First, as it rules out most nodes of a fleet in use by one comparison.
    if whole and tables.nodes[layout.NODE_FREE_WHOLE_GPUS, node] < count:
        return False
    if not host_fits(tables, shape, node):
        return False
    if count == 0:
        return True
    first = tables.nodes[layout.NODE_FIRST_DEVICE, node]
    found = 0
    for device in range(first, first + tables.nodes[layout.NODE_DEVICE_COUNT, node]):
        if whole:
            found += whole_fits(tables, shape, device)
        else:
            found += share_fits(tables, shape, device)
        if found >= count:
            # Asked last, because it goes through every group of the node.
            return not locality.must_be_near(tables, shape) or near(tables, shape, node) >= count
    return False


@leaf
def near(tables: Tables, shape: int, node: int) -> int:
    """How many of the node's devices that fit are together, as near as the shape asks for."""
    return nearest(tables, shape, node, tables.shapes[layout.SHAPE_WITHIN, shape])


@leaf
def nearest(tables: Tables, shape: int, node: int, within: int) -> int:
    """How many of the node's devices that fit are together; counted no further than the shape asks for."""
    column, count = locality.column_of(within), tables.shapes[layout.SHAPE_GPU_COUNT, shape]
    first = tables.nodes[layout.NODE_FIRST_DEVICE, node]
    last = first + tables.nodes[layout.NODE_DEVICE_COUNT, node]
    most = 0
    for leader in range(first, last):
        if most >= count:
            break
        if locality.leads(tables, column, first, leader):
            most = max(most, fitting_with(tables, shape, column, leader, last))
    return int(most)


@leaf
def fitting_with(tables: Tables, shape: int, column: int, leader: int, last: int) -> int:
    """How many devices that fit are together with the first of a group; ``last`` ends the node's devices."""
    together = 0
    for device in range(leader, last):
        if tables.devices[column, device] == tables.devices[column, leader]:
            together += device_fits(tables, shape, device)
    return together


@leaf
def host_reasons(tables: Tables, shape: int, node: int) -> int:
    """Every host resource that is short, as bits (``node_reasons``)."""
    found = 0
    for column in range(tables.shape_resources.shape[1]):
        asked = tables.shape_resources[shape, column]
        if asked > 0 and asked > tables.resources_free[node, column]:
            if column == layout.RESOURCE_CPU_MILLI:
                found |= CPU
            elif column == layout.RESOURCE_MEMORY_BYTES:
                found |= MEMORY
            elif column == layout.RESOURCE_PODS:
                found |= PODS
            elif column == layout.RESOURCE_EPHEMERAL_STORAGE_BYTES:
                found |= STORAGE
            else:
                found |= OTHER_RESOURCE
    return found


@leaf
def gpu_reasons(tables: Tables, shape: int, node: int) -> int:
    """What is wrong with the node's devices, as bits (``node_reasons``); 0 if they suffice.

    The devices are narrowed step by step (any, model, sharing mode, health, room); the reason is
    the step at which fewer than the shape asks for are left.
    """
    count = tables.shapes[layout.SHAPE_GPU_COUNT, shape]
    if count == 0:
        return 0
    first = tables.nodes[layout.NODE_FIRST_DEVICE, node]
    owned = tables.nodes[layout.NODE_DEVICE_COUNT, node]
    if owned == 0:
        return NO_GPU
    if owned < count:
        return GPU_COUNT
    whole = is_whole(tables, shape)
    serves = SERVES_WHOLE if whole else SERVES_SHARE
    of_model, serving, withheld, healthy, fitting, idle_milli, lacking_memory = 0, 0, 0, 0, 0, 0, 0
    for device in range(first, first + owned):
        if not accepts_model(tables, shape, device):
            continue
        of_model += 1
        if tables.devices[layout.DEVICE_SERVES, device] & serves == 0:
            withheld += tables.devices[layout.DEVICE_SERVES, device] == SERVES_NOTHING
            continue
        serving += 1
        if tables.devices[layout.DEVICE_HEALTHY, device] == 0:
            continue
        healthy += 1
        idle = tables.devices[layout.DEVICE_IDLE_MILLI, device]
        idle_milli += idle
        if device_fits(tables, shape, device):
            fitting += 1
        elif lacks_only_memory(tables, shape, device):
            lacking_memory += 1
    if of_model < count:
        return GPU_MODEL
    if serving < count:
        return GPU_WITHHELD if serving + withheld >= count else GPU_SHARING
    if healthy < count:
        return GPU_SICK
    # Whatever ends here, there would not be enough near each other: that is no lack of room.
    if locality.must_be_near(tables, shape) and near_in_all(tables, shape, node) < count:
        return GPU_APART
    if fitting >= count and locality.must_be_near(tables, shape) and near(tables, shape, node) < count:
        return GPU_FRAGMENTED
    if fitting >= count:
        return 0
    if fitting + lacking_memory >= count:
        return GPU_MEMORY
    # Enough is free in sum, though not on single devices.
    if idle_milli >= count * tables.shapes[layout.SHAPE_GPU_MILLI, shape]:
        return GPU_FRAGMENTED
    return GPU_BUSY


@leaf
def near_in_all(tables: Tables, shape: int, node: int) -> int:
    """How many healthy devices of the shape's model are together, used or not."""
    column = locality.column_of(tables.shapes[layout.SHAPE_WITHIN, shape])
    first = tables.nodes[layout.NODE_FIRST_DEVICE, node]
    last = first + tables.nodes[layout.NODE_DEVICE_COUNT, node]
    most = 0
    for leader in range(first, last):
        together = 0
        for device in range(leader, last):
            if tables.devices[column, device] == tables.devices[column, leader]:
                serves = tables.devices[layout.DEVICE_SERVES, device] & SERVES_WHOLE != 0
                healthy = tables.devices[layout.DEVICE_HEALTHY, device] == 1
                together += serves and healthy and accepts_model(tables, shape, device)
        most = max(most, together)
    return int(most)


@leaf
def lacks_only_memory(tables: Tables, shape: int, device: int) -> bool:
    """True if a device that does not fit would fit with more memory."""
    if is_whole(tables, shape):
        return bool(tables.devices[layout.DEVICE_WHOLE_FREE, device] == 1)
    enough = tables.devices[layout.DEVICE_IDLE_MILLI, device] >= tables.shapes[layout.SHAPE_GPU_MILLI, shape]
    return bool(enough) and not share_memory_fits(tables, shape, device)


@leaf
def reasons_against(tables: Tables, shape: int, node: int) -> int:
    """Every reason of amount against the node, as bits (``node_reasons``); 0 if it fits."""
    return gpu_reasons(tables, shape, node) | host_reasons(tables, shape, node)


@kernel
def room(tables: Tables, shape: int, node: int, limit: int) -> int:
    """How many pods of the shape the node could take one after the other, ``limit`` at most.

    Exact for CPU-only shapes, whole GPUs and shares of one device; for shares of several devices
    an upper bound.
    """
    most = limit
    for column in range(tables.shape_resources.shape[1]):
        asked = tables.shape_resources[shape, column]
        if asked > 0:
            # Below 0 is what is free on a node that is over-committed.
            most = min(most, max(0, tables.resources_free[node, column]) // asked)
    count = tables.shapes[layout.SHAPE_GPU_COUNT, shape]
    if count == 0 or most == 0:
        return int(most)
    if locality.must_be_near(tables, shape):
        return int(min(most, room_near(tables, shape, node)))
    first = tables.nodes[layout.NODE_FIRST_DEVICE, node]
    places = 0
    for device in range(first, first + tables.nodes[layout.NODE_DEVICE_COUNT, node]):
        if device_fits(tables, shape, device):
            places += places_on_device(tables, shape, device, limit)
    return int(min(most, places // count))


@leaf
def room_near(tables: Tables, shape: int, node: int) -> int:
    """How many pods whose whole devices must be together find them."""
    column = locality.column_of(tables.shapes[layout.SHAPE_WITHIN, shape])
    first = tables.nodes[layout.NODE_FIRST_DEVICE, node]
    last = first + tables.nodes[layout.NODE_DEVICE_COUNT, node]
    pods = 0
    for leader in range(first, last):
        if locality.leads(tables, column, first, leader):
            together = fitting_with(tables, shape, column, leader, last)
            pods += together // tables.shapes[layout.SHAPE_GPU_COUNT, shape]
    return int(pods)


@leaf
def places_on_device(tables: Tables, shape: int, device: int, limit: int) -> int:
    """How many requests of one device each the device could serve, ``limit`` at most."""
    if is_whole(tables, shape):
        return 1
    places = limit
    milli = tables.shapes[layout.SHAPE_GPU_MILLI, shape]
    if milli > 0:
        places = min(places, tables.devices[layout.DEVICE_IDLE_MILLI, device] // milli)
    stated = tables.shapes[layout.SHAPE_GPU_MIB, shape] != layout.NOT_SET
    if stated or tables.devices[layout.DEVICE_MEMORY_SHARES, device] > 0:
        mib = share_mib(tables, shape, device)
        if mib > 0:
            places = min(places, tables.devices[layout.DEVICE_FREE_MIB, device] // mib)
    return int(places)
