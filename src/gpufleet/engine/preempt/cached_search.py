"""A search for victims that goes on where one for an equal pod has ended, among the same candidates.

What a new search would find out is known already: which pods may be evicted, what each would cost and give
back, and what every node lacks. Only what the plans since then have changed is looked at again: the nodes
they concern, which queues lend and in which order, and what quota lacks. The cheapest victim is found as
``by_node`` finds it and proven on the state as it is now; whether its eviction is just is asked anew each
time. It is the victim that a new search finds (a test compares them). Wherever that is not sure, there is no
plan, and the caller searches anew.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from gpufleet.engine.arrays import layout
from gpufleet.engine.arrays.array_types import Int64Array
from gpufleet.engine.lifecycle.engine_state import EngineState
from gpufleet.engine.lifecycle.nominations import placement_of
from gpufleet.engine.preempt.by_node import cheapest_single
from gpufleet.engine.preempt.candidates import Singles
from gpufleet.engine.preempt.evictable_work import Rank
from gpufleet.engine.preempt.leaving import FutureRoom
from gpufleet.engine.preempt.proof import Placements
from gpufleet.engine.preempt.quota_shortage import freed_quota, lacking_quota
from gpufleet.engine.preempt.reclaim import Lender, Reclaim, ranked
from gpufleet.engine.preempt.victims import EvictionPlan
from gpufleet.engine.queueing.future_quota import Charges
from gpufleet.model.identifiers import QueueName
from gpufleet.model.queue import Queue, VictimScope

BY_AGE = frozenset((VictimScope.ANY, VictimScope.LOWER_OR_NEWER_EQUAL_PRIORITY))
"""Policies that look at ages within a queue."""


class AppliedPlan(NamedTuple):
    """A plan that was carried out: the rows of its victims, and the nodes that it concerns."""

    victims: tuple[int, ...]
    nodes: Int64Array


class SearchOutcome(NamedTuple):
    """What a search leaves behind that found a single victim: its candidates, and how it came to them.

    ``reclaim`` says what may be taken back; None outside of every queue. ``short`` says what each node
    lacked.
    ``is_own``: the candidates are of its own queue, and nothing could be taken back elsewhere.
    """

    row: int
    rank: Rank
    queue: Queue
    singles: Singles
    reclaim: Reclaim | None
    short: Int64Array
    is_own: bool


class CachedSearch:
    """Goes on where a search ended. ``seen`` counts the plans that it has taken into account."""

    def __init__(self, state: EngineState, outcome: SearchOutcome, left: FutureRoom, seen: int) -> None:
        tables = state.store.tables
        self.state = state
        self.outcome = outcome
        self.left = left
        self.seen = seen
        self.shape = int(tables.pods[layout.POD_SHAPE, outcome.row])
        # A copy, because this one is kept up to date with plans while the outcome's stays as it was found.
        self.short = outcome.short.copy()
        singles = outcome.singles
        order = np.lexsort(
            (singles.order, singles.lost, singles.spared, singles.priority, singles.queue_priority)
        )
        self.singles = Singles(*(column[order] for column in outcome.singles))
        self.asked: Int64Array = np.flatnonzero(tables.shape_charges[self.shape] > 0)
        self.gives = np.zeros((len(self.asked), len(order)), np.int64)
        freed_quota(tables, outcome.row, self.singles.rows, self.asked, self.gives)
        self.queues: Int64Array = tables.pods[layout.POD_QUEUE, self.singles.rows]
        self.terms = terms_of(outcome.reclaim.lenders) if outcome.reclaim is not None else {}
        self.ranks = ranked(outcome.reclaim.lenders) if outcome.reclaim is not None else {}

    @property
    def is_usable(self) -> bool:
        """True if there is no room without victims, and every candidate stands for a lender of now."""
        in_order = self.outcome.reclaim is None or np.array_equal(self._right(), self.singles.right)
        return in_order and not self._has_room(np.arange(len(self.short)))

    def is_like(self, rank: Rank) -> bool:
        """True if the policies reach the same for a workload of this rank, which has the same queue and
        priority.
        """
        first, policy = self.outcome.rank.created_at_us, self.outcome.queue.preemption
        if self.outcome.reclaim is not None and not self.outcome.is_own:
            if VictimScope.LOWER_OR_NEWER_EQUAL_PRIORITY in {policy.reclaim, policy.borrowing}:
                # Only a pod of the same age reaches the same pods of its priority.
                return rank.created_at_us == first
            # In its own queue no pod was newer than the first one, so none is newer than a newer one.
            return policy.within_queue not in BY_AGE or rank.created_at_us >= first
        return policy.within_queue not in BY_AGE or rank.created_at_us == first

    def plan(self, row: int, applied: Sequence[AppliedPlan], charges: Charges) -> EvictionPlan | None:
        """The plan for an equal pod, once these were carried out; None where only a new search knows."""
        if not self._catch_up(applied):
            return None
        lacks = self._lacks(row, charges)
        if lacks is None:
            return None
        number = np.flatnonzero(lacks)
        place = int(
            cheapest_single(
                self.state.store.tables,
                self.shape,
                self.short,
                lacks[number],
                self.gives[number],
                *self.singles,
                True,
            )
        )
        if place == layout.NOT_SET:
            return None
        victim = int(self.singles.rows[place])
        placements = self._proven(row, victim, charges)
        uid = self.state.pods.pod_at(victim).uid
        return EvictionPlan(placements, (uid,), (uid,)) if placements else None

    def _catch_up(self, applied: Sequence[AppliedPlan]) -> bool:
        """Take into account what was carried out since; False if there is room without victims now."""
        roomy = False
        for one in applied[self.seen :]:
            for victim in one.victims:
                # Marked and not removed, so that the columns beside it keep their places.
                self.singles.rows[self.singles.rows == victim] = layout.NOT_SET
            self.left.renew(self.shape, one.nodes, self.short)
            roomy |= self._has_room(one.nodes)
        self.seen = len(applied)
        return not roomy

    def _has_room(self, nodes: Int64Array) -> bool:
        return bool((self.short[nodes] <= 0).all(axis=1).any())

    def _lacks(self, row: int, charges: Charges) -> Int64Array | None:
        """How much of each resource that is asked for quota lacks; None if others lend now, or otherwise."""
        state, reclaim = self.state, self.outcome.reclaim
        tables, future = state.store.tables, state.future_quota
        lacks = np.zeros(tables.quota_columns.shape[1], np.int64)
        with state.trial():
            # Quota is asked of the future in which pods that leave are not charged, as a new search would.
            future.change(charges.leaving, -1)
            lacking_quota(tables, row, lacks)
            if reclaim is not None:
                future.change(reclaim.least_charged(), 1)
                # Lenders follow shares, which this pod changes: they are asked with the least of it charged.
                if not self._update_lenders(reclaim.lenders_when_placed()):
                    return None
        return lacks[self.asked]

    def _update_lenders(self, lenders: dict[QueueName, Lender]) -> bool:
        """Put candidates in the order of now; False if they are not those of these lenders."""
        # Other terms let other pods go, which only a new search gathers.
        if terms_of(lenders) != self.terms:
            return False
        ranks = ranked(lenders)
        if ranks != self.ranks:
            self.ranks = ranks
            self.singles = self.singles._replace(right=self._right())
        return True

    def _right(self) -> Int64Array:
        """By candidate, the rank of its queue."""
        by_row = np.zeros(self.state.store.tables.queue_counted.shape[0], np.int64)
        for name, rank in self.ranks.items():
            by_row[self.state.queues.tree.row_by_name[name]] = rank
        found: Int64Array = by_row[self.queues]
        return found

    def _proven(self, row: int, victim: int, charges: Charges) -> Placements:
        """Where the pod goes as soon as the victim is gone, with all others still there (``Proof``).

        Every pod that leaves is waited for, so what quota and justice say now holds in the future too.
        """
        state, future, reclaim = self.state, self.state.future_quota, self.outcome.reclaim
        node = np.array([state.store.tables.pods[layout.POD_NODE, victim]], np.int64)
        with state.trial() as trial:
            trial.release_all([victim])
            future.change(charges.nominated, -1)
            if trial.place(self.shape, [row], node) != 1:
                return ()
            future.change(charges.nominated - charges.awaited, 1)
            if not state.gate.keeps_quota(row) or (reclaim is not None and not reclaim.is_just([victim])):
                return ()
            return (placement_of(state, row),)


def terms_of(lenders: dict[QueueName, Lender]) -> dict[QueueName, tuple[object, ...]]:
    """On which terms each lends, but for the order in which they do."""
    return {name: (one.least_run_us, one.reaches, one.priority) for name, one in lenders.items()}
