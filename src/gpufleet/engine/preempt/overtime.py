"""Running work that has run for as long as it may: by its own word, or by its queue and those above it.

The shortest of these limits counts, so no word of a pod is a way around its queue. Such work ends without a
beneficiary, so neither priority nor minimum run times protect it, and what is not preemptible ends too.
Disruption budgets do protect it: a pod that a budget keeps ends when the budget allows it. A gang ends as a
whole, when one of its members has run for as long as that one may. What other schedulers placed is not ours
to end.

Moments are kept in a heap, of which entries that are out of date are dropped when they come up.
"""

import heapq
from collections.abc import Iterator

import numpy as np

from gpufleet.engine.arrays import layout
from gpufleet.engine.arrays.layout import PodState
from gpufleet.engine.instruction import RunTimeLimit
from gpufleet.engine.lifecycle.changes import Change
from gpufleet.engine.lifecycle.engine_state import EngineState
from gpufleet.model.identifiers import PodUid, QueueName

TRY_AGAIN_US = 10_000_000
"""When to look again at work that may not be evicted yet."""

SWEEP_FIRST = 1024
"""A heap of fewer entries is not worth sweeping of those that are out of date."""


class Overtime:
    """Knows when running pods have run for long enough; nothing where no pod is ever evicted."""

    def __init__(self, state: EngineState, *, evicts: bool) -> None:
        self.state = state
        self.evicts = evicts
        self._limits: dict[QueueName, RunTimeLimit] = {}
        self._unregarded: dict[int, None] = {}
        self._due: list[tuple[int, PodUid]] = []
        self.due_us_by_uid: dict[PodUid, int] = {}

    def update(self, row: int) -> None:
        """A pod runs, or may run for another time than before."""
        if self.evicts:
            self._unregarded[row] = None

    def forget(self, uid: PodUid) -> None:
        """A pod is gone."""
        self.due_us_by_uid.pop(uid, None)

    def settle(self) -> None:
        """The queues are others: where that changes a limit, every running pod is looked at again."""
        limits = self._limits_of_queues() if self.evicts else {}
        # Most changes of a queue leave its limit as it was, and to look at every pod is dear.
        if limits != self._limits:
            self._limits = limits
            rows, pods = len(self.state.pods.pods), self.state.store.tables.pods
            bound = pods[layout.POD_STATE, :rows] == int(PodState.BOUND)
            self._unregarded |= dict.fromkeys(np.flatnonzero(bound).tolist())
            # What ends in time by its limit may run on reserved nodes.
            self.state.changes.note(Change.RUN_TIME_LIMITS)

    def _limits_of_queues(self) -> dict[QueueName, RunTimeLimit]:
        """How long work of each queue may run: the shortest limit on its path, of equal ones the nearest."""
        tree = self.state.queues.tree
        stated = {
            tree.row_by_name[name]: RunTimeLimit(queue.run_time_max_us, name)
            for name, queue in tree.described.items()
            if queue.run_time_max_us is not None
        }
        if not stated:
            return {}
        found = {}
        for name, row in tree.row_by_name.items():
            limits = [stated[one] for one in tree.path(row) if one in stated]
            if limits:
                found[name] = min(limits, key=lambda limit: limit.run_time_us)
        return found

    def limit(self, row: int) -> RunTimeLimit | None:
        """How long a pod may run, and what says so; None for as long as it likes."""
        pod = self.state.pods.pod_at(row)
        own_us = pod.run_time_max_us
        if pod.foreign or not self.evicts or (own_us is None and not self._limits):
            return None
        of_queue = self._limits.get(self.state.queue_of(row))
        if own_us is None or (of_queue is not None and of_queue.run_time_us <= own_us):
            return of_queue
        return RunTimeLimit(own_us, None)

    def latest(self, row: int) -> tuple[int, RunTimeLimit] | None:
        """By when a pod that runs must have ended, and the limit that says so, its own or one of its gang."""
        found, started_at_us = [], self.state.pods.started_at_us
        for one in self._together(row):
            limit = self.limit(one)
            if limit is not None and one in started_at_us:
                found.append((started_at_us.get(one, 0) + limit.run_time_us, limit))
        return min(found, key=lambda end: end[0], default=None)

    @property
    def is_watching(self) -> bool:
        """True if ``take`` may find something, now or later."""
        return bool(self._due or self._unregarded)

    def take(self, at_us: int) -> Iterator[tuple[int, RunTimeLimit]]:
        """The rows of pods that are to be told to end now, each with the limit that it has reached, or one of
        its gang. They must be told before the next is taken: budgets count them.
        """
        self._update_limits()
        state = self.state
        while self._due and self._due[0][0] <= at_us:
            due_us, uid = heapq.heappop(self._due)
            # The entry is out of date: the pod is gone, or runs for another time.
            if self.due_us_by_uid.get(uid) != due_us:
                continue
            del self.due_us_by_uid[uid]
            row = state.pods.row_by_uid[uid]
            limit = self.limit(row)
            if limit is None or not self._runs_on(row):
                continue
            together = self._together(row)
            if self._may_end(together):
                # Lazily, because each pod that is told to end counts in the budgets that the next is asked
                # of.
                yield from ((one, limit) for one in together)
            else:
                self._expect(uid, at_us + TRY_AGAIN_US)

    def next_due_us(self) -> int | None:
        """When the next pod has run for long enough."""
        while self._due and self.due_us_by_uid.get(self._due[0][1]) != self._due[0][0]:
            heapq.heappop(self._due)
        return self._due[0][0] if self._due else None

    def _update_limits(self) -> None:
        """Work out anew until when pods may run that began to, or were described anew."""
        pods = self.state.pods
        rows, self._unregarded = self._unregarded, {}
        for row in rows:
            if pods.state(row) is not PodState.BOUND:
                continue
            uid, limit = pods.pod_at(row).uid, self.limit(row)
            if limit is None:
                self.forget(uid)
            else:
                self._expect(uid, pods.started_at_us.get(row, 0) + limit.run_time_us)

    def _runs_on(self, row: int) -> bool:
        """True for a pod of ours that runs and was not told to end."""
        pod, state = self.state.pods.pod_at(row), self.state.pods.state(row)
        leaves = pod.foreign or self.state.departures.is_departing(pod.uid)
        return state is PodState.BOUND and not leaves

    def _together(self, row: int) -> list[int]:
        """The pods that end with this one: a gang ends as a whole."""
        gang = self.state.workloads.gang_of(row)
        if gang is None:
            return [row]
        return [one for one in self.state.gangs.members(gang.name).placed if self._runs_on(one)]

    def _may_end(self, rows: list[int]) -> bool:
        """True if all of these may be evicted now."""
        pods, departures = [self.state.pods.pod_at(row) for row in rows], self.state.departures
        refused = any(pod.uid in departures.refused_until_us for pod in pods)
        return not refused and self.state.budgets.allow(pods)

    def _expect(self, uid: PodUid, due_us: int) -> None:
        if self.due_us_by_uid.get(uid) == due_us:
            return
        self.due_us_by_uid[uid] = due_us
        heapq.heappush(self._due, (due_us, uid))
        # Entries out of date are left in the heap; when they are most of it, it is made anew.
        if len(self._due) > SWEEP_FIRST + 2 * len(self.due_us_by_uid):
            self._due = [(due_us, uid) for uid, due_us in self.due_us_by_uid.items()]
            heapq.heapify(self._due)
