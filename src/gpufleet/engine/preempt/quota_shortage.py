"""What a pod lacks of quota, and how much of it each candidate would give back at most.

Besides room, quota bounds from below how many must go: a victim frees no more of a resource than it is
charged, and only in its own tree. ``by_node`` weighs both alike.
"""

from typing import NamedTuple

import numpy as np

from gpufleet.engine.arrays import layout
from gpufleet.engine.arrays.array_types import Int64Array
from gpufleet.engine.arrays.charge import charged
from gpufleet.engine.arrays.compiled import kernel
from gpufleet.engine.arrays.tables import Tables
from gpufleet.engine.queueing.available import binding


class QuotaLack(NamedTuple):
    """For each resource of which quota is short: how much, and by candidate how much of it would be freed."""

    lacks: Int64Array
    gives: Int64Array


def short_quota(tables: Tables, pod: int, rows: Int64Array) -> QuotaLack:
    """What the queue of a pod lacks for it as things are, and what these candidates are charged of that."""
    lacks = np.zeros(tables.quota_columns.shape[1], np.int64)
    lacking_quota(tables, pod, lacks)
    columns = np.flatnonzero(lacks)
    gives = np.zeros((len(columns), len(rows)), np.int64)
    if len(columns):
        freed_quota(tables, pod, rows, columns, gives)
    return QuotaLack(lacks[columns], gives)


@kernel
def lacking_quota(tables: Tables, pod: int, lacks: Int64Array) -> None:
    """Fill ``lacks`` by resource column: how much less is left than the pod needs wherever it runs."""
    queue = tables.pods[layout.POD_QUEUE, pod]
    if queue == layout.NOT_SET:
        return
    shape = tables.pods[layout.POD_SHAPE, pod]
    for column in range(len(lacks)):
        asked = tables.shape_charges[shape, column]
        if asked > 0:
            lacks[column] = max(0, asked - binding(tables, queue, column)[0])


@kernel
def freed_quota(tables: Tables, pod: int, rows: Int64Array, columns: Int64Array, gives: Int64Array) -> None:
    """Fill ``gives`` with what these pods are charged in the tree of a queue."""
    root = tables.queues[layout.QUEUE_ROOT, tables.pods[layout.POD_QUEUE, pod]]
    for place in range(len(rows)):
        queue = tables.pods[layout.POD_QUEUE, rows[place]]
        if queue == layout.NOT_SET or tables.queues[layout.QUEUE_ROOT, queue] != root:
            continue
        for number in range(len(columns)):
            gives[number, place] = charged(tables, rows[place], columns[number])
