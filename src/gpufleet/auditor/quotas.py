"""The arithmetic of queues after docs/queues.md: what each is owed, may borrow, lends, and its hard limit.

Of what a queue has in its tree (its own nominal amount and what those below lend it) it keeps to itself what
it does not lend. Use that this covers is not counted above it. What is counted may be more than the tree of
the queue has by its borrowing limit, at a root by nothing, and use as a whole never more than the hard limit.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction

from gpufleet.auditor import amounts, queue_access
from gpufleet.auditor.queue_access import Queues
from gpufleet.auditor.reading import rows

ZERO = Fraction(0)
Amounts = Mapping[str, Fraction]


@dataclass(frozen=True, slots=True)
class Limits:
    """What one queue says of one resource; None: no limit."""

    nominal: Fraction = ZERO
    borrowing: Fraction | None = None
    lending: Fraction | None = None
    hard: Fraction | None = None


def resources_of(queues: Queues) -> list[str]:
    """Every resource that any queue names."""
    found = {quota.get("resource") for queue in queues.values() for quota in rows(queue, "spec", "quotas")}
    return sorted(str(one) for one in found if one)


class Tree:
    """The queues' limits of one resource, and whether use keeps to them. Circles are cut where they are
    found.
    """

    def __init__(self, queues: Queues, resource: str) -> None:
        self._limits: dict[str, Limits] = {}
        self._paths = {name: [one for one, _ in queue_access.path(queues, name)] for name in sorted(queues)}
        for name in self._paths:
            for quota in rows(queues[name], "spec", "quotas"):
                if quota.get("resource") == resource:
                    self._limits[name] = _limits(quota)
        self._parent = {name: path[1] for name, path in self._paths.items() if len(path) > 1}
        self._deepest_first = sorted(self._paths, key=lambda name: -len(self._paths[name]))
        self.has: dict[str, Fraction] = {name: self.limits(name).nominal for name in self._paths}
        """What is in a queue's tree: its own, and what those below lend."""

        self.keeps: dict[str, Fraction | None] = {}
        """What a queue does not lend; None is all that its pods take, where neither it nor a queue above or
        below names the resource.
        """

        concerned = {one for name in self._limits for one in self._paths[name]}
        for name in self._deepest_first:
            if name not in concerned and not self.is_limited(name):
                self.keeps[name] = None
                continue
            lending = self.limits(name).lending
            kept = ZERO if lending is None else max(ZERO, self.has[name] - lending)
            self.keeps[name] = kept
            if name in self._parent:
                self.has[self._parent[name]] += self.has[name] - kept

    def limits(self, queue: str) -> Limits:
        """What the queue itself says."""
        return self._limits.get(queue, Limits())

    def is_limited(self, queue: str) -> bool:
        """Whether the queue or one above it names the resource."""
        return self.owner(queue) is not None

    def owner(self, queue: str) -> str | None:
        """The nearest queue that names the resource: what is never evicted counts there."""
        return next((name for name in self._paths.get(queue, ()) if name in self._limits), None)

    def used(self, direct: Amounts) -> dict[str, Fraction]:
        """What pods of each queue and of all below it take."""
        found = {name: direct.get(name, ZERO) for name in self._paths}
        for name in self._deepest_first:
            if name in self._parent:
                found[self._parent[name]] += found[name]
        return found

    def counted(self, direct: Amounts) -> dict[str, Fraction]:
        """Use of each queue without what those below cover by what they keep."""
        found = {name: direct.get(name, ZERO) for name in self._paths}
        for name in self._deepest_first:
            kept = self.keeps[name]
            if name in self._parent and kept is not None:
                found[self._parent[name]] += max(ZERO, found[name] - kept)
        return found

    def broken(self, queue: str, direct: Amounts, more: Fraction) -> Iterator[str]:
        """Limits on the path that do not hold, and that ``more`` use of the queue, within ``direct``, has to
        do with.
        """
        if not self.is_limited(queue):
            return
        used, counted = self.used(direct), self.counted(direct)
        before = self.counted({**direct, queue: direct.get(queue, ZERO) - more})
        for name in self._paths[queue]:
            limits = self.limits(name)
            if limits.hard is not None and used[name] > limits.hard:
                yield f"queue {name} uses {words(used[name])} and has the hard limit {words(limits.hard)}"
            most = self._most(name)
            if most is not None and counted[name] > most and counted[name] > before[name]:
                yield f"queue {name} uses {words(counted[name])} and may use {words(most)}"

    def _most(self, queue: str) -> Fraction | None:
        """The most that may be counted there, None for any amount."""
        if queue not in self._parent:
            return self.has[queue]
        borrowing = self.limits(queue).borrowing
        return None if borrowing is None else self.has[queue] + borrowing


def _limits(quota: Mapping[str, object]) -> Limits:
    fields = ("borrowingLimit", "lendingLimit", "hardLimit")
    return Limits(_read(quota.get("nominal")) or ZERO, *(_read(quota.get(field)) for field in fields))


def _read(value: object) -> Fraction | None:
    try:
        return None if value is None else amounts.read(str(value))
    except ValueError:
        return None


def words(amount: Fraction) -> str:
    """An amount for people."""
    return str(amount) if amount.denominator == 1 else f"{float(amount):.3f}"
