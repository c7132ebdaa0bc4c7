"""Whether a workload could evict any pod at all, told from sums before any pod is looked at.

Where no queue borrows and no pod has a lower priority, a search finds nothing, however long it looks. In a
fleet whose queues are all served that holds for every workload that waits. The sums are the same for all of
them and hold until a place or a queue changes. ``victim_search`` asks this first.
"""

from gpufleet.engine.arrays import layout
from gpufleet.engine.lifecycle.engine_state import EngineState
from gpufleet.model.identifiers import DEFAULT_QUEUE
from gpufleet.model.queue import Queue, VictimScope


class QuickReject:
    """Says where a search may find victims. It may, where this says so; it cannot, where this does not."""

    def __init__(self, state: EngineState) -> None:
        self.state = state
        self._any_queue_borrows = False
        self._as_of = (layout.NOT_SET, layout.NOT_SET)

    def may_find(self, priority: int, queue: Queue) -> bool:
        """True unless work of this priority and queue finds no victim, by whatever policy its queue has."""
        state, policy = self.state, queue.preemption
        # What leaves is room without victims, and sums know nothing of gangs.
        if state.departures.told or state.departures.evicted or state.gangs.by_name:
            return True
        if policy.within_queue is VictimScope.LOWER_PRIORITY:
            if state.pods.least_priority < priority:
                return True
        # Within its queue age decides too, which no sum knows.
        elif policy.within_queue is not VictimScope.NEVER:
            return True
        if policy.reclaim is VictimScope.NEVER and policy.borrowing is VictimScope.NEVER:
            return False
        return self._some_queue_may_lose_work()

    def _some_queue_may_lose_work(self) -> bool:
        """True if any queue has more than its nominal amount of anything, or owns nothing at all."""
        queues, tables = self.state.queues, self.state.store.tables
        # Two counters tell whether any place or any queue changed, so the sums are compared once for all that
        # wait.
        as_of = (int(tables.counters[layout.COUNTER_CHANGES]), queues.changes)
        if as_of != self._as_of:
            tree = queues.tree
            is_undescribed = DEFAULT_QUEUE in tree.row_by_name and DEFAULT_QUEUE not in tree.described
            self._any_queue_borrows = is_undescribed or bool((tables.queue_counted > tree.subtree).any())
            self._as_of = as_of
        return self._any_queue_borrows
