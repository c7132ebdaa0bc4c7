"""Which work a policy lets a workload evict, by priority and age alone."""

from typing import NamedTuple

from gpufleet.model.identifiers import QueueName
from gpufleet.model.queue import VictimScope

# Below and above every priority and time.
NOTHING = -(1 << 62)
EVERYTHING = 1 << 62


class Rank(NamedTuple):
    """By what a workload is compared with those it may evict.

    ``is_protected``: it is itself never evicted.
    """

    queue: QueueName
    priority: int
    created_at_us: int
    is_protected: bool = False


class EvictableWork(NamedTuple):
    """Work of a priority below ``below``, and of ``priority`` what came after a time.

    Nothing above ``most``.
    """

    below: int
    priority: int
    newer_than_us: int
    most: int = EVERYTHING

    def holds(self, priority: int, created_at_us: int) -> bool:
        """True if a workload of this priority and age may be evicted."""
        newer = priority == self.priority and created_at_us > self.newer_than_us
        return (priority < self.below or newer) and priority <= self.most


def evictable_work(policy: VictimScope, rank: Rank, most: int | None = None) -> EvictableWork:
    """What a policy towards other queues reaches, up to a priority if there is such a limit."""
    below = {VictimScope.NEVER: NOTHING, VictimScope.ANY: EVERYTHING}.get(policy, rank.priority)
    newer_than_us = rank.created_at_us if policy is VictimScope.LOWER_OR_NEWER_EQUAL_PRIORITY else EVERYTHING
    return EvictableWork(below, rank.priority, newer_than_us, EVERYTHING if most is None else most)


def evictable_within_queue(policy: VictimScope, rank: Rank) -> EvictableWork:
    """What a policy within a queue reaches.

    No workload evicts one that goes before it in their queue, whatever the policy: the other would be owed
    the place at once, and they would evict each other for ever.
    """
    return evictable_work(
        VictimScope.LOWER_OR_NEWER_EQUAL_PRIORITY if policy is VictimScope.ANY else policy, rank
    )
