"""Which work is next: a tournament over the tree of queues, in which all work of all queues takes part.

From the root of roots down, the child is taken that

1. has a head that stays within what the child is owed, its subtree's nominal amounts; then
2. has the higher priority; then
3. has the smaller dominant share (``shares``), of the mean of past and present use where a half-life
   is set (``past_use``), and of equal shares, where it would borrow, lacks something of its own, or else
   has the larger weight; then
4. has the older or more important head.

What pods hold that leave does not count (``leaving_use``).

The head of a queue is that of the line whose turn it is in it (``waiting``), the head of a queue with
children that of the child that would be taken. Behind a head that would borrow, work may wait that would
not. So a queue that lacks something of its own is looked at before one that has borrowed as little and lacks
nothing: what that one started would be taken back at once. A queue of weight 0 comes after all its siblings
as soon as it would borrow. What a decision changes are the keys on one path. So each queue keeps its
children in a heap, of which entries that are out of date are dropped when they come up: a decision
costs (depth) x (one key and one entry of a heap), however many queues and pods there are.

With no queue described, queues differ by nothing but their heads, and one flat heap of them is enough.
"""

import heapq
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from gpufleet.engine.arrays import layout
from gpufleet.engine.arrays.array_types import Int64Array
from gpufleet.engine.arrays.tables import TableStore
from gpufleet.engine.queueing.leaving_use import LeavingUse
from gpufleet.engine.queueing.line import Entry, Head, Line
from gpufleet.engine.queueing.past_use import MEAN_SCALE, PastUse
from gpufleet.engine.queueing.shares import NOT_LIMITED, QueueShares, RawShare, dominant, is_within
from gpufleet.engine.queueing.tree import QueueTree
from gpufleet.engine.queueing.waiting import WaitingLines
from gpufleet.engine.state.gang_members import Members
from gpufleet.model.identifiers import GangName, QueueName

NO_AMOUNTS: Int64Array = np.zeros((0, 0), np.int64)
"""The use of no queue."""

TOP = layout.NOT_SET
"""Above all roots."""

Ask = tuple[tuple[int, int], ...]
"""What a workload will be charged at least: (column, amount) of each resource it needs."""

Measured = tuple[Sequence[int], tuple[bool, int]]
"""The use by column that a queue had when its share was measured, and its share."""


class Contestant(NamedTuple):
    """The workload by which a queue takes part, its own or that of the best queue below it."""

    head: Head
    ask: Ask


class QueueTerms(NamedTuple):
    """What a queue brings along whatever happens: good as long as the tree is the same."""

    parent: int
    is_described: bool
    minus_priority: int
    weight_milli: int
    half_life_us: int
    owed: list[int]
    to_share: list[int]
    may_borrow: list[tuple[int, int]]
    """Column and amount owed of each resource of which a share may arise."""


Key = tuple[int, int, bool, int, bool, int, Head]
"""The right of a queue to the next turn among its siblings; the smallest goes first: class of right, minus
priority, whether its share is endless, its share, whether it has all of its own, minus its weight, and its
head.

The weight divides what is left over, so it is 0 here for what stays within the nominal amounts.
"""


class LastingKey(NamedTuple):
    """A queue's entry in the heap of the queue above it, while its use and this contestant are the same."""

    contestant: Contestant
    entry: tuple[Key, int]


# The classes of right, the best first.
WITHIN_WHAT_IS_OWED = 0
BEYOND_WHAT_IS_OWED = 1
WITHOUT_WEIGHT = 2
UNDESCRIBED = 3


class Turns:
    """Gives out the turns of one cycle."""

    def __init__(
        self,
        store: TableStore,
        waiting: WaitingLines,
        members: Mapping[GangName, Members],
        tree: QueueTree,
        past_use: PastUse,
        leaving: LeavingUse,
    ) -> None:
        self.store = store
        self.waiting = waiting
        self.members = members
        self.tree = tree
        self.past_use = past_use
        self.leaving = leaving
        self.shares = QueueShares(store, tree)
        self._at_us = 0
        self._is_flat = True
        self._flat: list[tuple[Head, QueueName, Line]] = []
        self._terms_by_row: dict[int, QueueTerms] = {}
        self._as_of = tree.changes
        self._lines: dict[int, Line] = {}
        self._contestants: dict[int, Contestant] = {}
        self._keys: dict[int, Key] = {}
        self._heaps: dict[int, list[tuple[Key, int]]] = {}
        self._asks: dict[int, Ask] = {}
        self._measured: dict[int, Measured] = {}
        self._measured_now: dict[int, Measured] = {}
        self._rejoining: dict[QueueName, None] = {}
        self._any_leaves = False
        # What holds for the queues of called lines until their first workload or their use is another.
        self._called_contestants: dict[int, tuple[Entry, Contestant]] = {}
        self._lasting_keys: dict[int, LastingKey] = {}
        self._counted_then = NO_AMOUNTS

    def begin(self, at_us: int) -> None:
        """Every queue with work that is not parked takes part."""
        self._at_us = at_us
        self._is_flat = not self.tree.described
        self._flat.clear()
        self._rejoining.clear()
        self.leaving.forget()
        if self._is_flat:
            for name in self.waiting.queues_with_work():
                self.offer(name)
            return
        self._follow_tree()
        for known in (
            self._lines,
            self._contestants,
            self._keys,
            self._heaps,
            self._asks,
            self._measured_now,
        ):
            known.clear()
        rows = {self._enter(name): None for name in self._queues_with_work()}
        leaving = self.leaving.begin()
        self._any_leaves = bool(leaving)
        self._forget_keys_of_other_use()
        if leaving:
            self._settle_upwards(rows | dict.fromkeys(leaving))
        else:
            self._settle_upwards(self._settle_lasting(rows))

    def _forget_keys_of_other_use(self) -> None:
        """Forget the keys of queues whose use is not what it was when turns began the last time."""
        counted, then = self.store.tables.queue_counted, self._counted_then
        if self._any_leaves or counted.shape != then.shape:
            self._lasting_keys.clear()
        else:
            for row in np.flatnonzero((counted != then).any(axis=1)).tolist():
                self._lasting_keys.pop(row, None)
        self._counted_then = counted.copy()

    def _settle_lasting(self, rows: dict[int, None]) -> dict[int, None]:
        """The keys of these queues, most of which are those of the last time; the queues above them."""
        above: dict[int, None] = {}
        keys, heaps, lasting = self._keys, self._heaps, self._lasting_keys
        for row in rows:
            if row not in self._lines:
                continue
            contestant, terms = self._contestants[row], self._terms_by_row.get(row) or self._terms(row)
            known = lasting.get(row)
            if known is None or known.contestant is not contestant:
                known = LastingKey(contestant, (self._key(row, contestant), row))
                # What counts the past holds for this moment only.
                if not terms.half_life_us:
                    lasting[row] = known
            keys[row] = known.entry[0]
            heap = heaps.get(terms.parent)
            if heap is None:
                heap = heaps[terms.parent] = []
            heap.append(known.entry)
            above[terms.parent] = None
        for heap in heaps.values():
            heapq.heapify(heap)
        for row in rows:
            if row not in self._lines:
                above[self._settle_alone(row)] = None
        above.pop(TOP, None)
        return above

    def _settle_upwards(self, rows: dict[int, None]) -> None:
        """The keys of these queues and of all above them.

        They are settled a level at a time, so that a queue is not settled once for each one below it.
        """
        while rows:
            above = {self._settle_alone(row): None for row in rows}
            above.pop(TOP, None)
            rows = above

    def _queues_with_work(self) -> Iterator[QueueName]:
        """Queues that may have work; one that is not known any more has left only entries to be dropped."""
        known = self.tree.row_by_name
        for name in self.waiting.queues_with_work():
            if name in known:
                yield name
            else:
                self.waiting.first(name)

    def _follow_tree(self) -> None:
        """Forget what holds for another tree."""
        if self._as_of != self.tree.changes:
            self._terms_by_row.clear()
            self._measured.clear()
            self._called_contestants.clear()
            self._lasting_keys.clear()
            self._as_of = self.tree.changes

    def offer(self, name: QueueName) -> None:
        """A queue takes part with the line whose turn it is in it, or with none.

        The line stays the first of its queue until it is served: what is done for other queues neither
        adds to this one nor takes from it, unless a pod waited for it.
        """
        if not self._is_flat:
            self._settle(self._enter(name))
        elif (line := self.waiting.first(name)) is not None:
            heapq.heappush(self._flat, (line.offered or line.head(), name, line))

    def _enter(self, name: QueueName) -> int:
        """The row of a queue, with the line whose turn it is in it."""
        row = self.tree.row_by_name[name]
        line = self.waiting.first(name)
        if line is None:
            self._lines.pop(row, None)
        else:
            self._lines[row] = line
            self._contestants[row] = self._contestant(row, line)
        return row

    def _contestant(self, row: int, line: Line) -> Contestant:
        """The first workload of a line of the queue of a row."""
        if line.offered is not None or line.key.gang is not None:
            return Contestant(line.offered or line.head(), self._ask(line))
        # A line that was called stands under no turn: its first workload says all.
        first, known = line.waiting[0], self._called_contestants.get(row)
        if known is None or known[0] is not first:
            known = self._called_contestants[row] = (first, Contestant(line.head(), self._ask(line)))
        return known[1]

    def rest(self, name: QueueName) -> None:
        """A queue that was served takes no further part: its head holds back all behind it."""
        if not self._is_flat:
            self._settle(self.tree.row_by_name[name])

    def rejoin(self, name: QueueName) -> None:
        """A queue has work that was parked and is not any more: it takes part from the next turn on."""
        self._rejoining[name] = None

    def _take_rejoining(self) -> None:
        if self._is_flat:
            self.begin(self._at_us)
            return
        for name in self._rejoining:
            if name in self.tree.row_by_name:
                self._settle(self._enter(name))
        self._rejoining.clear()

    def take(self) -> Line | None:
        """The line whose turn it is, None if no queue takes part any more.

        Its queue must ``offer`` or ``rest`` before the next is taken.
        """
        if self._rejoining:
            self._take_rejoining()
        if self._is_flat:
            return heapq.heappop(self._flat)[2] if self._flat else None
        leaving = self.leaving.catch_up()
        if leaving:
            self._any_leaves = True
            self._settle_upwards(dict.fromkeys(leaving))
        row = self._first_below(TOP)
        while row is not None and row not in self._lines:
            row = self._first_below(row)
        if row is None:
            return None
        del self._contestants[row], self._keys[row]
        return self._lines.pop(row)

    def _first_below(self, row: int) -> int | None:
        """The child with the best right, None if none takes part."""
        heap, keys = self._heaps.get(row), self._keys
        while heap:
            key, child = heap[0]
            # An old key of a queue is dropped when it comes up: to find it inside the heap would cost more.
            if keys.get(child) == key:
                return child
            heapq.heappop(heap)
        return None

    def _settle(self, row: int) -> None:
        """The head of a queue or its use is another: so are the keys on its path."""
        while row != TOP:
            row = self._settle_alone(row)

    def _settle_alone(self, row: int) -> int:
        """The key of one queue, those below it being up to date; the queue above it."""
        parent, keys = (self._terms_by_row.get(row) or self._terms(row)).parent, self._keys
        if self._any_leaves:
            self.leaving.carry_up(row)
        if row in self._lines:
            contestant = self._contestants[row]
        else:
            below = self._first_below(row)
            if below is None:
                self._contestants.pop(row, None)
                keys.pop(row, None)
                return parent
            contestant = self._contestants[row] = self._contestants[below]
        key = self._key(row, contestant)
        if keys.get(row) != key:
            keys[row] = key
            heap = self._heaps.get(parent)
            if heap is None:
                heap = self._heaps[parent] = []
            heapq.heappush(heap, (key, row))
        return parent

    def _terms(self, row: int) -> QueueTerms:
        known = self._terms_by_row.get(row)
        if known is None:
            queue = self.tree.queue_at(row)
            owed, to_share = self.tree.subtree[row].tolist(), self.shares.of_parent(row)
            columns = enumerate(zip(owed, to_share, strict=True))
            known = self._terms_by_row[row] = QueueTerms(
                int(self.tree.parent[row]),
                self.tree.is_described(row),
                -queue.priority,
                queue.weight_milli,
                queue.half_life_us,
                owed,
                to_share,
                [(column, amount) for column, (amount, whole) in columns if whole != NOT_LIMITED],
            )
        return known

    def _key(self, row: int, contestant: Contestant) -> Key:
        terms = self._terms_by_row.get(row) or self._terms(row)
        head, ask = contestant
        _, is_described, minus_priority, weight_milli, half_life_us, owed, _, may_borrow = terms
        if not is_described:
            return UNDESCRIBED, 0, False, 0, False, 0, head
        counted = self.leaving.used_without(row)
        right, minus_weight, has_its_own = WITHIN_WHAT_IS_OWED, 0, False
        if not is_within(counted, owed, ask):
            right = BEYOND_WHAT_IS_OWED if weight_milli else WITHOUT_WEIGHT
            minus_weight = -weight_milli
            has_its_own = not lacks_its_own(counted, owed, ask)
        if not half_life_us:
            for column, amount in may_borrow:
                if counted[column] > amount:
                    break
            else:
                # Most queues of most fleets: nothing is borrowed, and the share is that of nothing.
                return right, minus_priority, not weight_milli, 0, has_its_own, minus_weight, head
        # A head that found no place leaves the use on its path as it was, and most heads find none. What
        # counts the past holds for this moment only, the rest until use is another.
        known = self._measured_now if half_life_us else self._measured
        measured = known.get(row)
        if measured is None or measured[0] != counted:
            measured = (counted, self._share(row, terms, counted, self._at_us).order_key)
            known[row] = measured
        endless, share = measured[1]
        return right, minus_priority, endless, share, has_its_own, minus_weight, head

    def share(self, row: int, at_us: int) -> RawShare:
        """The dominant share by which a queue is compared, with its past where it has a half-life."""
        self._follow_tree()
        counted: list[int] = self.store.tables.queue_counted[row].tolist()
        return self._share(row, self._terms(row), counted, at_us)

    def _share(self, row: int, terms: QueueTerms, counted: Sequence[int], at_us: int) -> RawShare:
        owed, to_share, weight_milli = terms.owed, terms.to_share, terms.weight_milli
        if not terms.half_life_us:
            over = [used - amount for used, amount in zip(counted, owed, strict=True)]
            return dominant(over, to_share, weight_milli)
        weighed = self.past_use.weighed(row, counted, at_us)
        over = [used - amount * MEAN_SCALE for used, amount in zip(weighed, owed, strict=True)]
        return dominant(over, to_share, weight_milli, MEAN_SCALE)

    def _ask(self, line: Line) -> Ask:
        """What the first workload of a line will be charged at least; of a gang, the members it cannot do
        without.
        """
        if line.key.gang is None:
            # Most shapes are known, and this is asked for each queue in each cycle.
            return self._asks.get(line.key.shape_row) or self._ask_of_shape(line.key.shape_row)
        members = self.members[line.key.gang]
        asked: dict[int, int] = {}
        # A gang that has its minimum asks for one member more.
        for row in list(members.waiting)[: max(1, members.missing)]:
            shape_row = int(self.store.tables.pods[layout.POD_SHAPE, row])
            for column, amount in self._ask_of_shape(shape_row):
                asked[column] = asked.get(column, 0) + amount
        return tuple(asked.items())

    def _ask_of_shape(self, shape_row: int) -> Ask:
        known = self._asks.get(shape_row)
        if known is None:
            charges = self.store.tables.shape_charges[shape_row].tolist()
            known = tuple((column, amount) for column, amount in enumerate(charges) if amount)
            self._asks[shape_row] = known
        return known


def lacks_its_own(used: Sequence[int], owed: Sequence[int], asked: Iterable[tuple[int, int]]) -> bool:
    """True if less is used than is owed of something of which these amounts more would be too much."""
    # A loop, because this is asked for every queue that takes part: ``any`` takes twice as long.
    for column, amount in asked:
        if used[column] < owed[column] < used[column] + amount:
            return True
    return False
