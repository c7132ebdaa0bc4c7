"""Quota as it will be: without the charges of pods that leave, and with what nominated pods are promised.

While a pod leaves and another is nominated in its place both are charged, so that nothing that is promised
is given to others. To ask what the future allows, charges are taken back on a trial, queue by queue
(``Charges``), which costs the same for one pod and for thousands.

A nominated pod may be bound when two things hold (``keeps_promises``). What really runs, and this pod, are
within the limits. And they still are once all pods nominated before have taken the places of the pods they
wait for. Neither is asked for more: the quota of a victim belongs to its beneficiary as soon as the victim
goes, whatever other victims are to follow.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from gpufleet.engine.arrays import layout
from gpufleet.engine.arrays.array_types import Int64Array
from gpufleet.engine.arrays.charge import charge_owner, charge_path, charged
from gpufleet.engine.arrays.compiled import kernel
from gpufleet.engine.arrays.eviction_columns import AWAITED_BY, LEAVING, NOMINATION
from gpufleet.engine.arrays.journal import undo_by_handle
from gpufleet.engine.arrays.layout import PodState
from gpufleet.engine.arrays.tables import (
    Tables,
    TableStore,
)
from gpufleet.engine.queueing.gate import Gate
from gpufleet.engine.state.pods import PodTable

NOMINATED = int(PodState.NOMINATED)
ANY_NOMINATION = 1 << 61
"""The number of a nomination that comes after all there are."""


@kernel
def sum_charges(
    tables: Tables, eviction_columns: Int64Array, rows: int, number: int, sums: Int64Array
) -> None:
    """Add up by queue and column what pods with a place are charged: all of it in ``sums[which, 0]``, and,
    where there is a layer for it, what of that is for protected work in ``sums[which, 1]``.

    ``sums[0]`` those that leave, ``sums[1]`` those of them that nominations before ``number`` wait for,
    ``sums[2]`` nominated pods but for that number's, ``sums[3]`` those of them that came after it.
    """
    columns = tables.quota_columns.shape[1]
    for pod in range(rows):
        nominated = (
            tables.pods[layout.POD_STATE, pod] == NOMINATED and eviction_columns[NOMINATION, pod] != number
        )
        if eviction_columns[LEAVING, pod] == 0 and not nominated:
            continue
        queue = tables.pods[layout.POD_QUEUE, pod]
        if queue == layout.NOT_SET or tables.pods[layout.POD_NODE, pod] == layout.NOT_SET:
            continue
        layers = 1 + tables.pods[layout.POD_PROTECTED, pod]
        for column in range(columns):
            amount = charged(tables, pod, column)
            if amount == 0:
                continue
            for layer in range(layers):
                if eviction_columns[LEAVING, pod] == 1:
                    sums[0, layer, queue, column] += amount
                    if eviction_columns[AWAITED_BY, pod] < number:
                        sums[1, layer, queue, column] += amount
                if nominated:
                    sums[2, layer, queue, column] += amount
                    if eviction_columns[NOMINATION, pod] > number:
                        sums[3, layer, queue, column] += amount


@kernel
def add_charges(tables: Tables, pods: Int64Array, sums: Int64Array) -> None:
    """Add what these pods are charged where they are to one of the sums of ``sum_charges``."""
    for number in range(len(pods)):
        queue = tables.pods[layout.POD_QUEUE, pods[number]]
        if queue == layout.NOT_SET:
            continue
        for column in range(tables.quota_columns.shape[1]):
            amount = charged(tables, pods[number], column)
            for layer in range(1 + tables.pods[layout.POD_PROTECTED, pods[number]]):
                sums[layer, queue, column] += amount


@kernel
def charge_sums(tables: Tables, sums: Int64Array, sign: int, root: int) -> None:
    """Charge (sign 1) or take back (sign -1) what was added up, and of it what is for protected work; in one
    tree alone, unless ``root`` is NOT_SET.
    """
    for queue in range(sums.shape[1]):
        if root not in (layout.NOT_SET, tables.queues[layout.QUEUE_ROOT, queue]):
            continue
        for column in range(sums.shape[2]):
            if sums[0, queue, column] != 0:
                charge_path(tables, queue, column, sign * sums[0, queue, column])
            if sums.shape[0] > 1 and sums[1, queue, column] != 0:
                charge_owner(tables, queue, column, sign * sums[1, queue, column])


class Charges(NamedTuple):
    """What is charged now and will not be, or is promised, by queue and resource column.

    Each has a layer for all work, and, where some is protected, one for that.
    """

    leaving: Int64Array
    awaited: Int64Array
    nominated: Int64Array
    later: Int64Array


class FutureQuota:
    """Asks what the queues will allow."""

    def __init__(self, store: TableStore, pods: PodTable, gate: Gate) -> None:
        self.store = store
        self.pods = pods
        self.gate = gate

    def charges(self, number: int = ANY_NOMINATION) -> Charges:
        """As the cells are now, seen by the nomination of that number; a pod on no node is not charged."""
        tables = self.store.tables
        layers = 2 if self.pods.any_is_protected else 1
        sums = np.zeros((4, layers, *tables.queue_counted.shape), np.int64)
        sum_charges(tables, self.pods.eviction_columns.cells, len(self.pods.pods), number, sums)
        return Charges(*sums)

    def charged_to(self, rows: Int64Array) -> Int64Array:
        """What these pods are charged, in the form of a sum of ``Charges``."""
        layers = 2 if self.pods.any_is_protected else 1
        sums = np.zeros((layers, *self.store.tables.queue_counted.shape), np.int64)
        add_charges(self.store.tables, rows, sums)
        return sums

    def promise(self, charges: Charges, leaving: Int64Array, placed: Int64Array) -> None:
        """Bring charges up to date, seen by a workload that comes now: these were told to leave for those."""
        tables = self.store.tables
        add_charges(tables, leaving, charges.leaving)
        add_charges(tables, leaving, charges.awaited)
        add_charges(tables, placed, charges.nominated)

    def change(self, sums: Int64Array, sign: int, root: int = layout.NOT_SET) -> None:
        """Charge (sign 1) or take back (sign -1) these sums, in all trees or in that of one root; it is for a
        trial to undo that.
        """
        writes = int(np.count_nonzero(sums)) * self.store.writes_a_charge
        self.store.make_journal_room(writes)
        charge_sums(self.store.tables, sums, sign, root)

    def keeps_promises(self, rows: tuple[int, ...], number: int) -> bool:
        """True if the pods of a nomination, booked as they are, may be bound as far as quota goes."""
        if self._keep_quota(rows):
            return True
        charges = self.charges(number)
        if not (charges.nominated.any() or charges.awaited.any()):
            return False
        mark = self.store.mark()
        # Other nominated pods may never be bound: these must fit beside all that still runs.
        self.change(charges.nominated, -1)
        kept = self._keep_quota(rows)
        undo_by_handle(self.store.handle, mark)
        if kept:
            # They must also fit once those nominated earlier are bound and what these wait for is gone.
            self.change(charges.later + charges.awaited, -1)
            kept = self._keep_quota(rows)
            undo_by_handle(self.store.handle, mark)
        return kept

    def awaited_besides(self, rows: tuple[int, ...], number: int, leaving: Sequence[int]) -> list[int]:
        """Which of these pods that leave must be gone before the pods of a nomination, booked as they are,
        may be bound as far as quota goes: as few as it takes, and none where not even all of them would do.
        """
        charges = self.charges(number)
        if not self._keeps_promises_without(leaving, rows, charges, number):
            return []
        needed, size = list(leaving), len(leaving)
        # More and more of them are tried without, in halves, as thousands may leave.
        while size:
            for start in reversed(range(0, len(needed), size)):
                rest = needed[:start] + needed[start + size :]
                if self._keeps_promises_without(rest, rows, charges, number):
                    needed = rest
            size //= 2
        return needed

    def _keeps_promises_without(
        self, gone: Sequence[int], rows: tuple[int, ...], charges: Charges, number: int
    ) -> bool:
        """``keeps_promises`` as it will be when these pods that leave are gone."""
        left = np.array(gone, np.int64)
        awaited_by = self.pods.eviction_columns.cells[AWAITED_BY, left]
        mark = self.store.mark()
        self.change(charges.nominated + self.charged_to(left), -1)
        kept = self._keep_quota(rows)
        undo_by_handle(self.store.handle, mark)
        if kept:
            # What nominations before it wait for is in ``charges.awaited`` already.
            others = self.charged_to(left[awaited_by >= number])
            self.change(charges.later + charges.awaited + others, -1)
            kept = self._keep_quota(rows)
            undo_by_handle(self.store.handle, mark)
        return kept

    def _keep_quota(self, rows: tuple[int, ...]) -> bool:
        return all(map(self.gate.keeps_quota, rows))
