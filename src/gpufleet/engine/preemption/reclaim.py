"""Work of other queues that borrow: who may be evicted so that a queue gets what it is owed.

Queues of one tree are compared right below the lowest queue above both. What is taken must have been
borrowed there: before the last victim goes, the victim's side is beyond its nominal amount of something
that the beneficiary needs. And the beneficiary's side must end within its nominal amounts, or, where its
policy lets it evict while it borrows, with a dominant share not above the one that the victim's side
keeps. So every reclaim strictly lowers the larger of two shares, and no two queues can answer each other
in kind.

Work of a queue that nobody described is owed nothing: it goes first, whoever is within its quota.
"""

from collections.abc import Iterator, Sequence

from gpufleet.engine import layout
from gpufleet.engine.books import Books
from gpufleet.engine.members import Members
from gpufleet.engine.preemption.candidates import (
    Candidates,
    Eligibility,
    Rank,
    Unit,
    add_gang,
    alone_in,
)
from gpufleet.engine.quota.shares import QueueShares
from gpufleet.model.identifiers import DEFAULT_QUEUE, QueueName
from gpufleet.model.queue import Prey, Queue

ANY_PRIORITY = 1 << 62


class Reclaim:
    """Candidates in other queues for one workload, and whether a set of them is just."""

    def __init__(self, books: Books, rank: Rank, queue: Queue, needed: Sequence[int]) -> None:
        self.books = books
        self.rank = rank
        self.queue = queue
        self.tree = books.queues.tree
        self.row = self.tree.row_by_name[rank.queue]
        self.shares: QueueShares = books.turns.shares
        self.columns = [column for column, amount in enumerate(needed) if amount]

    def candidates(self, at_us: int) -> Candidates:
        """Whom the workload may evict in other queues, those who are owed the least first."""
        found = Candidates()
        policy = self.queue.preemption
        if policy.reclaim is Prey.NEVER and policy.borrowing is Prey.NEVER:
            return found
        eligibility = Eligibility(self.books, at_us)
        gangs: dict[QueueName, list[Members]] = {}
        for members in self.books.gangs.by_name.values():
            if members.gang is not None and members.placed:
                gangs.setdefault(members.gang.queue, []).append(members)
        for name, least_run_us in self._lenders():
            for row in alone_in(self.books, name, ANY_PRIORITY):
                pod = self.books.pods.pod_at(row)
                if self._is_prey(pod.priority, pod.created_at_us):
                    if eligibility.may_end(row, least_run_us, found):
                        found.alone.append(Unit(pod.priority, False, eligibility.lost(row), (row,)))
            for members in gangs.get(name, ()):
                gang = members.gang
                if gang is not None and self._is_prey(gang.priority, gang.created_at_us):
                    add_gang(found, eligibility, members, least_run_us)
        for units in (found.alone, found.gangs):
            units.sort(key=lambda unit: (self._right(unit), unit.cost))
        return found

    def _lenders(self) -> Iterator[tuple[QueueName, int]]:
        """Other queues with work that may have to go, and how long that work must have run."""
        counted, subtree = self.books.store.tables.queue_counted, self.tree.subtree
        for name, row in list(self.tree.row_by_name.items()):
            if row == self.row:
                continue
            if not self.tree.is_described(row):
                if name == DEFAULT_QUEUE:
                    yield name, 0
                continue
            siblings = self.shares.siblings(self.row, row)
            if siblings is None:
                continue
            theirs = siblings[1]
            if any(counted[theirs, column] > subtree[theirs, column] for column in self.columns):
                yield name, self.tree.queue_at(row).preemption.reclaim_after_us

    def _is_prey(self, priority: int, created_at_us: int) -> bool:
        policy = self.queue.preemption
        within = allows(policy.reclaim, self.rank, priority, created_at_us)
        most = policy.borrowing_priority_max
        borrowing = allows(policy.borrowing, self.rank, priority, created_at_us)
        return within or (borrowing and (most is None or priority <= most))

    def _right(self, unit: Unit) -> tuple[bool, bool, int]:
        """What the victim's side has a right to, the smallest first: nothing at all, then by share."""
        row = self._queue_row(unit.rows[0])
        siblings = self.shares.siblings(self.row, row) if self.tree.is_described(row) else None
        if siblings is None:
            return (False, False, 0)
        endless, share = self.shares.raw(siblings[1]).order_key
        return (True, not endless, -share)

    def _queue_row(self, row: int) -> int:
        return self.tree.row_by_name[self.books.queue_of(row)]

    def is_just(self, victims: Sequence[int]) -> bool:
        """True if these may be evicted, asked within a trial in which they are gone and the workload is
        placed.
        """
        tables, policy = self.books.store.tables, self.queue.preemption
        counted, subtree = tables.queue_counted, self.tree.subtree
        by_queue: dict[int, list[int]] = {}
        for row in victims:
            by_queue.setdefault(self._queue_row(row), []).append(row)
        by_side: dict[tuple[int, int], list[int]] = {}
        for queue_row, rows in by_queue.items():
            if queue_row == self.row:
                continue
            siblings = self.shares.siblings(self.row, queue_row)
            if siblings is None:
                mine = self.row
                if not self._is_within(mine) and policy.borrowing is Prey.NEVER:
                    return False
                continue
            by_side.setdefault(siblings, []).extend(rows)
        for (mine, theirs), rows in by_side.items():
            shapes = [int(tables.pods[layout.POD_SHAPE, row]) for row in rows]
            last = [
                counted[theirs, column] + max(int(tables.shape_charges[shape, column]) for shape in shapes)
                > subtree[theirs, column]
                for column in self.columns
            ]
            if not any(last):
                return False
            if self._is_within(mine):
                if not all(self._allowed(policy.reclaim, row, None) for row in rows):
                    return False
                continue
            if not all(self._allowed(policy.borrowing, row, policy.borrowing_priority_max) for row in rows):
                return False
            if self.shares.share(mine) > self.shares.share(theirs):
                return False
        return True

    def _is_within(self, row: int) -> bool:
        """True if a queue has no more than its nominal amounts of what the workload needs."""
        counted, subtree = self.books.store.tables.queue_counted, self.tree.subtree
        return all(counted[row, column] <= subtree[row, column] for column in self.columns)

    def _allowed(self, policy: Prey, row: int, most: int | None) -> bool:
        pod = self.books.pods.pod_at(row)
        gang = None if pod.gang is None else self.books.gangs.members(pod.gang).gang
        priority = pod.priority if gang is None else gang.priority
        created_at_us = pod.created_at_us if gang is None else gang.created_at_us
        return allows(policy, self.rank, priority, created_at_us) and (most is None or priority <= most)


def allows(policy: Prey, rank: Rank, priority: int, created_at_us: int) -> bool:
    """True if a policy towards other queues lets a workload of this rank evict one of that priority."""
    if policy is Prey.ANY or priority < rank.priority:
        return policy is not Prey.NEVER
    newer = priority == rank.priority and created_at_us > rank.created_at_us
    return newer and policy is Prey.LOWER_OR_NEWER_EQUAL_PRIORITY
