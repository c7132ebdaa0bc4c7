"""The one way to write engine state, and the one way to take it back.

Every write of a trial goes through ``write``, which first notes (table, row, column, old value).
``undo`` walks the notes backwards to a mark. No field can be forgotten, because there is no other
way to set one. A changed node is put on the list of changes either way, so that cached scores
(``ranking``) of a node that was changed and changed back are made anew rather than trusted.
"""

from gpufleet.engine.arrays import layout
from gpufleet.engine.arrays.array_types import Int64Array
from gpufleet.engine.arrays.compiled import entry, kernel, leaf
from gpufleet.engine.arrays.handle import opened
from gpufleet.engine.arrays.tables import Tables


@leaf
def write(tables: Tables, table: int, row: int, column: int, value: int) -> None:
    """Set one cell and note what was there."""
    length = tables.counters[layout.COUNTER_JOURNAL_LENGTH]
    tables.journal[length, 0] = table
    tables.journal[length, 1] = row
    tables.journal[length, 2] = column
    tables.journal[length, 3] = exchange(tables, table, row, column, value)
    tables.counters[layout.COUNTER_JOURNAL_LENGTH] = length + 1


@leaf
def exchange(tables: Tables, table: int, row: int, column: int, value: int) -> int:
    """Set one cell and return what was there."""
    if table == layout.TABLE_DEVICES:
        old = tables.devices[column, row]
        tables.devices[column, row] = value
    elif table == layout.TABLE_RESOURCES:
        old = tables.resources_free[row, column]
        tables.resources_free[row, column] = value
    elif table == layout.TABLE_NODES:
        old = tables.nodes[column, row]
        tables.nodes[column, row] = value
    elif table == layout.TABLE_KINDS:
        old = tables.kinds[row, column]
        tables.kinds[row, column] = value
    elif table == layout.TABLE_PODS:
        old = tables.pods[column, row]
        tables.pods[column, row] = value
    elif table == layout.TABLE_QUEUE_COUNTED:
        old = tables.queue_counted[row, column]
        tables.queue_counted[row, column] = value
    elif table == layout.TABLE_QUEUE_TOTAL:
        old = tables.queue_total[row, column]
        tables.queue_total[row, column] = value
    elif table == layout.TABLE_QUEUE_PROTECTED:
        old = tables.queue_protected[row, column]
        tables.queue_protected[row, column] = value
    else:
        old = tables.pod_devices[row, column]
        tables.pod_devices[row, column] = value
    return int(old)


@leaf
def touch(tables: Tables, node: int) -> None:
    """Put a node on the list of changes; what fitted nowhere on it may fit now."""
    tables.gained_at[node] = tables.counters[layout.COUNTER_CHANGES]
    touch_filled(tables, node)


@leaf
def touch_filled(tables: Tables, node: int) -> None:
    """Put a node on the list of changes that has one pod more, and so less room for any other."""
    position = tables.counters[layout.COUNTER_CHANGES]
    tables.changes[position % len(tables.changes)] = node
    tables.changed_at[node] = position
    tables.counters[layout.COUNTER_CHANGES] = position + 1


@kernel
def undo(tables: Tables, mark: int) -> None:
    """Take back every write since the journal had ``mark`` entries."""
    # Backwards, so that a cell that was written twice ends with what it had first.
    for position in range(tables.counters[layout.COUNTER_JOURNAL_LENGTH] - 1, mark - 1, -1):
        table, row = tables.journal[position, 0], tables.journal[position, 1]
        column, old = tables.journal[position, 2], tables.journal[position, 3]
        exchange(tables, table, row, column, old)
        if table in (layout.TABLE_NODES, layout.TABLE_RESOURCES, layout.TABLE_KINDS):
            touch(tables, row)
        elif table == layout.TABLE_DEVICES:
            touch(tables, tables.devices[layout.DEVICE_NODE, row])
    tables.counters[layout.COUNTER_JOURNAL_LENGTH] = mark


@entry
def undo_by_handle(tables: Int64Array, mark: int) -> None:
    """``undo``, for Python: by handle (see ``handle``)."""
    undo(opened(Tables, tables), mark)
