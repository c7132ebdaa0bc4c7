"""Charging a pod: what it is given is counted along the path of its queue, through the journal.

The charge of a GPU resource depends on the devices given, so it follows the booking: ``placing``
charges after the devices are written and discharges before they are taken away. What claims of devices are
charged stands by shape (``queueing.claim_charges``). ``total`` counts
everything below a queue; ``counted`` only what a queue does not cover by what it is guaranteed
(``tree``). ``protected`` is what pods that may not be evicted are charged, counted once: at the nearest
queue that states the resource, against its own nominal amount (``available``). Usage always follows
from bookings: ``recount`` works it out from nothing.
"""

from gpufleet.engine.arrays import journal, layout
from gpufleet.engine.arrays.array_types import Int64Array
from gpufleet.engine.arrays.compiled import kernel, leaf
from gpufleet.engine.arrays.request import is_whole, share_mib
from gpufleet.engine.arrays.tables import Tables
from gpufleet.model.device import WHOLE_GPU_MILLI


@leaf
def gpu_milli(tables: Tables, shape: int, device: int) -> int:
    """Thousandths of a device that a pod of the shape is charged for.

    A share counts by its milli or its part of the memory, whatever is larger: that is the part of the
    GPU that it keeps others from. Of a device of unknown memory, a share by memory alone counts whole.
    """
    milli = tables.shapes[layout.SHAPE_GPU_MILLI, shape]
    stated = tables.shapes[layout.SHAPE_GPU_MIB, shape]
    if milli == WHOLE_GPU_MILLI or stated == layout.NOT_SET:
        return int(milli)
    total = layout.NOT_SET
    if device != layout.NOT_SET:
        total = tables.devices[layout.DEVICE_TOTAL_MIB, device]
    if total <= 0:
        return int(milli if milli > 0 else WHOLE_GPU_MILLI)
    by_memory = -(-stated * WHOLE_GPU_MILLI // total)
    return int(min(WHOLE_GPU_MILLI, max(milli, by_memory)))


@leaf
def gpu_memory_mib(tables: Tables, shape: int, device: int) -> int:
    """Memory of a device that a pod of the shape is charged for."""
    if device == layout.NOT_SET:
        stated = tables.shapes[layout.SHAPE_GPU_MIB, shape]
        return 0 if is_whole(tables, shape) else int(max(0, stated))
    if is_whole(tables, shape):
        return int(max(0, tables.devices[layout.DEVICE_TOTAL_MIB, device]))
    return share_mib(tables, shape, device)


@leaf
def device_charge(tables: Tables, shape: int, device: int, column: int) -> int:
    """The charge of one device (NOT_SET: one that its node does not show) in a GPU resource."""
    kind = tables.quota_columns[layout.QUOTA_KIND, column]
    if kind == layout.CHARGE_GPU_MEMORY:
        return gpu_memory_mib(tables, shape, device)
    model = layout.NOT_SET
    if device != layout.NOT_SET:
        model = tables.devices[layout.DEVICE_MODEL, device]
    if kind == layout.CHARGE_GPU_OF_MODEL and model != tables.quota_columns[layout.QUOTA_MODEL, column]:
        return 0
    milli = gpu_milli(tables, shape, device)
    if kind != layout.CHARGE_COST:
        return milli
    price = layout.ONE_PRICE_MILLI
    if model != layout.NOT_SET:
        price = tables.model_prices[model]
    return int(-(-milli * price // layout.ONE_PRICE_MILLI))


@leaf
def charged(tables: Tables, pod: int, column: int) -> int:
    """What a pod with a place is charged in one resource."""
    kind = tables.quota_columns[layout.QUOTA_KIND, column]
    if kind == layout.NOT_SET:
        return 0
    shape = tables.pods[layout.POD_SHAPE, pod]
    if kind == layout.CHARGE_BY_SHAPE:
        return int(tables.shape_charges[shape, column])
    amount = tables.shape_claims[shape, column]
    for index in range(tables.shapes[layout.SHAPE_GPU_COUNT, shape]):
        amount += device_charge(tables, shape, tables.pod_devices[pod, index], column)
    return int(amount)


@leaf
def charge_path(tables: Tables, queue: int, column: int, amount: int) -> None:
    """Add an amount, which may be negative, at a queue and above it.

    What the guarantee of a queue covers is not counted above it.
    """
    row, up = queue, amount
    while row != layout.NOT_SET:
        total = tables.queue_total[row, column] + amount
        journal.write(tables, layout.TABLE_QUEUE_TOTAL, row, column, total)
        if up != 0:
            guaranteed = tables.queue_limits[layout.LIMIT_GUARANTEED, row, column]
            before = tables.queue_counted[row, column]
            journal.write(tables, layout.TABLE_QUEUE_COUNTED, row, column, before + up)
            # Above a queue only use beyond its guarantee counts: what goes up is the change of that.
            up = max(0, before + up - guaranteed) - max(0, before - guaranteed)
        row = tables.queues[layout.QUEUE_PARENT, row]


@leaf
def charge_owner(tables: Tables, queue: int, column: int, amount: int) -> None:
    """Add what protected work of a queue is charged, which may be negative, where it counts."""
    owner = tables.queue_limits[layout.LIMIT_OWNER, queue, column]
    if owner != layout.NOT_SET:
        protected = tables.queue_protected[owner, column] + amount
        journal.write(tables, layout.TABLE_QUEUE_PROTECTED, owner, column, protected)


@leaf
def note_that_usage_fell(tables: Tables, pod: int) -> None:
    """Lines that wait for quota are looked at only in trees where usage fell (``available.who_fits``)."""
    queue = tables.pods[layout.POD_QUEUE, pod]
    if queue != layout.NOT_SET:
        tables.queues[layout.QUEUE_FELL, tables.queues[layout.QUEUE_ROOT, queue]] = 1


@kernel
def charge(tables: Tables, pod: int, sign: int) -> None:
    """Count a pod that has its devices (sign 1), or count it no longer (sign -1)."""
    queue = tables.pods[layout.POD_QUEUE, pod]
    if queue == layout.NOT_SET:
        return
    for column in range(tables.quota_columns.shape[1]):
        amount = charged(tables, pod, column)
        if amount != 0:
            charge_path(tables, queue, column, sign * amount)
            if tables.pods[layout.POD_PROTECTED, pod] == 1:
                charge_owner(tables, queue, column, sign * amount)
    if sign < 0:
        note_that_usage_fell(tables, pod)


@kernel
def discharge_each(tables: Tables, pods: Int64Array) -> None:
    """Count these pods no longer, for a question that is undone: no line that waits is looked at again."""
    for number in range(len(pods)):
        queue = tables.pods[layout.POD_QUEUE, pods[number]]
        if queue == layout.NOT_SET:
            continue
        for column in range(tables.quota_columns.shape[1]):
            amount = charged(tables, pods[number], column)
            if amount != 0:
                charge_path(tables, queue, column, -amount)
                if tables.pods[layout.POD_PROTECTED, pods[number]] == 1:
                    charge_owner(tables, queue, column, -amount)


@kernel
def recount(tables: Tables) -> None:
    """Charge every pod that has a place, where nothing is charged yet.

    That is not for the journal, which needs room for one charge all the same.
    """
    mark = tables.counters[layout.COUNTER_JOURNAL_LENGTH]
    for pod in range(tables.pods.shape[1]):
        if tables.pods[layout.POD_STATE, pod] != 0 and tables.pods[layout.POD_NODE, pod] != layout.NOT_SET:
            charge(tables, pod, 1)
            tables.counters[layout.COUNTER_JOURNAL_LENGTH] = mark


def writes_for_charge(columns: int, path: int) -> int:
    """The most journal entries that one charge makes on a path of that many queues."""
    return columns * (2 * path + 1)
