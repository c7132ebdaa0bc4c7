"""Who may be evicted for a workload's sake, and what each would cost.

Never a pod that is nominated or was placed in this very step, that is not preemptible, whose eviction was
refused a moment ago, that has not run for its minimum time, or that a disruption budget keeps. Of gangs,
first the members above the minimum may go, one by one, then only the whole gang.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from gpufleet.engine import layout
from gpufleet.engine.books import Books
from gpufleet.engine.layout import PodState
from gpufleet.engine.members import Members
from gpufleet.model.identifiers import QueueName
from gpufleet.model.queue import Prey, Queue

HAS_PLACE = (int(PodState.ASSUMED), int(PodState.BOUND))
TRY_AGAIN_US = 1_000_000
"""When to look again at pods that were placed in this very step."""


class Rank(NamedTuple):
    """By what a workload is compared with those it may evict."""

    queue: QueueName
    priority: int
    created_at_us: int


class Unit(NamedTuple):
    """Pods that are evicted together or not at all.

    ``lost`` is the work that ends with them, in GPU-milliseconds, counted from the last checkpoint.
    ``whole`` is set for a whole gang.
    """

    priority: int
    whole: bool
    lost: int
    rows: tuple[int, ...]

    @property
    def cost(self) -> tuple[int, bool, int, int, tuple[int, ...]]:
        """Cheaper units go first: low priority, pods before gangs, few pods, little lost."""
        return (self.priority, self.whole, len(self.rows), self.lost, self.rows)


@dataclass(slots=True)
class Candidates:
    """Units that may be evicted, the cheapest first.

    ``alone`` are single pods, members above the minimum of their gang among them; ``gangs`` whole gangs.
    ``again_at_us`` is when more may be evicted.
    """

    alone: list[Unit] = field(default_factory=list)
    gangs: list[Unit] = field(default_factory=list)
    again_at_us: int | None = None

    def in_order(self) -> list[Unit]:
        """All units, cheaper ones first."""
        return sorted(self.alone + self.gangs, key=lambda unit: unit.cost)

    def joined(self, others: "Candidates") -> "Candidates":
        """These, and then others."""
        return Candidates(self.alone + others.alone, self.gangs + others.gangs)

    def later(self, at_us: int) -> None:
        """Somebody may be evicted from then on."""
        self.again_at_us = at_us if self.again_at_us is None else min(self.again_at_us, at_us)


def is_prey(policy: Prey, rank: Rank, priority: int, created_at_us: int) -> bool:
    """True if a policy within a queue lets a workload of this rank evict one of that priority and age.

    Nobody evicts who goes before it in their queue, whatever the policy: the other would be owed the
    place at once, and they would evict each other for ever.
    """
    if policy is Prey.NEVER:
        return False
    if priority < rank.priority:
        return True
    newer = priority == rank.priority and created_at_us > rank.created_at_us
    return newer and policy is not Prey.LOWER_PRIORITY


class Eligibility:
    """Judges pods one by one at one moment."""

    def __init__(self, books: Books, at_us: int) -> None:
        self.books = books
        self.at_us = at_us

    def may_end(self, row: int, least_run_us: int, found: Candidates) -> bool:
        """True if the pod may be evicted as far as itself is concerned."""
        books = self.books
        pod = books.pods.pod_at(row)
        if not pod.preemptible or books.departures.is_departing(pod.uid):
            return False
        if pod.uid in books.departures.refused_until_us or books.budgets.forbids(pod):
            return False
        if row in books.placed_in_step:
            found.later(self.at_us + TRY_AGAIN_US)
            return False
        may_at_us = books.pods.started_at_us.get(row, self.at_us) + least_run_us
        if least_run_us and may_at_us > self.at_us:
            found.later(may_at_us)
            return False
        return True

    def lost(self, row: int) -> int:
        """The work that would be lost with a pod, in GPU-milliseconds; a pod without a GPU counts as one
        thousandth of one.
        """
        pods = self.books.pods
        since_us = pods.started_at_us.get(row, self.at_us)
        since_us = max(since_us, pods.checkpointed_at_us.get(row, since_us))
        milli = max(1, pods.pod_at(row).shape.gpu.total_milli)
        return max(0, self.at_us - since_us) * milli // 1_000_000


def within_queue(books: Books, rank: Rank, queue: Queue, at_us: int) -> Candidates:
    """Whom a workload may evict in its own queue."""
    policy = queue.preemption
    found = Candidates()
    if policy.within_queue is Prey.NEVER:
        return found

    def prey(priority: int, created_at_us: int) -> bool:
        return is_prey(policy.within_queue, rank, priority, created_at_us)

    eligibility = Eligibility(books, at_us)
    for row in alone_in(books, rank.queue, rank.priority):
        pod = books.pods.pod_at(row)
        if prey(pod.priority, pod.created_at_us) and eligibility.may_end(row, policy.preempt_after_us, found):
            found.alone.append(Unit(pod.priority, False, eligibility.lost(row), (row,)))
    for members in books.gangs.by_name.values():
        if members.gang is not None and members.gang.queue == rank.queue and members.placed:
            if prey(members.gang.priority, members.gang.created_at_us):
                add_gang(found, eligibility, members, policy.preempt_after_us)
    found.alone.sort(key=lambda unit: unit.cost)
    found.gangs.sort(key=lambda unit: unit.cost)
    return found


def alone_in(books: Books, queue: QueueName, priority_max: int) -> list[int]:
    """Rows of pods of no gang that run in a queue with this priority or a lower one."""
    standing, tables = books.pods.standing, books.store.tables
    rows = len(books.pods.pods)
    here = np.isin(tables.pods[layout.POD_STATE, :rows], HAS_PLACE)
    here &= tables.pods[layout.POD_NODE, :rows] != layout.NOT_SET
    here &= standing.queue[:rows] == standing.code(queue)
    here &= standing.priority[:rows] <= priority_max
    here &= standing.alone[:rows] == 1
    found: list[int] = np.flatnonzero(here).tolist()
    return found


def add_gang(found: Candidates, eligibility: Eligibility, members: Members, least_run_us: int) -> None:
    """The members of a gang above its minimum one by one, and the gang as a whole."""
    books = eligibility.books
    if members.gang is None:
        return
    staying = [row for row in members.placed if not books.departures.is_departing(books.pods.pod_at(row).uid)]
    on_nodes = [row for row in staying if books.pods.node_row(row) is not None]
    may_end = [row for row in on_nodes if eligibility.may_end(row, least_run_us, found)]
    priority = members.gang.priority
    for row in spare(members, staying, may_end, eligibility):
        found.alone.append(Unit(priority, False, eligibility.lost(row), (row,)))
    allowed = books.budgets.allow(map(books.pods.pod_at, may_end))
    if may_end and len(may_end) == len(staying) and allowed:
        lost = sum(map(eligibility.lost, may_end))
        found.gangs.append(Unit(priority, True, lost, tuple(may_end)))


def spare(
    members: Members, staying: list[int], may_end: list[int], eligibility: Eligibility
) -> Iterator[int]:
    """Members that may end, one after the other, without the gang losing its minimum.

    Those who would lose the least work come first; which nodes they are on is not looked at.
    """
    if members.gang is None:
        return
    surplus = len(staying) - members.gang.min_members
    roles = [members.placed[row] for row in staying]
    surplus_by_role = {role: roles.count(role) - least for role, least in members.gang.role_minimums}
    for row in sorted(may_end, key=lambda row: (eligibility.lost(row), row)):
        role = members.placed[row]
        if surplus <= 0:
            return
        if surplus_by_role.get(role, 1) <= 0:
            continue
        surplus -= 1
        if role in surplus_by_role:
            surplus_by_role[role] -= 1
        yield row
