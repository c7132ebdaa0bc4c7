"""What to say of fair shares: what each queue is owed, wants and has, and how it stands among its siblings.

``entitlements`` and ``turns`` work it out; here it becomes values for people.
"""

import msgspec
import numpy as np

from gpufleet.engine.arrays import layout
from gpufleet.engine.arrays.array_types import Int64Array
from gpufleet.engine.arrays.layout import PodState
from gpufleet.engine.arrays.tables import TableStore
from gpufleet.engine.queueing.entitlements import Level, top_down
from gpufleet.engine.queueing.queue_charges import QueueCharges
from gpufleet.engine.queueing.turns import Turns
from gpufleet.model.device import WHOLE_GPU_MILLI
from gpufleet.model.identifiers import QueueName, QuotaResource

IN_WHOLE_GPUS = (layout.CHARGE_GPU, layout.CHARGE_GPU_OF_MODEL)


class OwedAmount(msgspec.Struct, frozen=True):
    """One resource of a queue and all below it, in the resource's own unit.

    ``wanted`` is what it uses and its waiting work will be charged at least; ``owed`` what it would have if
    all were divided anew, as far as it wants it.
    """

    resource: QuotaResource
    wanted: int
    owed: int
    used: int


class FairShare(msgspec.Struct, frozen=True):
    """How one queue stands among its siblings.

    ``share_milli`` is its dominant share divided by its weight, in thousandths rounded down, by which it is
    compared with its siblings; None where it comes after all others (weight 0, or more than there is to
    share). ``dominant`` names the resource of which it is the share, None for one that borrows nothing.
    """

    queue: QueueName
    parent: QueueName | None
    share_milli: int | None
    dominant: QuotaResource | None
    amounts: tuple[OwedAmount, ...]


def fair_shares(queues: QueueCharges, turns: Turns, at_us: int) -> tuple[FairShare, ...]:
    """Every described queue, parents before their children."""
    if not queues.is_active:
        return ()
    tree = queues.tree
    order = top_down(tree)
    columns = sorted(tree.resources.column_by_name.items())
    wanted = queues.store.tables.queue_total + waited_for(queues.store, order)
    owed: dict[QuotaResource, dict[int, int]] = {}
    for resource, column in columns:
        kind = int(queues.store.tables.quota_columns[layout.QUOTA_KIND, column])
        unit = WHOLE_GPU_MILLI if kind in IN_WHOLE_GPUS else 1
        leaves = {row: int(wanted[row, column]) for row in order if not tree.children(row)}
        owed[resource] = Level(tree, column, leaves, unit).owed_by_row(order)
    name_by_column = {column: resource for resource, column in columns}
    found = []
    for row in order:
        share = turns.share(row, at_us)
        amounts = tuple(
            OwedAmount(
                resource,
                int(wanted[row, column]),
                owed[resource][row],
                int(queues.store.tables.queue_total[row, column]),
            )
            for resource, column in columns
        )
        milli = None if share.endless else share.numerator * 1000 // share.denominator
        parent = tree.queue_at(row).parent
        found.append(FairShare(tree.name_at(row), parent, milli, name_by_column.get(share.column), amounts))
    return tuple(found)


def waited_for(store: TableStore, order: list[int]) -> Int64Array:
    """By row and column, what the waiting work of each queue and below it will be charged at least.

    Work that its queue lets start at no time wants nothing.
    """
    tables = store.tables
    waited = np.zeros(tables.queue_total.shape, np.int64)
    queue = tables.pods[layout.POD_QUEUE]
    waits = np.isin(tables.pods[layout.POD_STATE], (PodState.WAITING, PodState.BACKOFF)) & (queue >= 0)
    pods = np.flatnonzero(waits)
    pods = pods[tables.queues[layout.QUEUE_CLOSED, queue[pods]] == 0]
    # ``waited[queue] += charges`` would count only one pod of each queue.
    np.add.at(waited, queue[pods], tables.shape_charges[tables.pods[layout.POD_SHAPE, pods]])
    # From the bottom up: a parent gets the whole sums of its children.
    for row in reversed(order):
        parent = int(tables.queues[layout.QUEUE_PARENT, row])
        if parent != layout.NOT_SET:
            waited[parent] += waited[row]
    return waited
