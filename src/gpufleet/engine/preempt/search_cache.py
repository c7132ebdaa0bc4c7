"""Searches of one step that are kept for equal pods, so that a large job is searched for once.

A job of thousands of equal pods asks as many times, and between two of them little happens but what the
plan of the first one says. So as long as nothing else does, the room that pods leave and the charges are
kept up to date plan by plan, and a pod equal to an earlier one goes on among the same candidates
(``cached_search``). Any other change, and every new step, empties the cache.
"""

from typing import NamedTuple

import numpy as np

from gpufleet.engine.arrays import layout
from gpufleet.engine.arrays.array_types import Int64Array
from gpufleet.engine.arrays.eviction_columns import ALONE, PRIORITY
from gpufleet.engine.lifecycle.engine_state import EngineState
from gpufleet.engine.preempt.cached_search import AppliedPlan, CachedSearch, SearchOutcome
from gpufleet.engine.preempt.candidates import LOWEST
from gpufleet.engine.preempt.evictable_work import Rank
from gpufleet.engine.preempt.leaving import FutureRoom
from gpufleet.engine.preempt.victims import EvictionPlan, UnplacedWorkload
from gpufleet.engine.queueing.future_quota import Charges
from gpufleet.model.identifiers import QueueName


class Stamp(NamedTuple):
    """What counts all that happens to places in a step."""

    step: int
    departures: int
    victim_changes: int

    def after(self, plan: EvictionPlan) -> "Stamp":
        """When nothing happens but that a plan is carried out: victims are told, and places kept."""
        # One change a victim that is told, and one for the nomination.
        return self._replace(departures=self.departures + len(plan.victims) + 1)


class EqualPods(NamedTuple):
    """What equal pods have in common: shape, queue, priority, and whether they are never evicted."""

    shape: int
    queue: QueueName
    priority: int
    is_protected: bool


class SharedFindings(NamedTuple):
    """What cached searches share: the room that leaving pods leave, all charges, the plans applied so far."""

    left: FutureRoom
    charges: Charges
    applied: list[AppliedPlan]


class SearchCache:
    """The searches of one step, by the equal pods that they are for."""

    def __init__(self, state: EngineState) -> None:
        self.state = state
        self._searches: dict[EqualPods, CachedSearch] = {}
        self._shared: SharedFindings | None = None
        self._stamp = Stamp(0, 0, 0)
        self._expected: EvictionPlan | None = None

    def plan(self, unplaced: UnplacedWorkload, rank: Rank) -> EvictionPlan | None:
        """The plan for a pod that is like one before it, if that is known without a new search."""
        self._keep_up()
        equals = self._equals_of(unplaced, rank)
        search = None if equals is None else self._searches.get(equals)
        if equals is None or search is None or self._shared is None or not search.is_like(rank):
            return None
        found = search.plan(unplaced.row, self._shared.applied, self._shared.charges)
        # Only a new search can answer, and what it finds replaces this one.
        if found is None:
            del self._searches[equals]
        self._expected = found
        return found

    def expect(self, plan: EvictionPlan) -> None:
        """A search found this plan, which is to be carried out."""
        self._expected = plan

    def store(
        self, unplaced: UnplacedWorkload, outcome: SearchOutcome, left: FutureRoom, charges: Charges | None
    ) -> None:
        """What a search leaves behind is there for pods like this one, if they can go on with it.

        ``charges`` of now, if they are known already. No pod in them may leave without a workload that
        waits for it: then the future is more than what all promises come to.
        """
        equals, state = self._equals_of(unplaced, outcome.rank), self.state
        if equals is None:
            return
        # Without a cached search nothing needs what was shared before.
        if self._shared is None or not self._searches:
            self._shared = SharedFindings(left, charges or state.future_quota.charges(), [])
        charges = self._shared.charges
        search = CachedSearch(state, outcome, self._shared.left, len(self._shared.applied))
        if np.array_equal(charges.leaving, charges.awaited) and search.is_usable:
            self._searches[equals] = search

    def _equals_of(self, unplaced: UnplacedWorkload, rank: Rank) -> EqualPods | None:
        """The equals of a single pod; None where more than room, quota and rank decides about it."""
        state = self.state
        if not unplaced.workload.is_single or state.neighbours.is_watchful or state.budgets.any_is_known:
            return None
        # It would evict none, so what its equals found is not for it.
        if not state.pods.pod_at(unplaced.row).preempts:
            return None
        shape = int(state.store.tables.pods[layout.POD_SHAPE, unplaced.row])
        return EqualPods(shape, rank.queue, rank.priority, rank.is_protected)

    def _keep_up(self) -> None:
        """Take note of the last plan if it is all that has happened; otherwise forget everything."""
        state = self.state
        now = Stamp(state.steps, state.departures.changes, state.changes.victims.count)
        if self._searches:
            plan = self._expected
            if plan is not None and now == self._stamp.after(plan) and self._is_carried_out(plan):
                self._apply(plan)
            elif plan is not None or now != self._stamp:
                self._searches.clear()
        self._stamp, self._expected = now, None

    def _is_carried_out(self, plan: EvictionPlan) -> bool:
        """True if its places are kept, and wait for the pods that it names."""
        kept = self.state.departures.by_row.get(plan.placements[0].row)
        return kept is not None and tuple(kept.waits_for) == plan.waits_for

    def _apply(self, plan: EvictionPlan) -> None:
        """The victims of a plan leave, and its places are taken."""
        pods, shared = self.state.pods, self._shared
        victims = [pods.row_by_uid[uid] for uid in plan.victims]
        if shared is None or not pods.eviction_columns.cells[ALONE, victims].all():
            # Which members of a gang may still be spared is another question now.
            self._searches.clear()
            return
        rows = np.array(victims, np.int64)
        self._forget_those_unsure_of(rows)
        placed = np.array([one.row for one in plan.placements], np.int64)
        shared.left.add(rows)
        self.state.future_quota.promise(shared.charges, rows, placed)
        nodes = self.state.store.tables.pods[layout.POD_NODE, rows].tolist()
        nodes += [one.node for one in plan.placements]
        shared.applied.append(AppliedPlan(tuple(victims), np.array(list(dict.fromkeys(nodes)), np.int64)))

    def _forget_those_unsure_of(self, victims: Int64Array) -> None:
        """Work of no queue counts on none of these yet that it could not evict itself (``Leaving``)."""
        most = int(self.state.pods.eviction_columns.cells[PRIORITY, victims].max(initial=LOWEST))
        unsure = [
            equals
            for equals, search in self._searches.items()
            if search.outcome.reclaim is None and equals.priority <= most
        ]
        for equals in unsure:
            del self._searches[equals]
