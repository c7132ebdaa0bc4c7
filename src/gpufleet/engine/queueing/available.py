"""What a queue may still take of a resource, and which limit on its path is the one that binds.

The arithmetic is Kueue's, for trees of any depth, with hard limits on top:

    available(root) = subtree - counted
    available(q)    = max(0, guaranteed - counted)
                      + min(available(parent),
                            subtree - guaranteed - max(0, counted - guaranteed) + borrowing limit)

It is linear in what is charged: after a charge there is as much less available. So a charge is allowed if
what is available after it is not negative, which is what ``place.choose.placement`` asks after placing.
Unrolled from the queue to the root, with ``own`` for the first terms of the queues passed so far, it is the
least of (own + the queue's ceiling) over the path, and of (own + what is left at the root).

Protected work, which may not be evicted, has a limit of its own besides: what it borrowed could never be
given back. So on the path of its queue, the nearest that states a quota of a resource lets it have no more
than its nominal amount. That keeps the same true at every level above: what queues have together is the
sum of what they state.
"""

from gpufleet.engine.arrays import layout
from gpufleet.engine.arrays.array_types import Int64Array
from gpufleet.engine.arrays.charge import charged
from gpufleet.engine.arrays.compiled import entry, kernel, leaf
from gpufleet.engine.arrays.handle import opened
from gpufleet.engine.arrays.tables import Tables


@leaf
def binding(tables: Tables, queue: int, column: int) -> tuple[int, int, int]:
    """(what is available to the queue, the row of the queue whose limit binds, which limit it is).

    Below 0 where the queue has more than it may; NO_LIMIT where neither it nor one above it names the
    resource. LIMIT_SUBTREE stands for what the whole tree has.
    """
    limits = tables.queue_limits
    best, best_row, best_limit = layout.NO_LIMIT, queue, layout.LIMIT_NOMINAL
    if limits[layout.LIMIT_NAMED, queue, column] == 0:
        return best, best_row, best_limit
    own, row = 0, queue
    while row != layout.NOT_SET:
        counted = tables.queue_counted[row, column]
        subtree = limits[layout.LIMIT_SUBTREE, row, column]
        guaranteed = limits[layout.LIMIT_GUARANTEED, row, column]
        # A hard limit counts all that runs in the queue and below, even what a guarantee below covers.
        hard = limits[layout.LIMIT_HARD, row, column] - tables.queue_total[row, column]
        if hard < best and limits[layout.LIMIT_HARD, row, column] != layout.NO_LIMIT:
            best, best_row, best_limit = hard, row, layout.LIMIT_HARD
        parent = tables.queues[layout.QUEUE_PARENT, row]
        ceiling = layout.NO_LIMIT
        if parent == layout.NOT_SET:
            ceiling, limit = own + subtree - counted, layout.LIMIT_SUBTREE
        else:
            # What is guaranteed and idle is lent to none above, so it is summed up on the way.
            own += max(0, guaranteed - counted)
            borrowing, limit = limits[layout.LIMIT_BORROWING, row, column], layout.LIMIT_BORROWING
            if borrowing != layout.NO_LIMIT:
                # Beyond its guarantee a queue may take what it lends and may borrow, less what it took of
                # that.
                ceiling = own + subtree - guaranteed - max(0, counted - guaranteed) + borrowing
        if ceiling < best:
            best, best_row, best_limit = ceiling, row, limit
        row = parent
    return best, best_row, best_limit


@leaf
def left_to_protected(tables: Tables, queue: int, column: int) -> int:
    """What protected work of a queue may still take, by the nominal amount that it counts against.

    Below 0 where it has more than it may; NO_LIMIT where no queue on the path states the resource.
    """
    owner = tables.queue_limits[layout.LIMIT_OWNER, queue, column]
    if owner == layout.NOT_SET:
        return int(layout.NO_LIMIT)
    nominal = tables.queue_limits[layout.LIMIT_NOMINAL, owner, column]
    return int(nominal - tables.queue_protected[owner, column])


@leaf
def is_too_much(tables: Tables, queue: int, column: int, asked: int, protected: int) -> bool:
    """True if more is asked than is left to the queue; ``protected`` is what protected work asks of it."""
    if asked > 0 and binding(tables, queue, column)[0] < asked:
        return True
    return bool(protected > 0 and left_to_protected(tables, queue, column) < protected)


@kernel
def binding_limit(tables: Tables, queue: int, column: int) -> tuple[int, int, int]:
    """``binding``, to be called from Python."""
    return binding(tables, queue, column)


@kernel
def keeps_quota(tables: Tables, pod: int) -> bool:
    """True if the queue of a pod that was just placed, and charged, stays within its limits."""
    queue = tables.pods[layout.POD_QUEUE, pod]
    if queue == layout.NOT_SET:
        return True
    is_protected = tables.pods[layout.POD_PROTECTED, pod] == 1
    for column in range(tables.quota_columns.shape[1]):
        # Where a queue has too much of one resource, work that takes none of it may start.
        if charged(tables, pod, column) <= 0:
            continue
        if binding(tables, queue, column)[0] < 0:
            return False
        if is_protected and left_to_protected(tables, queue, column) < 0:
            return False
    return True


@kernel
def short_column(tables: Tables, queue: int, asked: Int64Array) -> int:
    """The first resource column of which more is asked than is left to the queue, or NOT_SET."""
    for column in range(len(asked)):
        if is_too_much(tables, queue, column, asked[column], 0):
            return column
    return layout.NOT_SET


@kernel
def short_protected_column(tables: Tables, queue: int, protected: Int64Array) -> int:
    """The first resource column of which protected work asks more than is left to it, or NOT_SET."""
    for column in range(len(protected)):
        if is_too_much(tables, queue, column, 0, protected[column]):
            return column
    return layout.NOT_SET


@kernel
def is_kept_out(tables: Tables, pod: int) -> bool:
    """True if the queue of a pod lets nothing start, or has less left than the pod needs wherever it runs."""
    queue = tables.pods[layout.POD_QUEUE, pod]
    if queue == layout.NOT_SET:
        return False
    if tables.queues[layout.QUEUE_CLOSED, queue] == 1:
        return True
    shape = tables.pods[layout.POD_SHAPE, pod]
    is_protected = tables.pods[layout.POD_PROTECTED, pod]
    for column in range(tables.quota_columns.shape[1]):
        asked = tables.shape_charges[shape, column]
        if is_too_much(tables, queue, column, asked, is_protected * asked):
            return True
    return False


@kernel
def who_fits(
    tables: Tables,
    trees: Int64Array,
    queues: Int64Array,
    asked: Int64Array,
    protected: Int64Array,
    found: Int64Array,
) -> int:
    """Which lines that wait for quota may have what they ask now.

    Looked at are those in trees whose root has a 1 in ``trees``. ``queues[number]`` is the row of the queue
    (NOT_SET: no line), ``asked[number, column]`` what is needed, ``protected[number, column]`` what of that
    is for protected work; ``found`` gets the numbers, and how many they are is returned.
    """
    count = 0
    for number in range(len(queues)):
        queue = queues[number]
        if queue == layout.NOT_SET or tables.queues[layout.QUEUE_CLOSED, queue] == 1:
            continue
        if trees[tables.queues[layout.QUEUE_ROOT, queue]] == 0:
            continue
        fits = True
        # Either array may have columns that the other has not yet; what is missing asks nothing.
        for column in range(min(asked.shape[1], tables.quota_columns.shape[1])):
            if is_too_much(tables, queue, column, asked[number, column], protected[number, column]):
                fits = False
                break
        if fits:
            found[count] = number
            count += 1
    return count


@entry
def is_kept_out_by_handle(tables: Int64Array, pod: int) -> bool:
    """``is_kept_out``, for Python: by handle (see ``arrays.handle``)."""
    return is_kept_out(opened(Tables, tables), pod)
