"""Putting a pod onto devices of a node and taking it away again, cell by cell through the journal.

Nothing is decided here: ``place.choose`` says where, trials and the cycle say whether it stays.
"""

from gpufleet.engine.arrays import journal, layout
from gpufleet.engine.arrays.array_types import Int64Array
from gpufleet.engine.arrays.charge import charge, note_that_usage_fell
from gpufleet.engine.arrays.compiled import entry, kernel, leaf
from gpufleet.engine.arrays.eviction_columns import LEAVING
from gpufleet.engine.arrays.handle import opened
from gpufleet.engine.arrays.request import is_whole, share_mib
from gpufleet.engine.arrays.tables import Tables
from gpufleet.model.device import WHOLE_GPU_MILLI, Serves

SERVES_WHOLE = int(Serves.WHOLE)


@leaf
def settle_device(tables: Tables, device: int) -> None:
    """Work out what follows from a device's free part, health and users."""
    devices = tables.devices
    healthy = devices[layout.DEVICE_HEALTHY, device] == 1
    free = devices[layout.DEVICE_FREE_MILLI, device]
    idle = max(0, free) if healthy else 0
    unused = devices[layout.DEVICE_USERS, device] == 0 and free == WHOLE_GPU_MILLI
    serves = devices[layout.DEVICE_SERVES, device] & SERVES_WHOLE != 0
    entirely = 1 if (healthy and unused and serves) else 0
    journal.write(tables, layout.TABLE_DEVICES, device, layout.DEVICE_IDLE_MILLI, idle)
    journal.write(tables, layout.TABLE_DEVICES, device, layout.DEVICE_WHOLE_FREE, entirely)


@leaf
def settle_node(tables: Tables, node: int) -> None:
    """Sum up the node from its devices; that it changed must be noted besides (``journal.touch``)."""
    first = tables.nodes[layout.NODE_FIRST_DEVICE, node]
    idle, entirely = 0, 0
    for device in range(first, first + tables.nodes[layout.NODE_DEVICE_COUNT, node]):
        idle += tables.devices[layout.DEVICE_IDLE_MILLI, device]
        entirely += tables.devices[layout.DEVICE_WHOLE_FREE, device]
    journal.write(tables, layout.TABLE_NODES, node, layout.NODE_FREE_GPU_MILLI, idle)
    journal.write(tables, layout.TABLE_NODES, node, layout.NODE_FREE_WHOLE_GPUS, entirely)


@entry
def settle_by_handle(tables: Int64Array, node: int) -> None:
    """``settle_device`` of each device of a node, and ``settle_node``, for Python: by handle."""
    known = opened(Tables, tables)
    first = known.nodes[layout.NODE_FIRST_DEVICE, node]
    for device in range(first, first + known.nodes[layout.NODE_DEVICE_COUNT, node]):
        settle_device(known, device)
    settle_node(known, node)
    journal.touch(known, node)


@leaf
def book_host(tables: Tables, shape: int, node: int, sign: int) -> None:
    """Take (sign -1) or give back (sign 1) the host resources of one pod."""
    for column in range(tables.shape_resources.shape[1]):
        asked = tables.shape_resources[shape, column]
        if asked != 0:
            left = tables.resources_free[node, column] + sign * asked
            journal.write(tables, layout.TABLE_RESOURCES, node, column, left)
    kind = tables.shapes[layout.SHAPE_KIND, shape]
    if kind != layout.NOT_SET:
        running = tables.kinds[node, kind] - sign
        journal.write(tables, layout.TABLE_KINDS, node, kind, running)


@leaf
def book_device(tables: Tables, shape: int, device: int, sign: int) -> None:
    """Take (sign -1) or give back (sign 1) one pod's part of a device."""
    devices = tables.devices
    if is_whole(tables, shape):
        mib = max(0, devices[layout.DEVICE_TOTAL_MIB, device])
    else:
        mib = share_mib(tables, shape, device)
    milli = devices[layout.DEVICE_FREE_MILLI, device]
    milli += sign * tables.shapes[layout.SHAPE_GPU_MILLI, shape]
    free_mib = devices[layout.DEVICE_FREE_MIB, device] + sign * mib
    users = devices[layout.DEVICE_USERS, device] - sign
    journal.write(tables, layout.TABLE_DEVICES, device, layout.DEVICE_FREE_MILLI, milli)
    journal.write(tables, layout.TABLE_DEVICES, device, layout.DEVICE_FREE_MIB, free_mib)
    journal.write(tables, layout.TABLE_DEVICES, device, layout.DEVICE_USERS, users)
    if tables.shapes[layout.SHAPE_GPU_MIB, shape] != layout.NOT_SET:
        shares = devices[layout.DEVICE_MEMORY_SHARES, device] - sign
        journal.write(tables, layout.TABLE_DEVICES, device, layout.DEVICE_MEMORY_SHARES, shares)
    settle_device(tables, device)


@kernel
def place(tables: Tables, pod: int, node: int, chosen: Int64Array, state: int) -> None:
    """Put a pod on a node and on the devices ``chosen`` (as many as its shape asks for)."""
    shape = tables.pods[layout.POD_SHAPE, pod]
    book_host(tables, shape, node, -1)
    for index in range(tables.shapes[layout.SHAPE_GPU_COUNT, shape]):
        device = chosen[index]
        journal.write(tables, layout.TABLE_POD_DEVICES, pod, index, device)
        if device != layout.NOT_SET:
            book_device(tables, shape, device, -1)
    journal.write(tables, layout.TABLE_PODS, pod, layout.POD_NODE, node)
    journal.write(tables, layout.TABLE_PODS, pod, layout.POD_STATE, state)
    if tables.counters[layout.COUNTER_QUEUES] != 0:
        charge(tables, pod, 1)
    settle_node(tables, node)
    journal.touch_filled(tables, node)


@kernel
def release(tables: Tables, pod: int, state: int) -> None:
    """Take a pod off its node and devices and leave it in ``state``."""
    node = tables.pods[layout.POD_NODE, pod]
    # Before the devices are taken away: the charge follows from them.
    if tables.counters[layout.COUNTER_QUEUES] != 0:
        charge(tables, pod, -1)
    take_off(tables, pod, node, state)
    settle_node(tables, node)
    journal.touch(tables, node)


@leaf
def take_off(tables: Tables, pod: int, node: int, state: int) -> None:
    """Take a pod off its devices and leave it in ``state``; its node is summed up and touched later."""
    shape = tables.pods[layout.POD_SHAPE, pod]
    book_host(tables, shape, node, 1)
    for index in range(tables.shapes[layout.SHAPE_GPU_COUNT, shape]):
        device = tables.pod_devices[pod, index]
        if device != layout.NOT_SET:
            book_device(tables, shape, device, 1)
        journal.write(tables, layout.TABLE_POD_DEVICES, pod, index, layout.NOT_SET)
    journal.write(tables, layout.TABLE_PODS, pod, layout.POD_NODE, layout.NOT_SET)
    journal.write(tables, layout.TABLE_PODS, pod, layout.POD_STATE, state)


@kernel
def release_all(
    tables: Tables, pods: Int64Array, state: int, eviction_columns: Int64Array, uncharged: int
) -> None:
    """Take pods off their nodes, those that are on one.

    ``uncharged`` is 1 where those that leave are not charged any more (``queueing.future_quota``): the caller
    has taken their charge back already.
    """
    counts = tables.counters[layout.COUNTER_QUEUES] != 0
    last = layout.NOT_SET
    for index in range(len(pods)):
        pod = pods[index]
        node = tables.pods[layout.POD_NODE, pod]
        if node == layout.NOT_SET:
            continue
        if counts and not (uncharged == 1 and eviction_columns[LEAVING, pod] == 1):
            charge(tables, pod, -1)
        elif counts:
            note_that_usage_fell(tables, pod)
        # Pods that share a node often come one after the other, and it is summed up once for them.
        if last not in (node, layout.NOT_SET):
            settle_node(tables, last)
            journal.touch(tables, last)
        take_off(tables, pod, node, state)
        last = node
    if last != layout.NOT_SET:
        settle_node(tables, last)
        journal.touch(tables, last)


def writes_for(resource_columns: int, devices: int) -> int:
    """The most journal entries that one ``place`` or ``release`` makes, but for its charge."""
    # Host: its resources, and the kind (+ 1). Each device: the pod's cell, four amounts, and two that follow
    # from these (* 7). At the end: two sums of the node, and the pod's node and state (+ 4).
    return resource_columns + 1 + devices * 7 + 4


@entry
def place_by_handle(tables: Int64Array, pod: int, node: int, chosen: Int64Array, state: int) -> None:
    """``place``, for Python: by handle (see ``handle``)."""
    place(opened(Tables, tables), pod, node, chosen, state)


@entry
def release_by_handle(tables: Int64Array, pod: int, state: int) -> None:
    """``release``, for Python: by handle (see ``handle``)."""
    release(opened(Tables, tables), pod, state)


@entry
def release_all_by_handle(
    tables: Int64Array, pods: Int64Array, state: int, eviction_columns: Int64Array, uncharged: int
) -> None:
    """``release_all``, for Python: by handle (see ``handle``)."""
    release_all(opened(Tables, tables), pods, state, eviction_columns, uncharged)
