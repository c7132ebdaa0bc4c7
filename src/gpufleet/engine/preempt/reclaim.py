"""Work of other queues that borrow: which of it may be evicted so that a queue gets what it is owed.

Queues of one tree are compared right below the lowest queue above both: these two queues are the *sides*.
What is taken must have been borrowed there: before the last victim goes, the victim's side is beyond its
nominal amount of something that the beneficiary needs, and so is every queue below it down to that of the
victim (``losses``). And the beneficiary's side must end within its nominal amounts, or its policy must let
it evict while it borrows, and it must come first. What is left over goes by the queues' priority
(``queueing.water_filling``): a side takes from one of lower priority whatever their shares, and never from
one of higher priority. Of equals the side comes first whose share is then not the larger one, or whose turn
each of its pods is (``queueing.turns``), beside the other side as it is without the victims. So what started
in its turn is not taken back, and what would be started in its turn takes the place of what would not. Where
pods are alike every reclaim then replaces a start by one at a smaller share, which comes to an end; where
they are not, ``lifecycle.eviction_immunity`` sees to that.

Much of that holds for whole queues, whichever of their pods go. It is asked before any pod is looked at: a
pod whose eviction could not be just together with any others is no candidate.

Work of a queue that is not described is owed nothing: it goes first, whatever quota it is within.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from gpufleet.engine.arrays import layout
from gpufleet.engine.arrays.array_types import BoolArray, Int64Array
from gpufleet.engine.lifecycle.engine_state import EngineState
from gpufleet.engine.preempt.candidates import (
    LOWEST,
    NO_ROWS,
    NO_SINGLES,
    Candidates,
    Gathering,
    gangs_that_run,
)
from gpufleet.engine.preempt.evictable_work import EvictableWork, Rank, evictable_work
from gpufleet.engine.preempt.losses import BorrowedLosses, Loss, losses_by_queue
from gpufleet.engine.queueing.shares import QueueShares, is_within
from gpufleet.model.identifiers import DEFAULT_QUEUE, QueueName
from gpufleet.model.queue import Queue, VictimOrder, VictimScope

Right = tuple[tuple[int, bool, int], ...]
"""For each queue from a side down: its priority, and its share, the larger first."""
PlaceInTurn = tuple[list[tuple[bool, int]], bool, int]
"""Its shares by resource, whether it has all of its own, minus its weight; the smallest goes first."""
NO_LOSSES: Mapping[int, Loss] = {}
OF_NO_QUEUE: Right = ()
"""Less than any other."""
WHATEVER_THE_SHARE: Right = ((0, True, 0),)
"""Of all described queues where work lost decides before shares do."""


class Lender(NamedTuple):
    """A queue with work that may have to go: what it and its side have a right to, how long work must have
    run, which of its work the policies reach, and the priority of its side.
    """

    right: Right
    least_run_us: int
    reaches: tuple[EvictableWork, ...]
    priority: int = LOWEST


def ranked(lenders: Mapping[QueueName, Lender]) -> dict[QueueName, int]:
    """The place of each lender when their rights are put in order; the one with the least comes first."""
    known = sorted({lender.right for lender in lenders.values()})
    order = {right: number for number, right in enumerate(known)}
    return {name: order[lender.right] for name, lender in lenders.items()}


class Reclaim:
    """Candidates in other queues for one workload, and whether a set of them is just.

    ``needed`` is what the workload is charged by column, ``least`` what it is charged at least if it starts,
    ``of_one_pod`` the most of that which is one of its pods'.
    ``owed_only``: it takes back what it is owed, and no more. ``lenders`` are the queues whose candidates
    were asked for last.
    """

    def __init__(
        self,
        state: EngineState,
        rank: Rank,
        queue: Queue,
        needed: Sequence[int],
        least: Sequence[int],
        of_one_pod: Sequence[int],
        *,
        owed_only: bool = False,
    ) -> None:
        self.state = state
        self.rank = rank
        self.policy = queue.preemption
        self.tree = state.queues.tree
        self.row = self.tree.row_by_name[rank.queue]
        self.shares: QueueShares = state.turns.shares
        self.least = least
        self.of_one_pod = np.array(of_one_pod, np.int64)
        self.columns = [column for column, amount in enumerate(needed) if amount]
        self.within = evictable_work(self.policy.reclaim, rank)
        self.borrowing = evictable_work(self.policy.borrowing, rank, self.policy.borrowing_priority_max)
        self.owed_only = owed_only
        self.may_borrow = self.policy.borrowing is not VictimScope.NEVER and not owed_only
        self.lenders: dict[QueueName, Lender] = {}

    def candidates(self, at_us: int) -> Candidates:
        """What the workload may evict in other queues as things are, work that is owed the least first."""
        lenders = self.lenders = self._lenders()
        held = self._held()
        gathering = self._gathered_single(lenders, at_us, held)
        if lenders:
            for members in gangs_that_run(self.state):
                gang = members.described
                # A gang goes as a whole, so one member that is immune keeps all of it.
                if gang.queue in lenders and held.isdisjoint(members.with_places):
                    lender = lenders[gang.queue]
                    if any(one.holds(gang.priority, gang.created_at_us) for one in lender.reaches):
                        gathering.add_gang(members, lender.least_run_us)
        return gathering.candidates()

    def held_back(self, at_us: int) -> Candidates:
        """Pods of no gang that nothing but their immunity keeps from being candidates."""
        held = self._held()
        if not held:
            return Candidates(NO_SINGLES, [])
        found = self._gathered_single(self._lenders(), at_us, NO_ROWS).candidates()
        is_held = np.isin(found.singles.rows, np.fromiter(held, np.int64, len(held)))
        return Candidates(found.singles.at(is_held), [], found.again_at_us)

    def _gathered_single(
        self, lenders: Mapping[QueueName, Lender], at_us: int, held: frozenset[int]
    ) -> Gathering:
        """Pods of no gang that lenders may lose, but not those ``held``."""
        priorities = {name: lender.priority for name, lender in lenders.items()}
        gathering = Gathering(self.state, at_us, ranked(lenders), self.rank, priorities)
        # One pass over all pods for each set of reaches; most lenders have the same.
        for reaches in dict.fromkeys(lender.reaches for lender in lenders.values()):
            alike = {name: one.least_run_us for name, one in lenders.items() if one.reaches == reaches}
            gathering.add_single(alike, reaches, held)
        return gathering

    def _held(self) -> frozenset[int]:
        """The rows of pods that came to their places at this queue's cost."""
        held = self.state.eviction_immunity.pods_immune_to(self.rank.queue)
        return frozenset(map(self.state.pods.row_by_uid.__getitem__, held))

    def _lenders(self) -> dict[QueueName, Lender]:
        """Other queues with work that may have to go; none if the policies let nothing be taken.

        The least right is none at all; then those go first whose side has the lowest priority, and of equal
        ones the largest share; on one side the queues below it are compared in the same way.
        """
        if self.policy.reclaim is VictimScope.NEVER and not self.may_borrow:
            return {}
        with self.state.trial():
            self.state.future_quota.change(self.least_charged(), 1)
            return self.lenders_when_placed()

    def least_charged(self) -> Int64Array:
        """The least that the workload is charged if it starts, by queue and resource column (``Charges``)."""
        sums = np.zeros((1, *self.state.store.tables.queue_counted.shape), np.int64)
        sums[0, self.row, : len(self.least)] = self.least
        return sums

    def lenders_when_placed(self) -> dict[QueueName, Lender]:
        """Other queues with work that may have to go, while the least that the workload needs is charged."""
        found: dict[QueueName, Lender] = {}
        default = self.tree.row_by_name.get(DEFAULT_QUEUE)
        # Work of no queue owns nothing, so it lends all that it has.
        if default not in {None, self.row} and DEFAULT_QUEUE not in self.tree.described:
            if self._is_within(self.row) or self.may_borrow:
                found[DEFAULT_QUEUE] = Lender(OF_NO_QUEUE, 0, self._reaches_within())
        borrows = self._borrows()
        # Queues on its own path lend it nothing, and where no other borrows no side has to be known.
        borrows[list(self.tree.path(self.row))] = False
        if not borrows.any():
            return found
        sides = self.shares.sides(self.row)
        rows = self._rows_that_lend(sides, borrows)
        sides_of_rows: list[int] = sides[rows].tolist()
        reaches = self._reaches_by_side(list(dict.fromkeys(sides_of_rows)))
        for row, theirs in zip(rows.tolist(), sides_of_rows, strict=True):
            if reaches[theirs]:
                queue, priority = self.tree.queue_at(row), self.tree.queue_at(theirs).priority
                right, least_run_us = self._right(row, theirs), queue.preemption.reclaim_after_us
                found[queue.name] = Lender(right, least_run_us, reaches[theirs], priority)
        return found

    def _rows_that_lend(self, sides: Int64Array, borrows: BoolArray) -> Int64Array:
        """The queues that have borrowed, as have all above them up to their side."""
        # A row that came since the sides were told apart is of a queue that is not described.
        borrows = borrows[: len(sides)]
        rows: Int64Array = np.flatnonzero((sides != layout.NOT_SET) & borrows & borrows[sides])
        above = rows
        # All rows climb one level at a time, and those drop out above which some queue has not borrowed.
        while (below := above != sides[rows]).any():
            above = np.where(below, self.tree.parent[above], above)
            rows, above = rows[borrows[above]], above[borrows[above]]
        return rows

    def _right(self, row: int, side: int) -> Right:
        """What a queue below a side has a right to; what has the least gives first."""
        path = list(self.tree.path(row))
        up_to_side = path[: path.index(side) + 1]
        if self.policy.victim_order is VictimOrder.WORK_LOST_FIRST:
            # What a deleted queue, or one below it, left running goes first all the same.
            return WHATEVER_THE_SHARE if all(map(self.tree.is_described, up_to_side)) else OF_NO_QUEUE
        found: list[tuple[int, bool, int]] = []
        for one in reversed(up_to_side):
            endless, share = self.shares.order_key(one)
            # An endless share, that of a queue of weight 0, is larger than any; the larger share gives first.
            found.append((self.tree.queue_at(one).priority, not endless, -share))
        return tuple(found)

    def _borrows(self) -> BoolArray:
        """By queue row, whether it has more than its nominal amount of anything that the workload needs."""
        counted, subtree = self.state.store.tables.queue_counted, self.tree.subtree
        found = np.zeros(len(counted), np.bool_)
        for column in self.columns:
            found |= counted[:, column] > subtree[:, column]
        return found

    def _reaches_by_side(self, sides: list[int]) -> dict[int, tuple[EvictableWork, ...]]:
        """What the policies reach on each of these sides, from the nearest to the farthest.

        What is taken from near queues comes off what all of the beneficiary's side has; so once there are
        candidates near, nothing is known of those farther away.
        """
        level = {above: number for number, above in enumerate(self.tree.path(self.row))}
        farness = {theirs: level[int(self.tree.parent[theirs])] for theirs in sides}
        nearest, found = len(level), {}
        for theirs in sorted(sides, key=farness.__getitem__):
            is_near = farness[theirs] <= nearest
            found[theirs] = self._reaches(theirs) if is_near else self._reaches_within()
            if found[theirs] and is_near:
                nearest = farness[theirs]
        return found

    def _reaches(self, theirs: int) -> tuple[EvictableWork, ...]:
        """What the policies reach on another side, whichever pods go; nothing if that could never be just.

        What devices cost beyond the least that is charged now can only take the beneficiary's side further,
        and victims only lower the share of theirs.
        """
        above = int(self.tree.parent[theirs])
        mine = next(row for row in self.tree.path(self.row) if int(self.tree.parent[row]) == above)
        if self._is_within(mine):
            return self._reaches_within()
        if not (self.may_borrow and self._goes_before(mine, theirs)):
            return ()
        return (self.borrowing,)

    def _reaches_within(self) -> tuple[EvictableWork, ...]:
        """What the policies reach where the beneficiary's side may be within its own.

        What devices cost beyond the least that is charged may take it further.
        """
        return (self.within,) if self.owed_only else (self.within, self.borrowing)

    def _queue_row(self, row: int) -> int:
        return self.tree.row_by_name[self.state.queue_of(row)]

    def is_just(self, victims: Sequence[int], gone: Mapping[int, Loss] = NO_LOSSES) -> bool:
        """True if these may be evicted, asked within a trial in which they are gone and the workload is
        placed; ``gone`` is what queues lost before to others, which may go.
        """
        by_queue = self._by_queue(victims)
        by_side: dict[tuple[int, int], dict[int, list[int]]] = {}
        for queue_row, rows in by_queue.items():
            # None where no queue is above both, as for work of no queue: that has nothing of its own to keep.
            siblings = self.shares.siblings(self.row, queue_row)
            if siblings is not None:
                by_side.setdefault(siblings, {})[queue_row] = rows
            elif not (self.may_borrow or self._is_within(self.row)):
                return False
        return all(self._give_justly(mine, theirs, rows, gone) for (mine, theirs), rows in by_side.items())

    def losses(self, victims: Sequence[int]) -> dict[int, Loss]:
        """What other queues lose with these, asked within a trial in which they are gone."""
        return losses_by_queue(self.state, self.columns, self._by_queue(victims))

    def _by_queue(self, victims: Sequence[int]) -> dict[int, list[int]]:
        """Rows of pods by the queue that they are of, if that is another one."""
        by_queue: dict[int, list[int]] = {}
        for row in victims:
            by_queue.setdefault(self._queue_row(row), []).append(row)
        by_queue.pop(self.row, None)
        return by_queue

    def _give_justly(
        self, mine: int, theirs: int, by_queue: Mapping[int, Sequence[int]], gone: Mapping[int, Loss]
    ) -> bool:
        """True if one side may lose these rows of its queues."""
        is_owed = self._is_within(mine)
        if not (is_owed or self.may_borrow):
            return False
        # Two policies: what is owed may be taken back, what is left over only where borrowing may evict.
        reached = self.within if is_owed else self.borrowing
        if not all(self._all_are_in(reached, rows) for rows in by_queue.values()):
            return False
        if not (is_owed or self._goes_before(mine, theirs)):
            return False
        losses = losses_by_queue(self.state, self.columns, by_queue)
        sides = self.shares.sides(self.row) if gone else ()
        # Pods that leave anyway count with the victims, else a queue would give its own amount twice.
        for queue_row, loss in gone.items():
            if queue_row in losses:
                losses[queue_row] = losses[queue_row].joined(loss)
            elif sides[queue_row] == theirs:
                losses[queue_row] = loss
        return BorrowedLosses(self.tree, self.columns, theirs, is_owed=is_owed).are_all(losses)

    def _goes_before(self, mine: int, theirs: int) -> bool:
        """True if what is left over is owed to one side rather than to the other."""
        first, second = self._turn(mine), self._turn(theirs)
        if first != second:
            return first < second
        # Equals in turn: the side that has no more than the other may take, or whose turn each pod is.
        if self.shares.by_resource(mine) <= self.shares.by_resource(theirs):
            return True
        counted = self.state.store.tables.queue_counted
        return self._place_in_turn(mine, self._used_before_last_pod(mine)) < self._place_in_turn(
            theirs, counted[theirs]
        )

    def _place_in_turn(self, row: int, used: Int64Array) -> PlaceInTurn:
        """By what a queue that uses so much is compared with equals in priority (``turns``)."""
        has_its_own = bool((used >= self.tree.subtree[row])[self.columns].all())
        return self.shares.by_resource(row, used), has_its_own, -self.tree.queue_at(row).weight_milli

    def _used_before_last_pod(self, side: int) -> Int64Array:
        """By column, what the side of the workload uses without one of its pods.

        What the guarantee of a queue covers is not counted above it.
        """
        counted, guaranteed, less = (
            self.state.store.tables.queue_counted,
            self.tree.guaranteed,
            self.of_one_pod,
        )
        for row in self.tree.path(self.row):
            used: Int64Array = counted[row] - less
            if row == side:
                break
            less = np.maximum(0, counted[row] - guaranteed[row]) - np.maximum(0, used - guaranteed[row])
        return used

    def _turn(self, row: int) -> tuple[bool, int]:
        """When a queue gets of what is left over; smaller goes first."""
        queue = self.tree.queue_at(row)
        return queue.weight_milli == 0, -queue.priority

    def _is_within(self, row: int) -> bool:
        """True if a queue has no more than its nominal amounts of what the workload needs."""
        used = self.state.store.tables.queue_counted[row].tolist()
        return is_within(used, self.tree.subtree[row].tolist(), [(column, 0) for column in self.columns])

    def _all_are_in(self, reached: EvictableWork, rows: Sequence[int]) -> bool:
        """True if a policy reaches all of these pods; a gang's priority and age are those of its members."""
        for row in rows:
            ranked = self.state.workloads.ranked(row)
            if not reached.holds(ranked.priority, ranked.created_at_us):
                return False
        return True
