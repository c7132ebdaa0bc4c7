"""What queues have, may have and are owed of GPUs, by recursion over the tree.

The formulas are those of designs/0004-queues.md, section "Quota", which are those of Kueue:

- subtree = the nominal amount of a queue and what its children lend;
- guaranteed = what a queue does not lend of its subtree, 0 without a lending limit;
- counted = the use of a queue, and what each child uses beyond the child's guaranteed amount;
- available of a root = subtree - counted; of another queue, what is left of its guaranteed amount and what
  its parent has available, of which the borrowing limit leaves only a part;
- no queue gets more than its hard limit, or that of a queue above it.
"""

from collections.abc import Iterable, Mapping
from fractions import Fraction

from gpufleet.model.queue import GPU, WEIGHT_ONE_MILLI, Queue, Quota

Use = Mapping[str, int]
"""GPUs in thousandths, by the leaf in which they are used."""
Share = tuple[bool, Fraction]
"""A share by weight; the smaller goes first, and one with True after all with False."""


class QuotaTree:
    """A tree of queues, each with one quota of GPUs or none; a parent stands before its children."""

    def __init__(self, queues: Iterable[Queue]) -> None:
        self.queues = {str(queue.name): queue for queue in queues}
        self._quota = {name: _quota_of(queue) for name, queue in self.queues.items()}
        self._children: dict[str, list[str]] = {name: [] for name in self.queues}
        for name, queue in self.queues.items():
            if queue.parent is not None:
                self._children[queue.parent].append(name)
        self.subtree: dict[str, int] = {}
        self.guaranteed: dict[str, int] = {}
        for name in reversed(self.queues):
            self._measure(name)
        self.paths = {name: self._path(name) for name in self.queues}

    def _measure(self, name: str) -> None:
        lent = sum(self.subtree[child] - self.guaranteed[child] for child in self._children[name])
        quota = self._quota[name]
        self.subtree[name] = quota.nominal + lent
        keeps = 0 if quota.lending_limit is None else self.subtree[name] - quota.lending_limit
        self.guaranteed[name] = max(0, keeps)

    def _path(self, name: str) -> tuple[str, ...]:
        above = self.queues[name].parent
        return (name, *(() if above is None else self._path(above)))

    @property
    def leaves(self) -> list[str]:
        """The queues in which work waits."""
        return [name for name, children in self._children.items() if not children]

    def children(self, name: str) -> list[str]:
        """The queues right below."""
        return self._children[name]

    def parent(self, name: str) -> str | None:
        """The queue right above."""
        return self.queues[name].parent

    def counted(self, name: str, use: Use) -> int:
        """What a queue and all below it use of what they share."""
        below = (max(0, self.counted(child, use) - self.guaranteed[child]) for child in self._children[name])
        return use.get(name, 0) + sum(below)

    def total(self, name: str, use: Use) -> int:
        """What a queue and all below it use."""
        return use.get(name, 0) + sum(self.total(child, use) for child in self._children[name])

    def available(self, name: str, use: Use) -> int:
        """What a queue may have beyond its use."""
        hard = [
            limit - self.total(one, use)
            for one in self.paths[name]
            if (limit := self._quota[one].hard_limit) is not None
        ]
        return min([self._available(name, use), *hard])

    def _available(self, name: str, use: Use) -> int:
        subtree, counted = self.subtree[name], self.counted(name, use)
        above = self.parent(name)
        if above is None:
            return subtree - counted
        guaranteed, limit = self.guaranteed[name], self._quota[name].borrowing_limit
        from_above = self._available(above, use)
        if limit is not None:
            most = subtree - guaranteed - max(0, counted - guaranteed) + limit
            from_above = min(from_above, most)
        return max(0, guaranteed - counted) + from_above

    def protected_owner(self, name: str) -> str | None:
        """The queue against whose nominal amount work counts that is never evicted: the nearest with a quota.

        docs/queues.md, "Amounts": work that is never evicted borrows nothing.
        """
        return next((one for one in self.paths[name] if self.queues[one].quotas), None)

    def left_to_protected(self, name: str, protected: Use) -> int | None:
        """What work of a queue that is never evicted may have beyond what such work has; None: any amount."""
        owner = self.protected_owner(name)
        if owner is None:
            return None
        counted = sum(amount for leaf, amount in protected.items() if self.protected_owner(leaf) == owner)
        return self._quota[owner].nominal - counted

    def borrows(self, name: str, use: Use) -> bool:
        """True if a queue and all below it have more than their nominal amounts."""
        return self.counted(name, use) > self.subtree[name]

    def potential(self, name: str) -> int:
        """The most that a queue and all below it could have if no other queue used anything."""
        above = self.parent(name)
        if above is None:
            return self.subtree[name]
        guaranteed, limit = self.guaranteed[name], self._quota[name].borrowing_limit
        from_above = self.potential(above)
        if limit is not None:
            from_above = min(from_above, self.subtree[name] - guaranteed + limit)
        return guaranteed + from_above

    def share(self, name: str, use: Use) -> Share:
        """What a queue has beyond its nominal amount, as a part of what its parent shares, by its weight.

        docs/queues.md, "Who is next", 3. A queue of weight 0, and one that has something of which its parent
        has nothing, comes after all others.
        """
        borrowed = max(0, self.counted(name, use) - self.subtree[name])
        above = self.parent(name)
        shared = 0 if above is None else self.potential(above)
        weight_milli = self.queues[name].weight_milli
        if borrowed and not shared:
            return True, Fraction(borrowed)
        part = Fraction(borrowed, shared or 1)
        if not weight_milli:
            return True, part
        return False, part * WEIGHT_ONE_MILLI / weight_milli

    def sides(self, one: str, other: str) -> tuple[str, str] | None:
        """The queues on the paths of two leaves that are children of the lowest queue above both.

        None where no queue is above both.
        """
        for mine, above in zip(self.paths[one], self.paths[one][1:], strict=False):
            for theirs, above_theirs in zip(self.paths[other], self.paths[other][1:], strict=False):
                if above == above_theirs:
                    return mine, theirs
        return None


def _quota_of(queue: Queue) -> Quota:
    return next((quota for quota in queue.quotas if quota.resource == GPU), Quota(GPU))
