"""Dominant shares, as exact fractions: how much of what is shared a queue has.

A queue's share of a resource is what it borrows (its use beyond its nominal amount) over what its parent
has to share, divided by its weight. The largest over all resources is its dominant share (Ghodsi
et al., Dominant Resource Fairness, NSDI 2011, section 4; borrowed instead of used, as in Kueue's KEP
1714). Fractions are of Python's integers: two shares that differ are never taken for equal, on no
machine. ``turns`` serves the smallest share first, preemption compares shares within a trial.
"""

from collections.abc import Sequence
from fractions import Fraction
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from gpufleet.engine.arrays import layout
from gpufleet.engine.arrays.array_types import Int64Array
from gpufleet.engine.arrays.tables import TableStore
from gpufleet.engine.queueing.tree import QueueTree
from gpufleet.model.queue import WEIGHT_ONE_MILLI

NOT_LIMITED = -1
"""What a parent has to share of a resource that is not limited there: no share arises from it."""

ORDER_BITS = 384
"""Fractions whose denominators are below 2^192 differ by more than 2^-384 if they differ."""


class Share(NamedTuple):
    """A dominant share; the smaller one has the better right.

    ``endless`` shares are larger than all others: of a queue of weight 0, which gets only what no other
    else wants, and of one that holds what its parent has nothing of (a quota cut below its use).
    """

    endless: bool
    ratio: Fraction


class RawShare(NamedTuple):
    """A dominant share as it is reckoned, not reduced; ``column`` is that of its resource, if any."""

    endless: bool
    numerator: int
    denominator: int
    column: int = layout.NOT_SET

    @property
    def share(self) -> Share:
        """As a value to compare and to show."""
        return Share(self.endless, Fraction(self.numerator, self.denominator))

    @property
    def order_key(self) -> tuple[bool, int]:
        """Integers in the order of the shares: equal where they are, smaller where they are.

        A comparison of tuples of integers costs a tenth of that of two fractions.
        """
        if self.numerator == 0:
            return self.endless, 0
        return self.endless, (self.numerator << ORDER_BITS) // self.denominator


def dominant(borrowed: Sequence[int], to_share: Sequence[int], weight_milli: int, scale: int = 1) -> RawShare:
    """The largest share over all resources.

    ``borrowed`` says for each resource how much of it, in 1/``scale`` of its unit, is used beyond the
    nominal amount (nothing below 0 counts), ``to_share`` what the parent has in whole units.
    """
    numerator, denominator, dominant_one = 0, 1, layout.NOT_SET
    unshared, unshared_one = 0, layout.NOT_SET
    for column, (amount, whole) in enumerate(zip(borrowed, to_share, strict=True)):
        if amount <= 0 or whole == NOT_LIMITED:
            continue
        if whole == 0:
            if amount > unshared:
                unshared, unshared_one = amount, column
        # amount / whole > numerator / denominator, without fractions: this runs for every decision.
        elif amount * denominator > numerator * whole:
            numerator, denominator, dominant_one = amount, whole, column
    if unshared:
        return RawShare(True, unshared, scale, unshared_one)
    if weight_milli == 0:
        return RawShare(True, numerator, denominator * scale, dominant_one)
    return RawShare(False, numerator * WEIGHT_ONE_MILLI, denominator * weight_milli * scale, dominant_one)


def is_within(used: Sequence[int], owed: Sequence[int], asked: Sequence[tuple[int, int]]) -> bool:
    """True if, with these amounts of resource columns more, no more of them is used than is owed."""
    for column, amount in asked:
        if used[column] + amount > owed[column]:
            return False
    return True


class QueueShares:
    """The dominant shares of the queues as the cells are now; within a trial, as they would be."""

    def __init__(self, store: TableStore, tree: QueueTree) -> None:
        self.store = store
        self.tree = tree
        self._to_share: dict[int, list[int]] = {}
        self._order_keys: dict[int, tuple[bytes, tuple[bool, int]]] = {}
        self._sides: tuple[int, Int64Array] | None = None
        self._parents: Int64Array | None = None
        self._as_of = tree.changes

    def share(self, row: int) -> Share:
        """The dominant share of a queue among its siblings, of what it has now."""
        return self.raw(row).share

    def raw(self, row: int) -> RawShare:
        """The dominant share of a queue among its siblings, not reduced."""
        tables = self.store.tables
        over = tables.queue_counted[row] - self.tree.subtree[row]
        return dominant(over.tolist(), self.of_parent(row), self.tree.queue_at(row).weight_milli)

    def by_resource(self, row: int, used: Int64Array | None = None) -> list[tuple[bool, int]]:
        """The order keys of a queue's shares of each resource, the largest first; ``used`` by column, if it
        is not what the queue uses now.

        Where two dominant shares are equal, the next ones decide: so no queue can take anything at all and
        keep the rank that it had.
        """
        counted = self.store.tables.queue_counted[row] if used is None else used
        over = (counted - self.tree.subtree[row]).tolist()
        weight_milli = self.tree.queue_at(row).weight_milli
        columns = zip(over, self.of_parent(row), strict=True)
        keys = [dominant((one,), (whole,), weight_milli).order_key for one, whole in columns]
        return sorted(keys, reverse=True)

    def order_key(self, row: int) -> tuple[bool, int]:
        """The ``order_key`` of a queue's share, worked out again only where its use is another one."""
        self._follow_tree()
        # A copy, since the row itself changes in place.
        used = self.store.tables.queue_counted[row].tobytes()
        known = self._order_keys.get(row)
        if known is None or known[0] != used:
            known = self._order_keys[row] = (used, self.raw(row).order_key)
        return known[1]

    def compare(self, one: int, other: int) -> int | None:
        """-1, 0 or 1 as ``one`` has a smaller, an equal or a larger share than ``other``.

        Compared are the siblings on their two paths, right below the lowest queue above both. None where
        there is none: queues of different trees share nothing, nor does a queue with one above it.
        """
        siblings = self.siblings(one, other)
        if siblings is None:
            return None
        left, right = (self.share(row) for row in siblings)
        return (left > right) - (left < right)

    def siblings(self, one: int, other: int) -> tuple[int, int] | None:
        """The queues on the paths of these two that stand right below the lowest queue above both."""
        below = {above: row for row, above in pairwise(self.tree.path(one))}
        for row, above in pairwise(self.tree.path(other)):
            if above in below:
                return None if below[above] == row else (below[above], row)
        return None

    def sides(self, one: int) -> Int64Array:
        """For each queue of a tree, and for all at once, the second of ``siblings(one, row)``.

        NOT_SET where there is none; rows that came since are left out.
        """
        self._follow_tree()
        if self._sides is None or self._sides[0] != one:
            self._sides = (one, self._sides_of(one))
        return self._sides[1]

    def _sides_of(self, one: int) -> Int64Array:
        tree, parent = self.tree, self._parents
        if parent is None:
            rows = np.array(list(tree.row_by_name.values()), np.int64)
            parent = self._parents = np.full(len(tree.parent), layout.NOT_SET, np.int64)
            parent[rows] = tree.parent[rows]
        on_path = np.zeros(len(parent), np.bool_)
        on_path[list(tree.path(one))] = True
        is_off = (parent != layout.NOT_SET) & ~on_path
        # A root's NOT_SET reads the last cell, which ``is_off`` leaves out.
        meets = is_off & on_path[parent]
        found: Int64Array = np.where(meets & (parent != one), np.arange(len(parent)), layout.NOT_SET)
        # From the path downwards, a level each time: a queue has the side of the one above it.
        for _ in range(tree.path_max):
            found = np.where(is_off & ~meets, found[parent], found)
        return found

    def _follow_tree(self) -> None:
        """Forget what holds for another tree."""
        if self._as_of != self.tree.changes:
            self._to_share.clear()
            self._order_keys.clear()
            self._sides = None
            self._parents = None
            self._as_of = self.tree.changes

    def of_parent(self, row: int) -> list[int]:
        """By column, what the parent of a queue has to share; NOT_LIMITED where the queue is not limited.

        A root borrows from no other: what it has beyond its own is an endless share.
        """
        self._follow_tree()
        known = self._to_share.get(row)
        if known is None:
            named = self.tree.named[row].tolist()
            parent = int(self.tree.parent[row])
            whole = [0] * len(named) if parent == layout.NOT_SET else self._potential(parent)
            known = [amount if limited else NOT_LIMITED for amount, limited in zip(whole, named, strict=True)]
            self._to_share[row] = known
        return known

    def _potential(self, row: int) -> list[int]:
        """The most that can come to a queue and all below it, if no other queue of its tree takes anything.

        Kueue's potentialAvailable: guaranteed + min(potential of the parent, what is lent + what may be
        borrowed).
        """
        potential: list[int] = []
        for level in reversed(list(self.tree.path(row))):
            subtree = self.tree.subtree[level].tolist()
            if not potential:
                potential = subtree
                continue
            guaranteed, borrowing = self.tree.guaranteed[level].tolist(), self.tree.borrowing[level].tolist()
            columns = zip(guaranteed, potential, subtree, borrowing, strict=True)
            potential = [own + min(above, lent - own + more) for own, above, lent, more in columns]
        return potential
