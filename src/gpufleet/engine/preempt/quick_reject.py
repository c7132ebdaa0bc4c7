"""Whether a workload could evict any pod at all, told from sums before any pod is looked at.

Where no queue borrows and no pod has a lower priority, a search finds nothing, however long it looks. In a
fleet whose queues are all served that holds for every workload that waits. The sums are the same for all of
them and hold until a place or a queue changes. Where it does not hold for the fleet it may hold for one
queue: none of its pods that have places is of a lower priority, and no other queue of its tree borrows
anything that the workload is charged for, or it may only take back what it is owed and would itself have more
than its own. Pods that leave help a workload that lacks room, and one that lacks quota if they are charged in
its tree.
``victim_search`` asks this first.
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

from gpufleet.engine.arrays import layout
from gpufleet.engine.arrays.array_types import BoolArray, Int64Array
from gpufleet.engine.lifecycle.engine_state import EngineState
from gpufleet.engine.queueing.shares import is_within
from gpufleet.model.identifiers import DEFAULT_QUEUE, QueueName
from gpufleet.model.queue import Queue, VictimScope

Columns = tuple[int, ...] | None
"""Columns of resources; None for all."""


class Borrowers(NamedTuple):
    """Which queues borrow, by row, and how many of each tree do, by the row of its root."""

    by_row: list[bool]
    by_root: list[int]


class QuickReject:
    """Says where a search may find victims. It may, where this says so; it cannot, where this does not."""

    def __init__(self, state: EngineState) -> None:
        self.state = state
        self._undescribed_lends = False
        self._borrows_of: BoolArray = np.zeros((0, 0), np.bool_)
        self._borrowers_by_columns: dict[Columns, Borrowers] = {}
        self._any_queue_borrows = False
        self._as_of = (layout.NOT_SET, layout.NOT_SET)
        self._leaves_in: BoolArray = np.zeros(0, np.bool_)
        self._leaving_as_of = (layout.NOT_SET, layout.NOT_SET)

    def may_find(
        self, priority: int, queue: Queue, *, lacks_quota: bool, asked: Int64Array | None = None
    ) -> bool:
        """True unless work of this priority and queue finds no victim, by whatever policy its queue has.

        ``lacks_quota``: quota keeps it out as things are. ``asked``: the least that it is charged, by
        resource column, if that is known.
        """
        state, policy = self.state, queue.preemption
        # Sums know nothing of gangs.
        if state.gangs.by_name:
            return True
        row = state.queues.tree.row_by_name.get(queue.name)
        # What leaves is room without victims, and quota where it is charged.
        if state.departures.announced or state.departures.evicted:
            if not lacks_quota or row is None or self._is_left_in_tree_of(row):
                return True
        if not self._finds_none_within(priority, queue):
            return True
        if policy.reclaim is VictimScope.NEVER and policy.borrowing is VictimScope.NEVER:
            return False
        if asked is not None and policy.borrowing is VictimScope.NEVER and self._is_owed_nothing(row, asked):
            return False
        return self._others_may_lose_work(row, asked)

    def awaits_claims(self, rows: Sequence[int]) -> bool:
        """True for pods with resource claims while claims of pods that are gone are to give back devices."""
        neighbours = self.state.neighbours
        asks = neighbours.is_active and any(map(neighbours.asks_for_devices, rows))
        return asks and bool(neighbours.ended_claims())

    def finds_none_in_fleet(self, kinds: Iterable[tuple[Queue, int]]) -> bool:
        """True if ``may_find`` is False for each of these queues and priorities, by sums of the fleet alone.

        False says nothing. A thousand queues are answered at once where none of them borrows.
        """
        departures = self.state.departures
        if self.state.gangs.by_name or departures.announced or departures.evicted:
            return False
        self._keep_up()
        if self._undescribed_lends or self._any_queue_borrows:
            return False
        least = self.state.pods.least_priority
        for queue, priority in kinds:
            within = queue.preemption.within_queue
            if within is VictimScope.NEVER or (within is VictimScope.LOWER_PRIORITY and least >= priority):
                continue
            return False
        return True

    def finds_none_beside(self, rows: Iterable[int], reserved: Sequence[int]) -> bool:
        """True if none of these pods finds a victim, also where some of the reserved places are put aside.

        A reserved place is charged: without it its own queue is owed more, and with it others see it borrow.
        """
        state, pods = self.state, self.state.store.tables.pods
        if state.gangs.by_name or state.departures.announced or state.departures.evicted:
            return False
        # Claims of pods that are gone may give back devices.
        if state.neighbours.is_active:
            return False
        unsure: dict[tuple[QueueName, int], Int64Array] = {}
        for row in rows:
            name, shape = state.named_queue(row), pods.item(layout.POD_SHAPE, row)
            queue, asked = state.waiting.queues.get(name), state.gate.asked(row)
            if queue is None or not self._finds_none_within(state.pods.pod_at(row).priority, queue):
                return False
            if self._may_take_from_others(queue, asked):
                if queue.preemption.borrowing is not VictimScope.NEVER:
                    return False
                unsure[name, shape] = asked
        if not unsure:
            return True
        with state.trial() as trial:
            trial.release_all(reserved)
            rows_by_name = state.queues.tree.row_by_name
            each = ((rows_by_name.get(name), asked) for (name, _), asked in unsure.items())
            return all(self._is_owed_nothing(queue_row, asked) for queue_row, asked in each)

    def _finds_none_within(self, priority: int, queue: Queue) -> bool:
        """True if work of this priority evicts none of its own queue."""
        within = queue.preemption.within_queue
        if within is VictimScope.LOWER_PRIORITY:
            return not self._has_work_below(priority, queue)
        # Age decides too, which no sum knows.
        return within is VictimScope.NEVER

    def _may_take_from_others(self, queue: Queue, asked: Int64Array) -> bool:
        """True if a policy lets a queue evict work of others, and some of that may have to go."""
        policy = queue.preemption
        if policy.reclaim is VictimScope.NEVER and policy.borrowing is VictimScope.NEVER:
            return False
        return self._others_may_lose_work(self.state.queues.tree.row_by_name.get(queue.name), asked)

    def _has_work_below(self, priority: int, queue: Queue) -> bool:
        """True if pods of lower priority may be evicted in a queue, or outside of all queues."""
        pods = self.state.pods
        if pods.least_priority >= priority:
            return False
        is_described = queue.name in self.state.waiting.queues
        return not is_described or pods.placed_priorities.any_below(queue.name, priority)

    def _is_owed_nothing(self, row: int | None, asked: Int64Array) -> bool:
        """True if a queue, and each above it but the root, would have more than its own of what is asked.

        Queues are compared right below the one above both (``reclaim``), so the root owes itself nothing.
        """
        tree, tables = self.state.queues.tree, self.state.store.tables
        # Work of no queue owns nothing: it is taken from by other rules.
        if row is None or (DEFAULT_QUEUE in tree.row_by_name and DEFAULT_QUEUE not in tree.described):
            return False
        more = [(column, amount) for column, amount in enumerate(asked.tolist()) if amount]
        for one in tree.path(row):
            if tree.parent[one] == layout.NOT_SET:
                return True
            counted, owned = tables.queue_counted[one].tolist(), tree.subtree[one].tolist()
            if is_within(counted, owned, more):
                return False
            # Above, guarantees may take some of the charge, so that all of it would be too much.
            more = [(column, 0) for column, _ in more]
        return True

    def _others_may_lose_work(self, row: int | None, asked: Int64Array | None) -> bool:
        """True if a queue of the tree that is not above this one has more than its nominal amount of
        anything that is asked, or work is there that owns nothing at all.
        """
        self._keep_up()
        if self._undescribed_lends or row is None:
            return self._undescribed_lends or self._any_queue_borrows
        if not self._any_queue_borrows:
            return False
        tree = self.state.queues.tree
        borrowers = self._borrowers_of(None if asked is None else tuple(asked.nonzero()[0].tolist()))
        on_path = sum(borrowers.by_row[one] for one in tree.path(row))
        return borrowers.by_root[tree.root[row]] > on_path

    def _keep_up(self) -> None:
        """Compare what queues have with what they own, if a place or a queue changed since that was done."""
        queues, tables = self.state.queues, self.state.store.tables
        # Two counters tell whether any place or any queue changed, so the sums are compared once for all that
        # wait.
        as_of = (int(tables.counters[layout.COUNTER_CHANGES]), queues.changes)
        if as_of == self._as_of:
            return
        tree = queues.tree
        self._undescribed_lends = DEFAULT_QUEUE in tree.row_by_name and DEFAULT_QUEUE not in tree.described
        self._borrows_of = tables.queue_counted > tree.subtree
        self._any_queue_borrows = bool(self._borrows_of.any())
        self._borrowers_by_columns.clear()
        self._as_of = as_of

    def _borrowers_of(self, columns: Columns) -> Borrowers:
        """The queues that have more than their nominal amount of any of these resources, as of the sums."""
        known = self._borrowers_by_columns.get(columns)
        if known is None:
            among = self._borrows_of if columns is None else self._borrows_of[:, np.array(columns, np.int64)]
            borrows: BoolArray = np.any(among, axis=1)
            roots = self.state.queues.tree.root
            by_row: list[bool] = borrows.tolist()
            by_root: list[int] = np.bincount(roots[borrows], minlength=len(roots)).tolist()
            known = self._borrowers_by_columns[columns] = Borrowers(by_row, by_root)
        return known

    def _is_left_in_tree_of(self, row: int) -> bool:
        """True if a pod leaves that is charged in the tree of a queue."""
        departures, tables = self.state.departures, self.state.store.tables
        roots = self.state.queues.tree.root
        as_of = (departures.changes, self.state.queues.changes)
        if as_of != self._leaving_as_of:
            charged = tables.pods[layout.POD_QUEUE, departures.rows()]
            charged = charged[charged != layout.NOT_SET]
            self._leaves_in = np.zeros(len(roots), np.bool_)
            self._leaves_in[roots[charged]] = True
            self._leaving_as_of = as_of
        return bool(self._leaves_in[roots[row]])
