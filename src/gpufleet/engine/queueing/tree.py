"""The queues of a fleet as rows: the parent of each, what each may take, and which queues let no work start.

Queues are stated one by one; ``settle`` then works out what the statements mean together, level by level and
without recursion. A queue that is its own ancestor, whose parent is not described, or that stands too deep
is cut off and becomes a root whose work waits with that reason, as does all work below it; every other queue
is as if the bad one were not there. A name that pods use and that is not described has a row too, so that
what runs under it can be seen.

With subtree(q) = nominal(q) + what its children lend, and guaranteed(q) = max(0, subtree(q) - lending
limit), 0 without a lending limit. Where neither a queue nor any above or below it names a resource,
nothing of its usage counts above it: use without a limit takes nothing that other queues are owed.

A queue that is described no more leaves its row where it was as long as work of it is there: what runs is
charged above it as before. For the same reason a queue whose parent is gone stays below what was above that.

Once any queue names its namespaces, the row of work outside of every queue gets nothing of a resource that
queues own.

The *owner* of a resource for a queue is the nearest queue, from itself upwards, that states a quota of it:
what protected work may have there is its nominal amount.
"""

from collections.abc import Iterator

import numpy as np

from gpufleet.engine.arrays import layout
from gpufleet.engine.arrays.array_types import BoolArray, Int64Array
from gpufleet.engine.arrays.compiled import kernel
from gpufleet.engine.arrays.numbering import Numbering
from gpufleet.engine.arrays.tables import (
    Tables,
    TableStore,
)
from gpufleet.engine.instruction import QueueBar, WhyBarred
from gpufleet.engine.queueing.resources import QuotaResources
from gpufleet.engine.queueing.statement import check_queue
from gpufleet.engine.state.bounds import check_range
from gpufleet.model.identifiers import DEFAULT_QUEUE, QueueName
from gpufleet.model.queue import Queue, QueueState

QUEUES_MAX = 16_384
"""Above any fleet's; each queue costs a row in five tables, and a step of every ``settle``."""
DEPTH_MAX = 1_024
"""Queues on a path, the root among them; a charge costs that many steps."""

SUBTREE_MAX = 1 << 60
"""What children lend adds up to no more: sums stay within 64 bits."""

UNLIMITED = (layout.LIMIT_BORROWING, layout.LIMIT_LENDING, layout.LIMIT_HARD, layout.LIMIT_GUARANTEED)
"""What is without a limit unless a queue states one."""

STATES = {
    QueueState.STOPPED: WhyBarred.STOPPED,
    QueueState.HELD: WhyBarred.HELD,
    QueueState.DRAINING: WhyBarred.DRAINING,
}
# What is wrong with the tree goes before what was decided, and that from what ends work to what lets it end.
STRICTEST_FIRST = (
    WhyBarred.CYCLE,
    WhyBarred.NO_PARENT,
    WhyBarred.TOO_DEEP,
    WhyBarred.STOPPED,
    WhyBarred.HELD,
    WhyBarred.OVER_BUDGET,
    WhyBarred.DRAINING,
)


@kernel
def settle_limits(tables: Tables, order: Int64Array) -> None:
    """Names and owners from the top down, then subtree and guaranteed amounts from the bottom up.

    ``order`` has parents before their children.
    """
    limits, columns = tables.queue_limits, tables.quota_columns.shape[1]
    for index in range(len(order)):
        row = order[index]
        parent = tables.queues[layout.QUEUE_PARENT, row]
        for column in range(columns):
            if limits[layout.LIMIT_NAMED, row, column] == 1:
                limits[layout.LIMIT_OWNER, row, column] = row
            elif parent != layout.NOT_SET and limits[layout.LIMIT_NAMED, parent, column] == 1:
                limits[layout.LIMIT_NAMED, row, column] = 1
                limits[layout.LIMIT_OWNER, row, column] = limits[layout.LIMIT_OWNER, parent, column]
            if limits[layout.LIMIT_NAMED, row, column] == 1:
                limits[layout.LIMIT_POOLED, row, column] = 1
    for index in range(len(order) - 1, -1, -1):
        row = order[index]
        parent = tables.queues[layout.QUEUE_PARENT, row]
        for column in range(columns):
            if limits[layout.LIMIT_POOLED, row, column] == 0:
                limits[layout.LIMIT_GUARANTEED, row, column] = layout.NO_LIMIT
                continue
            subtree = min(SUBTREE_MAX, limits[layout.LIMIT_SUBTREE, row, column])
            lending = limits[layout.LIMIT_LENDING, row, column]
            limits[layout.LIMIT_SUBTREE, row, column] = subtree
            limits[layout.LIMIT_GUARANTEED, row, column] = (
                # Without a lending limit all of it is lent.
                max(0, subtree - lending) if lending != layout.NO_LIMIT else 0
            )
            if parent != layout.NOT_SET:
                lent = min(SUBTREE_MAX, limits[layout.LIMIT_SUBTREE, parent, column] + min(subtree, lending))
                limits[layout.LIMIT_SUBTREE, parent, column] = lent
                # It has this to share now, though it may name none itself.
                limits[layout.LIMIT_POOLED, parent, column] = 1


class QueueTree:
    """Rows of queues, their parents, limits and troubles.

    Arrays are read by row, and by resource column where they have two axes. They are those of the
    last ``settle``: what was said since is not in them yet (``is_stale``).
    """

    def __init__(self, store: TableStore, resources: QuotaResources) -> None:
        self.store = store
        self.resources = resources
        self.is_stale = False
        self.changes = 0
        self.path_max = 1
        self.has_admitted_namespaces = False
        self._gone: dict[QueueName, QueueName] = {}
        self._names: Numbering[QueueName] = Numbering()
        self._name_by_row: dict[int, QueueName] = {}
        self._described: dict[QueueName, Queue] = {}
        self._children: dict[int, list[int]] = {}
        self._bars: dict[int, QueueBar] = {}

    # The queues there are.

    @property
    def described(self) -> dict[QueueName, Queue]:
        """The queues as they were stated."""
        return self._described

    @property
    def row_by_name(self) -> dict[QueueName, int]:
        """The row of each queue that is described or that a pod names."""
        return self._names.number_by_value

    def name_at(self, row: int) -> QueueName:
        """The name of the queue of a row."""
        return self._name_by_row[row]

    def queue_at(self, row: int) -> Queue:
        """The queue of a row; one that is not described states nothing."""
        name = self._name_by_row[row]
        return self._described.get(name) or Queue(name)

    def is_described(self, row: int) -> bool:
        """True if the queue is described."""
        return self._name_by_row[row] in self._described

    def hold(self, name: QueueName) -> int:
        """The row of a name, for one more user of it."""
        is_new = name not in self.row_by_name
        row = self._names.hold(name)
        if is_new:
            self._name_by_row[row] = name
            self.store.make_queue_room(row + 1, 0)
            self._clear(row)
            self._bound_outside()
            # Work that is heard of after its queue was deleted counts above it, too.
            self.is_stale |= name in self._gone
        return row

    def drop(self, row: int) -> None:
        """One user of the name less."""
        name = self._name_by_row[row]
        self._names.drop(row)
        if name not in self.row_by_name:
            del self._name_by_row[row]
            # The queue above it counts it among its children.
            self.is_stale |= int(self.parent[row]) != layout.NOT_SET

    def _clear(self, row: int) -> None:
        """A row as of a name that is not described and under which nothing runs."""
        tables = self.store.tables
        # A misspelt name would else be a way around every quota; ``default`` needs no description.
        closed = int(self._name_by_row[row] != DEFAULT_QUEUE)
        tables.queues[:, row] = (layout.NOT_SET, row, closed, 0)
        tables.queue_counted[row] = 0
        tables.queue_total[row] = 0
        tables.queue_protected[row] = 0
        self._clear_limits(row)

    def _clear_limits(self, row: int) -> None:
        limits = self.store.tables.queue_limits
        limits[:, row] = 0
        limits[list(UNLIMITED), row] = layout.NO_LIMIT
        limits[layout.LIMIT_OWNER, row] = layout.NOT_SET

    # What is stated.

    def set(self, queue: Queue) -> bool:
        """Take over what is stated of a queue; False if it was known already.

        Raises EventError, before anything is changed, for what makes no sense.
        """
        known = self._described.get(queue.name)
        if known == queue:
            return False
        check_queue(queue)
        check_range(len(self._described) + (known is None), 0, QUEUES_MAX, "queues")
        before = {quota.resource for quota in known.quotas} if known is not None else set()
        self.resources.check_room(
            {quota.resource for quota in queue.quotas},
            {one for one in before if self.resources.users(one) == 1},
        )
        if known is None:
            self.hold(queue.name)
        # Held before those from before are dropped: what is in both keeps its column.
        for quota in queue.quotas:
            self.resources.hold(quota.resource)
        for resource in before:
            self.resources.drop(resource)
        self._described[queue.name] = queue
        self._gone.pop(queue.name, None)
        self.is_stale = True
        return True

    def remove(self, name: QueueName) -> bool:
        """The queue is not described any more; False if it was not before."""
        known = self._described.pop(name, None)
        if known is None:
            return False
        for quota in known.quotas:
            self.resources.drop(quota.resource)
        # Work may start in a default queue that is not described: it is outside of the tree from then on.
        if known.parent is not None and name != DEFAULT_QUEUE:
            self._gone[name] = known.parent
        self.drop(self.row_by_name[name])
        self.is_stale = True
        return True

    # What follows.

    def settle(self) -> None:
        """Parents, troubles and limits anew, from all statements; usage is for the caller to recount."""
        tables = self.store.tables
        tables.counters[layout.COUNTER_QUEUES] = len(self._described)
        for row in self._name_by_row:
            tables.queues[layout.QUEUE_PARENT, row] = layout.NOT_SET
            self._clear_limits(row)
        self.has_admitted_namespaces = any(queue.admitted is not None for queue in self._described.values())
        own_bars = self._link()
        order = self._order(own_bars)
        for name, queue in self._described.items():
            self._write_quotas(self.row_by_name[name], queue)
        settle_limits(tables, order)
        self._bound_outside()
        self._bar(order, own_bars)
        self.is_stale = False
        self.changes += 1

    def _link(self) -> dict[int, WhyBarred]:
        """Parents as far as they are good, and what is wrong with the others."""
        rows = self.row_by_name
        parent = {
            rows[name]: rows[queue.parent]
            for name, queue in self._described.items()
            if queue.parent is not None and queue.parent in self._described
        }
        orphans = {
            rows[name]: WhyBarred.NO_PARENT
            for name, queue in self._described.items()
            if queue.parent is not None and queue.parent not in self._described
        }
        circling = set(members_of_cycles(parent))
        links = {row: above for row, above in parent.items() if row not in circling}
        past_gone = self._links_past_gone()
        # A way past queues that are gone may close a circle that no statement closes.
        round_again = set(members_of_cycles(links | past_gone))
        links |= {row: above for row, above in past_gone.items() if row not in round_again}
        for row, above in links.items():
            self.store.tables.queues[layout.QUEUE_PARENT, row] = above
        return orphans | dict.fromkeys(circling, WhyBarred.CYCLE)

    def _links_past_gone(self) -> dict[int, int]:
        """By row of a queue that is gone, or whose parent is: the nearest above it that is there."""
        found = {}
        for name, row in self.row_by_name.items():
            known = self._described.get(name)
            above = self._gone.get(name) if known is None else known.parent
            seen = {name}
            while above is not None and above not in self._described and above not in seen:
                seen.add(above)
                above = self._gone.get(above)
            is_new = above is not None and (known is None or above != known.parent)
            if is_new and above in self._described and above != name:
                found[row] = self.row_by_name[above]
        return found

    def _bound_outside(self) -> None:
        """Once a queue names namespaces, work outside of every queue gets nothing of what queues own."""
        row = self.row_by_name.get(DEFAULT_QUEUE)
        if row is None or not self.is_outside(row):
            return
        limits = self.store.tables.queue_limits
        owned = (limits[layout.LIMIT_NOMINAL, list(self._name_by_row)] > 0).any(axis=0)
        limits[layout.LIMIT_NAMED, row, owned] = 1
        limits[layout.LIMIT_HARD, row, owned] = 0

    def _order(self, bars: dict[int, WhyBarred]) -> Int64Array:
        """All rows, parents before their children; what stands too deep is cut off on the way."""
        queues = self.store.tables.queues
        self._children = {}
        level = []
        for row in sorted(self._name_by_row):
            parent = int(queues[layout.QUEUE_PARENT, row])
            if parent == layout.NOT_SET:
                level.append(row)
            else:
                self._children.setdefault(parent, []).append(row)
        order: list[int] = []
        self.path_max = 0
        while level:
            self.path_max += 1
            if self.path_max > DEPTH_MAX:
                self._cut(level, bars)
                # What was cut off begins trees of its own.
                self.path_max = 1
            for row in level:
                parent = int(queues[layout.QUEUE_PARENT, row])
                root = row if parent == layout.NOT_SET else queues[layout.QUEUE_ROOT, parent]
                queues[layout.QUEUE_ROOT, row] = root
            order += level
            level = [child for row in level for child in self._children.get(row, ())]
        self.path_max = DEPTH_MAX if WhyBarred.TOO_DEEP in bars.values() else max(1, self.path_max)
        return np.array(order, np.int64)

    def _cut(self, level: list[int], bars: dict[int, WhyBarred]) -> None:
        for row in level:
            self._children.pop(int(self.parent[row]), None)
            self.store.tables.queues[layout.QUEUE_PARENT, row] = layout.NOT_SET
            bars[row] = WhyBarred.TOO_DEEP

    def _write_quotas(self, row: int, queue: Queue) -> None:
        limits = self.store.tables.queue_limits
        for quota in queue.quotas:
            column = self.resources.column_by_name[quota.resource]
            limits[layout.LIMIT_NAMED, row, column] = 1
            limits[layout.LIMIT_NOMINAL, row, column] = quota.nominal
            limits[layout.LIMIT_SUBTREE, row, column] = quota.nominal
            stated = (
                (layout.LIMIT_BORROWING, quota.borrowing_limit),
                (layout.LIMIT_LENDING, quota.lending_limit),
                (layout.LIMIT_HARD, quota.hard_limit),
            )
            for kind, limit in stated:
                limits[kind, row, column] = layout.NO_LIMIT if limit is None else limit

    def _bar(self, order: Int64Array, own: dict[int, WhyBarred]) -> None:
        """Whose work may not start: what holds for a queue holds below it too."""
        queues = self.store.tables.queues
        self._bars = {}
        for row in order.tolist():
            name = self._name_by_row[row]
            parent = int(queues[layout.QUEUE_PARENT, row])
            found = [self._bars[parent]] if parent in self._bars else []
            if row in own:
                found.append(QueueBar(name, own[row]))
            queue = self.queue_at(row)
            if queue.state in STATES:
                found.append(QueueBar(name, STATES[queue.state]))
            if queue.spent_budget:
                found.append(QueueBar(name, WhyBarred.OVER_BUDGET, budget=queue.spent_budget))
            if found:
                self._bars[row] = min(found, key=lambda bar: STRICTEST_FIRST.index(bar.why))
            queues[layout.QUEUE_CLOSED, row] = int(self.is_closed(row))

    # What may be read.

    def bar(self, row: int) -> QueueBar | None:
        """Why no work of this queue may start, or, of a draining one, none that comes now; None if it may."""
        name = self._name_by_row[row]
        if name not in self._described:
            return None if name == DEFAULT_QUEUE else QueueBar(name, WhyBarred.UNKNOWN)
        found = self._bars.get(row)
        below = (self._name_by_row.get(child) for child in self._children.get(row, ()))
        if any(child in self._described for child in below) and (
            found is None or found.why is WhyBarred.DRAINING
        ):
            return QueueBar(name, WhyBarred.INNER)
        return found

    def rows_barred(self, why: WhyBarred) -> list[int]:
        """The queues in which nothing may start for this reason."""
        return [row for row, bar in self._bars.items() if bar.why is why]

    def bars_for(self, reasons: frozenset[WhyBarred]) -> tuple[QueueBar, ...]:
        """The bars of all queues in which nothing may start for one of these reasons, by row."""
        found = sorted(self._bars.items(), key=lambda item: item[0])
        return tuple(bar for _, bar in found if bar.why in reasons)

    def is_outside(self, row: int) -> bool:
        """True for work of no queue, while queues say which namespaces they admit."""
        return (
            self.has_admitted_namespaces
            and self._name_by_row[row] == DEFAULT_QUEUE
            and not self.is_described(row)
        )

    def is_closed(self, row: int) -> bool:
        """True if no work of this queue may start."""
        bar = self.bar(row)
        return bar is not None and bar.why is not WhyBarred.DRAINING

    def children(self, row: int) -> list[int]:
        """The rows right below this one, ascending."""
        return self._children.get(row, [])

    def path(self, row: int) -> Iterator[int]:
        """This row and those above it, up to the root."""
        while row != layout.NOT_SET:
            yield row
            row = int(self.parent[row])

    @property
    def parent(self) -> Int64Array:
        """The row above each row, NOT_SET for a root."""
        return self.store.tables.queues[layout.QUEUE_PARENT]

    @property
    def root(self) -> Int64Array:
        """The root above each row, itself for a root."""
        return self.store.tables.queues[layout.QUEUE_ROOT]

    @property
    def named(self) -> BoolArray:
        """Where a queue or one above it names a resource, that is, where it is limited."""
        return self.store.tables.queue_limits[layout.LIMIT_NAMED] == 1

    @property
    def nominal(self) -> Int64Array:
        """What each queue states as its own."""
        return self.store.tables.queue_limits[layout.LIMIT_NOMINAL]

    @property
    def subtree(self) -> Int64Array:
        """Nominal amounts and what the children lend."""
        return self.store.tables.queue_limits[layout.LIMIT_SUBTREE]

    @property
    def guaranteed(self) -> Int64Array:
        """What no other may have of it; NO_LIMIT where its usage does not count above it at all."""
        return self.store.tables.queue_limits[layout.LIMIT_GUARANTEED]

    @property
    def owner(self) -> Int64Array:
        """The nearest queue, from each upwards, that states a resource; NOT_SET where none does."""
        return self.store.tables.queue_limits[layout.LIMIT_OWNER]

    @property
    def borrowing(self) -> Int64Array:
        """Borrowing limits, NO_LIMIT where there is none."""
        return self.store.tables.queue_limits[layout.LIMIT_BORROWING]


def members_of_cycles(parent: dict[int, int]) -> Iterator[int]:
    """All queues that are their own ancestor; a queue that only stands below such a one is not."""
    seen_on: dict[int, int] = {}
    for start in parent:
        row = start
        while row in parent and row not in seen_on:
            seen_on[row] = start
            row = parent[row]
        # Met again on the same walk: a circle. What an earlier walk met was judged then.
        if seen_on.get(row) == start:
            first = row
            yield first
            row = parent[first]
            while row != first:
                yield row
                row = parent[row]
