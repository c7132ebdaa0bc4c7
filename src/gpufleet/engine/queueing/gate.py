"""What the queues have to say to a workload before, and while, it is given a place.

Quota and placement are one decision. What does not depend on the device is asked before a node is
looked for (``keeps_out``). Where a charge depends on the device, the pod is only shown devices of
kinds that the quota still allows (``narrowed``): it is placed as if its shape accepted no other
models. And ``placement`` proves each placement on the journal, so that whatever a trial tries, no limit
is broken. ``complete`` tells which queue and which limit keeps a workload out.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

import msgspec
import numpy as np

from gpufleet.engine.arrays import layout
from gpufleet.engine.arrays.array_types import Int64Array
from gpufleet.engine.arrays.charge import discharge_each
from gpufleet.engine.arrays.journal import undo_by_handle
from gpufleet.engine.arrays.tables import TableStore
from gpufleet.engine.instruction import QueueBar, QuotaLimit, QuotaShortage, Verdict, WhyBarred
from gpufleet.engine.queueing.available import (
    binding_limit,
    is_kept_out_by_handle,
    keeps_quota,
    short_column,
    short_protected_column,
)
from gpufleet.engine.queueing.queue_charges import QueueCharges
from gpufleet.engine.queueing.resources import DeviceKind
from gpufleet.engine.state.fleet import Fleet
from gpufleet.engine.state.model_order import Models, groups_of
from gpufleet.engine.state.shapes import ShapeTable
from gpufleet.model.identifiers import QuotaResource
from gpufleet.model.shape import Shape

LIMITS = {
    layout.LIMIT_HARD: QuotaLimit.HARD,
    layout.LIMIT_BORROWING: QuotaLimit.BORROWING,
    layout.LIMIT_SUBTREE: QuotaLimit.NOMINAL,
}
NOTHING: Int64Array = np.zeros(0, np.int64)
"""What protected work asks where none of it is protected."""


class Narrowed(NamedTuple):
    """Where a pod may go: its ranking slot, and the nodes, none given for all of them.

    ``is_narrower``: quota rules out devices that the shape itself accepts.
    """

    slot: int
    nodes: Int64Array
    is_narrower: bool = False


class Options(NamedTuple):
    """What a shape is charged on each kind of device, where that is not the same for all."""

    shape: Shape
    charges: dict[DeviceKind, Int64Array]


class Gate:
    """Asks the queues what they allow a workload."""

    def __init__(self, store: TableStore, fleet: Fleet, shapes: ShapeTable, charges: QueueCharges) -> None:
        self.store = store
        self.fleet = fleet
        self.shapes = shapes
        self.charges = charges
        # Set by ``EngineState`` once there are lines and gangs, which need the gate themselves.
        self.sequence_of: Callable[[int], int] = lambda _row: 0
        self.created_of: Callable[[int], int] = lambda _row: 0
        self.members_of: Callable[[int], Iterable[int]] = lambda row: (row,)
        self.nominated_rows: Callable[[], Iterable[int]] = tuple
        self._options: dict[int, Options] = {}
        self._options_at = -1

    @property
    def is_active(self) -> bool:
        """True if any queue is described."""
        return self.charges.is_active

    @property
    def is_choosy(self) -> bool:
        """True if it may matter to a pod, beside its shape, where it is tried first."""
        return self.charges.is_active or self.fleet.spot_nodes > 0

    def bar(self, row: int) -> QueueBar | None:
        """Why a pod, or its gang, may not start, however much quota and room there is; None if it may."""
        found = self._own_bar(row)
        if found is not None or not self.charges.tree.has_admitted_namespaces:
            return found
        each = (self._refusal(member) for member in self.members_of(row))
        return next((one for one in each if one is not None), None)

    def _own_bar(self, row: int) -> QueueBar | None:
        """Why a pod may not start, whatever the other members of its gang say; None if it may."""
        found = self.charges.tree.bar(self.charges.queue_row(row))
        if found is None or found.why is not WhyBarred.UNKNOWN:
            refusal = self._refusal(row)
            if refusal is not None:
                return refusal
        if found is None or found.why is not WhyBarred.DRAINING:
            return found
        return found if self.is_late(row) else None

    def _refusal(self, row: int) -> QueueBar | None:
        """Why the queue of a pod does not admit its namespace; None where it does."""
        if not self.charges.tree.has_admitted_namespaces:
            return None
        return self.charges.namespace_access.refusal(
            self.charges.queue_row(row), self.charges.pods.pod_at(row).namespace
        )

    def is_refused(self, row: int) -> bool:
        """True if the namespace of the pod may not use its queue."""
        return self._refusal(row) is not None

    def holds_back_nothing(self, row: int) -> bool:
        """True if a waiting pod, or its gang, holds back no other: it came late to a
        draining queue, or may not use the queue at all.
        """
        if self.is_late(row):
            return True
        return self.charges.tree.has_admitted_namespaces and any(map(self.is_refused, self.members_of(row)))

    def is_late(self, row: int) -> bool:
        """True if the pod, or its gang, came when its queue was draining already."""
        found = self.charges.tree.bar(self.charges.queue_row(row)) if self.is_active else None
        if found is None or found.why is not WhyBarred.DRAINING:
            return False
        since_us = self.charges.tree.described[found.queue].draining_since_us
        if since_us is not None:
            return self.created_of(row) > since_us
        return self.sequence_of(row) > self.charges.drained_at[found.queue]

    def keeps_out(self, row: int) -> bool:
        """True if the pod cannot start on any device; False may still turn out to be wrong."""
        return is_kept_out_by_handle(self.store.handle, row) or self.bar(row) is not None

    def keeps_quota(self, row: int) -> bool:
        """True if a pod that was just placed may start there, as far as its queue goes."""
        if not self.is_active:
            return True
        return self._own_bar(row) is None and keeps_quota(self.store.tables, row)

    def asked(self, row: int) -> Int64Array:
        """By resource column, the least that the pod will be charged."""
        return self.store.tables.shape_charges[self._shape_row(row)]

    def asked_together(self, rows: list[int], count: int) -> Int64Array:
        """By resource column, the least that any ``count`` of these pods will be charged together."""
        # Sorted by column, so that it is a lower bound whichever ``count`` of the pods start.
        each = np.sort(self.store.tables.shape_charges[[self._shape_row(row) for row in rows]], axis=0)
        return np.asarray(each[:count].sum(axis=0), np.int64)

    def is_protected(self, row: int) -> bool:
        """True if the pod may not be evicted for another's sake."""
        return bool(self.store.tables.pods[layout.POD_PROTECTED, row])

    def protected_part(self, row: int, asked: Int64Array) -> Int64Array:
        """What of that a pod asks as protected work: all or nothing."""
        return asked if self.is_protected(row) else NOTHING

    def protected_together(self, rows: list[int], count: int) -> Int64Array:
        """By resource column, the least that any ``count`` of these are charged as protected work."""
        pods = self.store.tables.pods
        is_protected = pods[layout.POD_PROTECTED, rows]
        if not is_protected.any():
            return NOTHING
        each = self.store.tables.shape_charges[pods[layout.POD_SHAPE, rows]] * is_protected[:, None]
        return np.asarray(np.sort(each, axis=0)[:count].sum(axis=0), np.int64)

    def is_short(self, queue_row: int, asked: Int64Array, protected: Int64Array = NOTHING) -> bool:
        """True if the queue has less left than is asked, or less than its protected work asks of that."""
        if short_column(self.store.tables, queue_row, asked) != layout.NOT_SET:
            return True
        return self.is_short_for_protected(queue_row, protected)

    def is_short_for_protected(self, queue_row: int, protected: Int64Array) -> bool:
        """True if protected work asks more than it may have: only the end of other such work helps."""
        if not len(protected) or queue_row == layout.NOT_SET:
            return False
        return short_protected_column(self.store.tables, queue_row, protected) != layout.NOT_SET

    def _shape_row(self, row: int) -> int:
        return int(self.store.tables.pods[layout.POD_SHAPE, row])

    # Devices.

    def in_order(self, row: int, nodes: Int64Array, only: Models = ()) -> Iterator[Narrowed]:
        """Where a pod may go, for each group of models in the order in which the pod wants them tried.

        With ``only`` no other models are. What is never evicted is tried first where the node stays, too.
        """
        gpu = self.shapes.shape_at(self._shape_row(row)).gpu
        for models in groups_of(gpu, only):
            where = self.narrowed(row, nodes, models)
            if where is None:
                continue
            if self.fleet.spot_nodes and self.is_protected(row):
                firm = self.fleet.firm
                if len(where.nodes):
                    # Rows of nodes stand once in either array, so it need not look for doubles.
                    firm = np.intersect1d(where.nodes, firm, assume_unique=True)
                # An empty array would stand for every node.
                if len(firm):
                    yield where._replace(nodes=firm)
            yield where

    def narrowed(self, row: int, nodes: Int64Array, within: Models = ()) -> Narrowed | None:
        """Where the quota allows a pod to go (within ``nodes``, if any are given); None for nowhere.

        ``within`` are the models to look at, none given for all that its shape accepts.
        """
        shape_row = self._shape_row(row)
        options = self._options_of(shape_row) if self.is_active else None
        if options is None:
            return Narrowed(self._slot(shape_row, within), nodes)
        queue_row = self.charges.queue_row(row)
        codes = {self.fleet.model_codes.get(model) for model in within}
        charges = {kind: asked for kind, asked in options.charges.items() if not codes or kind.model in codes}
        allowed = [
            kind
            for kind, asked in charges.items()
            if not self.is_short(queue_row, asked, self.protected_part(row, asked))
        ]
        if len(allowed) == len(charges):
            return Narrowed(self._slot(shape_row, within), nodes)
        models = {kind.model for kind in allowed}
        barred = [kind for kind in charges if kind.model in models and kind not in allowed]
        if barred:
            nodes = self._without(barred, nodes)
        # No node is left: the empty array would stand for every node.
        if not allowed or (barred and not len(nodes)):
            return None
        named = tuple(sorted(map(self.fleet.model_name, models)))
        return Narrowed(self.shapes.slot_of_models(shape_row, named), nodes, is_narrower=True)

    def _slot(self, shape_row: int, within: Models) -> int:
        return self.shapes.slot_of_models(shape_row, within) if within else self.shapes.slot(shape_row)

    def _options_of(self, shape_row: int) -> Options | None:
        """The charges of a shape by kind of device, None where all kinds are charged the same."""
        if self._options_at != self.charges.changes:
            self._options.clear()
            self._options_at = self.charges.changes
        shape = self.shapes.shape_at(shape_row)
        known = self._options.get(shape_row)
        # A row may have been given to another shape.
        if known is None or known.shape is not shape:
            known = self._options[shape_row] = Options(shape, self._charges(shape))
        return known if known.charges else None

    def _charges(self, shape: Shape) -> dict[DeviceKind, Int64Array]:
        resources = self.charges.resources
        kinds = resources.accepted(shape) if shape.gpu.count else []
        charges = {kind: resources.gpu_charges(shape.gpu, kind) for kind in kinds}
        # Where all kinds are charged alike, the charge of the shape is enough to ask.
        differ = len({tuple(asked.tolist()) for asked in charges.values()}) > 1
        return charges if differ else {}

    def _without(self, kinds: list[DeviceKind], nodes: Int64Array) -> Int64Array:
        """Nodes (of these, if any are given) that have no device of these kinds."""
        devices = self.store.tables.devices
        model, total_mib = devices[layout.DEVICE_MODEL], devices[layout.DEVICE_TOTAL_MIB]
        having = np.zeros(self.fleet.row_count, np.bool_)
        for kind in kinds:
            rows = np.flatnonzero((model == kind.model) & (total_mib == kind.total_mib))
            # The table has rows to spare that stand for no device.
            having[devices[layout.DEVICE_NODE, rows[rows < len(self.fleet.device_ids)]]] = True
        candidates = nodes if len(nodes) else np.arange(self.fleet.row_count, dtype=np.int64)
        return candidates[~having[candidates]]

    # Words.

    def verdict_key(self, row: int) -> tuple[int, bool, bool, str]:
        """What, besides its shape, decides what the queues have against a pod."""
        if not self.is_active:
            return layout.NOT_SET, False, False, ""
        bar = self.bar(row) if self.charges.tree.has_admitted_namespaces else None
        return (
            self.charges.queue_row(row),
            self.is_late(row),
            self.is_protected(row),
            bar.namespace if bar else "",
        )

    def complete(self, verdict: Verdict, row: int) -> Verdict:
        """The verdict with what the pod's queue has against it, as of now."""
        if not self.is_active:
            return verdict
        bar, quota = self.bar(row), self.shortage(row)
        if bar is None and quota is None:
            return verdict
        return msgspec.structs.replace(verdict, bar=bar, quota=quota)

    def shortage(self, row: int) -> QuotaShortage | None:
        """The limit that keeps a pod out, of all devices if possible, else of some of them."""
        found = self.shortage_for(row, self.asked(row))
        options = self._options_of(self._shape_row(row))
        if found is not None or options is None:
            return found
        each = (self.shortage_for(row, asked) for asked in options.charges.values())
        return next((one for one in each if one is not None), None)

    def shortage_on(self, row: int, models: Models) -> QuotaShortage | None:
        """The limit that keeps a pod from all devices of these models, None if it may have some."""
        options = self._options_of(self._shape_row(row)) if self.is_active else None
        if options is None:
            return None
        codes = {self.fleet.model_codes.get(model) for model in models}
        found = [
            self.shortage_for(row, asked) for kind, asked in options.charges.items() if kind.model in codes
        ]
        return found[0] if found and None not in found else None

    def shortage_for(self, row: int, asked: Int64Array) -> QuotaShortage | None:
        """The first limit that a charge for a pod would break, None if it would break none.

        That of protected work comes first: no idle quota of others helps it.
        """
        queue_row = self.charges.queue_row(row)
        protected = self.protected_part(row, asked)
        if self.is_short_for_protected(queue_row, protected):
            return self._protected_shortage(queue_row, protected)
        return self._shortage_of(queue_row, asked)

    def _protected_shortage(self, queue_row: int, protected: Int64Array) -> QuotaShortage:
        tables, tree = self.store.tables, self.charges.tree
        column = int(short_protected_column(tables, queue_row, protected))
        owner = int(tree.owner[queue_row, column])
        counted, allowed = int(tables.queue_protected[owner, column]), int(tree.nominal[owner, column])
        used = self._used(tables.queue_protected, owner, column)
        needed = int(protected[column])
        return QuotaShortage(
            tree.name_at(owner),
            self._resource_at(column),
            QuotaLimit.PROTECTED,
            used,
            needed,
            allowed,
            needed + counted - allowed,
            counted - used,
        )

    def _resource_at(self, column: int) -> QuotaResource:
        columns = self.charges.resources.column_by_name
        return next(name for name, number in columns.items() if number == column)

    def _shortage_of(self, queue_row: int, asked: Int64Array) -> QuotaShortage | None:
        column = int(short_column(self.store.tables, queue_row, asked))
        if column == layout.NOT_SET:
            return None
        tables, tree = self.store.tables, self.charges.tree
        left, row, limit = binding_limit(tables, queue_row, column)
        said, counts, allowed = LIMITS[limit], tables.queue_counted, int(tree.subtree[row, column])
        if said is QuotaLimit.HARD and tree.is_outside(row):
            said, counts, allowed = QuotaLimit.OUTSIDE, tables.queue_total, 0
        elif said is QuotaLimit.HARD:
            counts = tables.queue_total
            allowed = int(tables.queue_limits[layout.LIMIT_HARD, row, column])
        elif said is QuotaLimit.BORROWING:
            allowed += int(tree.borrowing[row, column])
        elif self._another_keeps(queue_row, column):
            said = QuotaLimit.LENDING
        needed, used = int(asked[column]), self._used(counts, row, column)
        return QuotaShortage(
            tree.name_at(row),
            self._resource_at(column),
            said,
            used,
            needed,
            allowed,
            needed - int(left),
            int(counts[row, column]) - used,
        )

    def _used(self, counts: Int64Array, row: int, column: int) -> int:
        """What a queue is charged for work that runs: a place that is kept is charged, and not used yet."""
        pods, rows = self.store.tables.pods, sorted(self.nominated_rows())
        if not rows:
            return int(counts[row, column])
        nominated = np.fromiter(rows, np.int64)
        is_kept = (pods[layout.POD_STATE, nominated] == layout.PodState.NOMINATED) & (
            pods[layout.POD_NODE, nominated] != layout.NOT_SET
        )
        kept = nominated[is_kept]
        if not len(kept):
            return int(counts[row, column])
        self.store.make_journal_room(len(kept) * self.store.writes_a_charge)
        mark = self.store.mark()
        # Taken off and put back: how much of a charge counts above a queue depends on what else it has.
        discharge_each(self.store.tables, kept)
        used = int(counts[row, column])
        undo_by_handle(self.store.handle, mark)
        return used

    def _another_keeps(self, queue_row: int, column: int) -> bool:
        """True if a queue of the tree, off this one's path, has idle quota that it does not lend."""
        tree, counted = self.charges.tree, self.store.tables.queue_counted[:, column]
        guaranteed = tree.guaranteed[:, column]
        idle = (guaranteed != layout.NO_LIMIT) & (guaranteed > counted)
        # Asked for each queue of a refused backlog, and where queues lend what they have none keeps any.
        if not idle.any():
            return False
        idle[list(tree.path(queue_row))] = False
        return bool((idle & (tree.root == tree.root[queue_row])).any())
