"""Quota of work that nodes are bought for: what is shown to node autoscalers is within quota together.

Two gangs may each be within the quota of their queue and not both. An autoscaler that sees both buys nodes
for both, and those of one stay empty. So work for which nodes are asked counts against its queues from then
on, and work that is short beside it waits for quota. It counts until it starts, asks no more, or its nodes
have not come for as long as autoscalers wait for one.
"""

import numpy as np

from gpufleet.engine.arrays import layout
from gpufleet.engine.arrays.array_types import Int64Array
from gpufleet.engine.arrays.journal import undo_by_handle
from gpufleet.engine.arrays.layout import PodState
from gpufleet.engine.lifecycle.engine_state import EngineState
from gpufleet.engine.place.workloads.workload import Workload
from gpufleet.model.identifiers import GangName, PodUid

COUNTS_US = 15 * 60 * 10**6
"""As long as autoscalers wait for a node: one that is not there by then does not come."""

STEPS_BACK_US = 60 * 10**6
"""After that, others in the queue may ask for so long, before the work counts again."""

Work = PodUid | GangName


class PromisedQuota:
    """The work that nodes are asked for, and what it will be charged."""

    def __init__(self, state: EngineState) -> None:
        self._state = state
        self._since_us: dict[Work, int] = {}
        self._asked: dict[Work, tuple[int, Int64Array]] = {}
        self._sums: Int64Array = np.zeros((1, 0, 0), np.int64)
        self._as_of = (layout.NOT_SET, layout.NOT_SET)
        self._counted_in = 0

    def is_beyond_quota(self, work: Work) -> bool:
        """Whether quota is short for a gang as a whole; the verdict may be on one member, which has quota."""
        state = self._state
        workload = self._workload(work) if state.queues.is_active else None
        return workload is not None and not workload.is_single and state.lacks_quota(workload)

    def promise(self, work: Work, at_us: int) -> bool:
        """Count work that waits for nodes from now on; False if quota is short beside what counts already."""
        state = self._state
        if not state.queues.is_active:
            return True
        as_of = (state.store.tables.counters.item(layout.COUNTER_CHANGES), state.queues.changes)
        shape = state.store.tables.queue_counted.shape
        if as_of != self._as_of or shape != self._sums.shape[1:] or self._is_over(at_us):
            self._count_anew(at_us)
            self._as_of = as_of
        if at_us - self._since_us.get(work, at_us) >= COUNTS_US + STEPS_BACK_US:
            self.withdraw(work)
        workload = self._workload(work)
        # Where quota is short as it is, the verdict knows more of it than is known here.
        if workload is None or work in self._since_us or state.lacks_quota(workload):
            return True
        if self._is_short(workload) and (
            self._counted_in == state.steps or self._is_short_anew(workload, at_us)
        ):
            return False
        self._since_us[work] = at_us
        self._count(work, workload)
        return True

    def withdraw(self, work: Work) -> None:
        """Work does not ask for nodes any more."""
        self._since_us.pop(work, None)
        found = self._asked.pop(work, None)
        if found is not None and found[0] < self._sums.shape[1]:
            queue_row, asked = found
            self._sums[0, queue_row, : len(asked)] -= asked

    def _is_over(self, at_us: int) -> bool:
        """Whether the oldest, which is the first of the dictionary, has counted for long enough."""
        oldest = next((self._since_us[work] for work in self._asked), at_us)
        return at_us - oldest >= COUNTS_US

    def _count_anew(self, at_us: int) -> None:
        """Drop what has started or gone, or has counted for long enough, and sum up the rest."""
        self._counted_in = self._state.steps
        tables = self._state.store.tables
        self._sums = np.zeros((1, *tables.queue_counted.shape), np.int64)
        self._asked.clear()
        for work, since_us in list(self._since_us.items()):
            workload = self._workload(work)
            if workload is None or at_us - since_us >= COUNTS_US + STEPS_BACK_US:
                del self._since_us[work]
            elif at_us - since_us < COUNTS_US:
                self._count(work, workload)

    def _count(self, work: Work, workload: Workload) -> None:
        queue_row = self._state.queues.queue_row(workload.row)
        asked, _ = workload.asked_and_protected(self._state.gate)
        if queue_row != layout.NOT_SET:
            self._asked[work] = (queue_row, asked)
            self._sums[0, queue_row, : len(asked)] += asked

    def _is_short(self, workload: Workload) -> bool:
        store = self._state.store
        mark = store.mark()
        self._state.future_quota.change(self._sums, 1)
        short = self._state.lacks_quota(workload)
        undo_by_handle(store.handle, mark)
        return short

    def _is_short_anew(self, workload: Workload, at_us: int) -> bool:
        """Work may have gone that counted: no node and no queue changes with that."""
        self._count_anew(at_us)
        return self._is_short(workload)

    def _workload(self, work: Work) -> Workload | None:
        """The work, None if nothing of it waits."""
        state = self._state
        members = state.gangs.described(work)
        if members is not None:
            return state.workloads.of_members(members) if members.waiting else None
        row = state.pods.row_by_uid.get(PodUid(work))
        if row is None or state.pods.state(row) not in {PodState.WAITING, PodState.BACKOFF}:
            return None
        return state.workloads.single(row)
