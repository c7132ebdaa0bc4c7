"""What is decided of one job: it starts, others are evicted for it, or it waits.

The rules, from docs/queues.md ("What keeps work waiting" and "Taking back") unless another source is named:

- Work starts at once where room and quota are there for all the pods that it lacks.
- Work that is never evicted has at most the nominal amount of its queue, and no victim changes that.
- Otherwise victims are sought. A set does if the job may start without it, it is just, and no part of it
  would do.
- What a queue is owed is taken back from those who borrowed it before work of its own queue ends (Kueue's
  order of candidates: other queues before the own one); where the queue would borrow itself, work of its own
  queue goes first, then that of others. Where none of these would do, one pod may go for one in spite of how
  it came to its place (docs/queues.md, "No circles of evictions").
- Of sets of one kind the lowest highest priority of a queue decides; then those with the fewest whole gangs
  go first; then the lowest highest priority of a pod, the fewest pods, the least right of their queues, the
  sum of priorities, the work lost. For a gang pods and work lost count together instead of the pods alone: a
  pod as much as one GPU hour of lost work, which counts by whole quarters of an hour for each pod. With
  ``victimOrder: WorkLostFirst`` of its queue the right of queues decides nothing.
"""

import enum
import math
from collections.abc import Iterator
from fractions import Fraction
from typing import NamedTuple

from gpufleet.model.queue import VictimOrder
from tests.engine.reference.candidates import Unit, choices, is_swap, pods_in, swaps
from tests.engine.reference.charges import protected_use_of, start_charge, use_of
from tests.engine.reference.justice import is_just, is_owed
from tests.engine.reference.picture import Job, Picture
from tests.engine.reference.quota import QuotaTree
from tests.engine.reference.room import fits

Right = tuple[tuple[int, bool, Fraction], ...]
"""Priority and share of each queue from a side down; the least gives first."""


class Kind(enum.IntEnum):
    """Of which work a set of victims is, in the order in which they are tried."""

    OWED = 0
    OWN = 1
    OTHERS = 2
    BOTH = 3
    SWAP = 4


class Cause(enum.StrEnum):
    """Why a job waits, the first that holds."""

    PROTECTED_QUOTA = "it is never evicted, so it may not borrow"
    QUOTA = "quota"
    NODES = "nodes"


class Cost(NamedTuple):
    """What a set costs; the smallest is chosen."""

    kind: Kind
    queue_priority: float
    whole_gangs: int
    priority: int
    pods: int
    right: Right
    sum_of_priorities: int
    lost: int


def shortage(picture: Picture, tree: QuotaTree, job: Job, without: frozenset[str]) -> Cause | None:
    """What a job lacks to start once some pods are gone; None if nothing."""
    asked = start_charge(picture, job)
    if not job.preemptible:
        left = tree.left_to_protected(job.queue, protected_use_of(picture))
        if left is not None and asked > left:
            return Cause.PROTECTED_QUOTA
    if asked > tree.available(job.queue, use_of(picture, without)):
        return Cause.QUOTA
    return None if fits(picture, job, picture.missing(job), without) else Cause.NODES


def starts(picture: Picture, tree: QuotaTree, job: Job) -> bool:
    """True if a job may start as things are."""
    return shortage(picture, tree, job, frozenset()) is None


def sets(picture: Picture, tree: QuotaTree, job: Job) -> Iterator[list[Unit]]:
    """The sets of victims that would do, small ones first, none of which contains another one."""
    if shortage(picture, tree, job, picture.leaving) is Cause.PROTECTED_QUOTA:
        return
    found: list[frozenset[str]] = []
    for units in choices(picture, job):
        gone = frozenset(pod for unit in units for pod in unit.pods)
        if any(smaller <= gone for smaller in found):
            continue
        if shortage(picture, tree, job, gone | picture.leaving) is None and is_just(
            picture, tree, job, units
        ):
            found.append(gone)
            yield units
    if found:
        return
    for units in swaps(picture, job):
        gone = frozenset(units[0].pods)
        if shortage(picture, tree, job, gone | picture.leaving) is None and is_just(
            picture, tree, job, units
        ):
            yield units


def kind_of(picture: Picture, tree: QuotaTree, job: Job, units: list[Unit]) -> Kind:
    """Of which work a set is."""
    if is_swap(picture, job, units):
        return Kind.SWAP
    own = [unit.job.queue == job.queue for unit in units]
    if all(own):
        return Kind.OWN
    if any(own):
        return Kind.BOTH
    after = use_of(picture, [*picture.leaving, *(pod for unit in units for pod in unit.pods)])
    after[job.queue] += start_charge(picture, job)
    sides = [tree.sides(job.queue, unit.job.queue) for unit in units]
    owed = all(pair is not None and is_owed(tree, pair[0], after) for pair in sides)
    return Kind.OWED if owed else Kind.OTHERS


def cost_of(picture: Picture, tree: QuotaTree, job: Job, units: list[Unit]) -> Cost:
    """What a set costs."""
    pods = [(unit.job, pod) for unit in units for pod in unit.pods]
    return Cost(
        kind_of(picture, tree, job, units),
        max(queue_priority_of(tree, job, unit) for unit in units),
        sum(unit.is_whole for unit in units),
        max(one.priority for one, _ in pods),
        sum(pods_and_lost(picture, unit) for unit in units) if job.is_gang else pods_in(units),
        max(right_of(picture, tree, job, unit) for unit in units),
        sum(one.priority for one, _ in pods),
        sum(lost_gpu_us(picture, unit) for unit in units),
    )


def pods_and_lost(picture: Picture, unit: Unit) -> int:
    """What pods and the work lost with them count for a gang, in quarters of a GPU hour."""
    return 4 * len(unit.pods) + lost_gpu_us(picture, unit) // (15 * 60 * 1_000_000)


def lost_gpu_us(picture: Picture, unit: Unit) -> int:
    """The work that is lost with a unit, in microseconds of a GPU."""
    return sum(unit.job.gpus * (picture.now_us - picture.runs[pod].since_us) for pod in unit.pods)


def queue_priority_of(tree: QuotaTree, job: Job, unit: Unit) -> float:
    """The priority of the side on which a victim's queue is; of own work none counts."""
    sides = sides_of(tree, job, unit)
    return -math.inf if sides is None else tree.queues[sides[1]].priority


def sides_of(tree: QuotaTree, job: Job, unit: Unit) -> tuple[str, str] | None:
    """The sides on which a job and a victim of another queue are; None for its own queue."""
    return None if unit.job.queue == job.queue else tree.sides(job.queue, unit.job.queue)


def right_of(picture: Picture, tree: QuotaTree, job: Job, unit: Unit) -> Right:
    """What the queue of a victim has a right to, from its side downwards; the least right gives first.

    Where the queue of the job has work lost decide first, no queue has less right than another.
    """
    sides = sides_of(tree, job, unit)
    order = picture.queues[job.queue].preemption.victim_order
    if sides is None or order is VictimOrder.WORK_LOST_FIRST:
        return ()
    use, path = use_of(picture, picture.leaving), tree.paths[unit.job.queue]
    below = path[: path.index(sides[1]) + 1]
    shares = [(tree.queues[one].priority, tree.share(one, use)) for one in reversed(below)]
    return tuple((priority, not endless, -part) for priority, (endless, part) in shares)


def ways(picture: Picture, tree: QuotaTree, job: Job) -> list[tuple[Cost, list[Unit]]]:
    """Every set that would do, the one that is chosen first."""
    found = [(cost_of(picture, tree, job, units), units) for units in sets(picture, tree, job)]
    return sorted(found, key=lambda one: one[0])


def best(picture: Picture, tree: QuotaTree, job: Job) -> tuple[Cost, list[Unit]] | None:
    """The set that is chosen, and what it costs; None if no set does."""
    return next(iter(ways(picture, tree, job)), None)
