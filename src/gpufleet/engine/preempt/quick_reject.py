"""Whether a workload could evict anybody at all, told from sums before any pod is looked at.

Where nobody borrows and nobody runs with a lower priority, a search finds nothing, however long it looks;
in a fleet whose queues are all served that is so for every workload that waits. What is asked here is
the same for all of them and holds until a place or a queue changes. ``search`` looks for victims only where
there is hope.
"""

from gpufleet.engine.arrays import layout
from gpufleet.engine.lifecycle.books import Books
from gpufleet.model.identifiers import DEFAULT_QUEUE
from gpufleet.model.queue import Prey, Queue


class Hope:
    """Says where a search may find somebody. It may, where this says so; it cannot, where this does not."""

    def __init__(self, books: Books) -> None:
        self.books = books
        self._anybody_borrows = False
        self._as_of = (layout.NOT_SET, layout.NOT_SET)

    def is_there(self, priority: int, queue: Queue) -> bool:
        """True unless work of this priority and queue finds nobody, by whatever policy its queue has."""
        books, policy = self.books, queue.preemption
        if books.departures.told or books.departures.evicted or books.gangs.by_name:
            return True
        if policy.within_queue is Prey.LOWER_PRIORITY:
            if books.pods.least_priority < priority:
                return True
        elif policy.within_queue is not Prey.NEVER:
            return True
        if policy.reclaim is Prey.NEVER and policy.borrowing is Prey.NEVER:
            return False
        return self._somebody_may_be_reclaimed_from()

    def _somebody_may_be_reclaimed_from(self) -> bool:
        """True if any queue has more than its nominal amount of anything, or owns nothing at all."""
        queues, tables = self.books.queues, self.books.store.tables
        as_of = (int(tables.counters[layout.COUNTER_CHANGES]), queues.changes)
        if as_of != self._as_of:
            tree = queues.tree
            is_undescribed = DEFAULT_QUEUE in tree.row_by_name and DEFAULT_QUEUE not in tree.described
            self._anybody_borrows = is_undescribed or bool((tables.queue_counted > tree.subtree).any())
            self._as_of = as_of
        return self._anybody_borrows
