"""What a queue may still take of a resource, and which limit on its path is the one that binds.

The arithmetic is Kueue's, for trees of any depth, with hard limits on top:

    available(root) = subtree - counted
    available(q)    = max(0, guaranteed - counted)
                      + min(available(parent),
                            subtree - guaranteed - max(0, counted - guaranteed) + borrowing limit)

It is linear in what is charged: after a charge there is as much less available. So a charge is
allowed if what is available after it is not negative, which is what ``search`` asks after placing.
Unrolled from the queue to the root, with ``own`` for the first terms of the queues passed so far,
it is the least of (own + the queue's ceiling) over the path, and of (own + what is left at the root).
"""

from gpufleet.engine import layout
from gpufleet.engine.compiled import kernel, leaf
from gpufleet.engine.quota.charge import charged
from gpufleet.engine.tables import Int64Array, Tables

# found[...]: which limit binds
BINDING_ROW = 0
BINDING_LIMIT = 1
BINDING_COLUMNS = 2


@leaf
def left(tables: Tables, queue: int, column: int, found: Int64Array) -> int:
    """What is available to the queue, below 0 where it has more than it may; ``found`` tells the limit.

    ``found`` may be empty. NO_LIMIT where neither the queue nor one above it names the resource.
    """
    limits = tables.queue_limits
    if limits[layout.LIMIT_NAMED, queue, column] == 0:
        return layout.NO_LIMIT
    best, best_row, best_limit = layout.NO_LIMIT, queue, layout.LIMIT_NOMINAL
    own, row = 0, queue
    while row != layout.NOT_SET:
        counted = tables.queue_counted[row, column]
        subtree = limits[layout.LIMIT_SUBTREE, row, column]
        guaranteed = limits[layout.LIMIT_GUARANTEED, row, column]
        hard = limits[layout.LIMIT_HARD, row, column] - tables.queue_total[row, column]
        if hard < best:
            best, best_row, best_limit = hard, row, layout.LIMIT_HARD
        parent = tables.queues[layout.QUEUE_PARENT, row]
        if parent == layout.NOT_SET:
            if own + subtree - counted < best:
                best, best_row, best_limit = own + subtree - counted, row, layout.LIMIT_SUBTREE
        else:
            own += max(0, guaranteed - counted)
            borrowing = limits[layout.LIMIT_BORROWING, row, column]
            if borrowing != layout.NO_LIMIT:
                ceiling = own + subtree - guaranteed - max(0, counted - guaranteed) + borrowing
                if ceiling < best:
                    best, best_row, best_limit = ceiling, row, layout.LIMIT_BORROWING
        row = parent
    if len(found) > 0:
        found[BINDING_ROW] = best_row
        found[BINDING_LIMIT] = best_limit
    return int(best)


@kernel
def left_at(tables: Tables, queue: int, column: int, found: Int64Array) -> int:
    """``left``, to be called from Python."""
    return left(tables, queue, column, found)


@kernel
def keeps_quota(tables: Tables, pod: int, nobody: Int64Array) -> bool:
    """True if the queue of a pod that was just placed, and charged, stays within its limits."""
    queue = tables.pods[layout.POD_QUEUE, pod]
    if queue == layout.NOT_SET:
        return True
    for column in range(tables.quota_columns.shape[1]):
        if charged(tables, pod, column) > 0 and left(tables, queue, column, nobody) < 0:
            return False
    return True


@kernel
def short_column(tables: Tables, queue: int, shape: int, nobody: Int64Array) -> int:
    """The first resource of which a pod of the shape needs more than is left wherever it runs, or NOT_SET."""
    for column in range(tables.quota_columns.shape[1]):
        asked = tables.shape_charges[shape, column]
        if asked > 0 and left(tables, queue, column, nobody) < asked:
            return column
    return layout.NOT_SET
