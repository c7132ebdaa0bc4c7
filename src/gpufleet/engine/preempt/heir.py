"""A search that goes on where one for an equal pod has ended, among the same candidates.

What a new search would find out is known already: who may be evicted, what each would cost and give back,
and what every node lacks. Only what the plans since then have changed is looked at again: the nodes that
they concern, who lends and in which order, and what quota lacks. The cheapest victim is found as
``by_node`` finds it, and proven as of now, with whom it would be just to evict judged anew each time. It is
the victim that a new search finds (a test compares them). Wherever that is not sure, there is no plan, and
the caller searches anew.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from gpufleet.engine.admit.future import Charges
from gpufleet.engine.arrays import layout
from gpufleet.engine.arrays.array_types import Int64Array
from gpufleet.engine.lifecycle.books import Books
from gpufleet.engine.lifecycle.nominations import placement_of
from gpufleet.engine.preempt.by_node import cheapest_single
from gpufleet.engine.preempt.candidates import Singles
from gpufleet.engine.preempt.leaving import Left
from gpufleet.engine.preempt.proof import Placements
from gpufleet.engine.preempt.reach import Rank
from gpufleet.engine.preempt.reclaim import Lender, Reclaim, ranked
from gpufleet.engine.preempt.short_quota import freed_quota, lacking_quota
from gpufleet.engine.preempt.victims import Plan
from gpufleet.model.identifiers import QueueName
from gpufleet.model.queue import Prey, Queue

BY_AGE = frozenset((Prey.ANY, Prey.LOWER_OR_NEWER_EQUAL_PRIORITY))
"""Policies that look at ages within a queue."""


class Carried(NamedTuple):
    """A plan that was carried out: the rows of its victims, and the nodes that it concerns."""

    victims: tuple[int, ...]
    nodes: Int64Array


class Will(NamedTuple):
    """What a search leaves behind that found a single victim: its candidates, and how it came to them.

    ``reclaim`` is None for candidates of its own queue. ``short`` says what each node lacked.
    """

    row: int
    rank: Rank
    queue: Queue
    singles: Singles
    reclaim: Reclaim | None
    short: Int64Array


class Heir:
    """Goes on with the will of a search. ``seen`` counts the plans that it has taken into account."""

    def __init__(self, books: Books, will: Will, left: Left, seen: int) -> None:
        tables = books.store.tables
        self.books = books
        self.will = will
        self.left = left
        self.seen = seen
        self.shape = int(tables.pods[layout.POD_SHAPE, will.row])
        self.short = will.short.copy()
        order = np.lexsort((will.singles.lost, will.singles.spared, will.singles.priority))
        self.singles = Singles(*(column[order] for column in will.singles))
        self.asked: Int64Array = np.flatnonzero(tables.shape_charges[self.shape] > 0)
        self.gives = np.zeros((len(self.asked), len(order)), np.int64)
        freed_quota(tables, will.row, self.singles.rows, self.asked, self.gives)
        self.queues: Int64Array = tables.pods[layout.POD_QUEUE, self.singles.rows]
        self.terms = terms_of(will.reclaim.lenders) if will.reclaim is not None else {}
        self.ranks = ranked(will.reclaim.lenders) if will.reclaim is not None else {}

    @property
    def is_fit(self) -> bool:
        """True if there is no room without victims, and every candidate stands for a lender of now."""
        in_order = self.will.reclaim is None or np.array_equal(self._right(), self.singles.right)
        return in_order and not self._has_room(np.arange(len(self.short)))

    def is_like(self, rank: Rank) -> bool:
        """True if the policies reach the same for a workload of this rank, which has the same queue and
        priority.
        """
        first, policy = self.will.rank.created_at_us, self.will.queue.preemption
        if self.will.reclaim is not None:
            if Prey.LOWER_OR_NEWER_EQUAL_PRIORITY in {policy.reclaim, policy.borrowing}:
                return rank.created_at_us == first
            # Nobody in its own queue was newer than the first: nobody is newer than who is newer.
            return policy.within_queue not in BY_AGE or rank.created_at_us >= first
        return policy.within_queue not in BY_AGE or rank.created_at_us == first

    def plan(self, row: int, carried: Sequence[Carried], charges: Charges) -> Plan | None:
        """The plan for an equal pod, once these were carried out; None where only a new search knows."""
        if not self._catch_up(carried):
            return None
        lacks = self._lacks(row, charges)
        if lacks is None:
            return None
        number = np.flatnonzero(lacks)
        place = int(
            cheapest_single(
                self.books.store.tables,
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
        uid = self.books.pods.pod_at(victim).uid
        return Plan(placements, (uid,), (uid,)) if placements else None

    def _catch_up(self, carried: Sequence[Carried]) -> bool:
        """Take into account what was carried out since; False if there is room without victims now."""
        roomy = False
        for one in carried[self.seen :]:
            for victim in one.victims:
                self.singles.rows[self.singles.rows == victim] = layout.NOT_SET
            self.left.renew(self.shape, one.nodes, self.short)
            roomy |= self._has_room(one.nodes)
        self.seen = len(carried)
        return not roomy

    def _has_room(self, nodes: Int64Array) -> bool:
        return bool((self.short[nodes] <= 0).all(axis=1).any())

    def _lacks(self, row: int, charges: Charges) -> Int64Array | None:
        """How much of each resource that is asked for quota lacks; None if others lend now, or otherwise."""
        books, reclaim = self.books, self.will.reclaim
        tables, future = books.store.tables, books.future_quota
        lacks = np.zeros(tables.quota_columns.shape[1], np.int64)
        with books.trial():
            future.change(charges.leaving, -1)
            lacking_quota(tables, row, lacks)
            if reclaim is not None:
                future.change(reclaim.least_charged(), 1)
                if not self._regard_lenders(reclaim.lenders_when_placed()):
                    return None
        return lacks[self.asked]

    def _regard_lenders(self, lenders: dict[QueueName, Lender]) -> bool:
        """Put candidates in the order of now; False if they are not those of these lenders."""
        if terms_of(lenders) != self.terms:
            return False
        ranks = ranked(lenders)
        if ranks != self.ranks:
            self.ranks = ranks
            self.singles = self.singles._replace(right=self._right())
        return True

    def _right(self) -> Int64Array:
        """By candidate, the rank of its queue."""
        by_row = np.zeros(self.books.store.tables.queue_counted.shape[0], np.int64)
        for name, rank in self.ranks.items():
            by_row[self.books.queues.tree.row_by_name[name]] = rank
        found: Int64Array = by_row[self.queues]
        return found

    def _proven(self, row: int, victim: int, charges: Charges) -> Placements:
        """Where the pod goes as soon as the victim is gone, whoever else is still there (``Proof``).

        All who leave are waited for by somebody, so what quota and justice say now holds in the future too.
        """
        books, future, reclaim = self.books, self.books.future_quota, self.will.reclaim
        node = np.array([books.store.tables.pods[layout.POD_NODE, victim]], np.int64)
        with books.trial() as trial:
            trial.release_all([victim])
            future.change(charges.nominated, -1)
            if trial.place(self.shape, [row], node) != 1:
                return ()
            future.change(charges.nominated - charges.awaited, 1)
            if not books.gate.keeps_quota(row) or (reclaim is not None and not reclaim.is_just([victim])):
                return ()
            return (placement_of(books, row),)


def terms_of(lenders: dict[QueueName, Lender]) -> dict[QueueName, tuple[object, ...]]:
    """On which terms each lends, but for the order in which they do."""
    return {name: (one.least_run_us, one.reaches) for name, one in lenders.items()}
