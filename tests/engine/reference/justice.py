"""Which victims a job may take from other queues: judged over the whole tree, with them gone and it placed.

The rules, each with its source:

- Two queues are compared by their *sides*, the children of the lowest queue above both
  (designs/0004-queues.md, "Who may be taken from another queue").
- Work is taken only from what holds more than its nominal amount: the queue of the victim, and each queue
  above it up to its side, is beyond its nominal amounts when the victim goes (docs/queues.md, "Taking
  back"; Kueue's hierarchical reclaim leaves out every queue and cohort within its nominal quota).
- A gang is one unit: it goes whole where its queue is beyond its nominal amount before it goes, though more
  is then lost than was borrowed (Kueue takes whole workloads, too). Where the side of the work that asks ends
  beyond its nominal amounts, these queues keep theirs without the gang (docs/queues.md, "Taking back").
- Where the side of the work that asks ends within its nominal amounts, ``reclaim`` says what is reached.
- Where it ends beyond them, ``borrowing`` says so, and the side of the work that asks must come before that
  of the victim: a side without weight comes last, then the higher priority comes first, then the side whose
  share with the work is not larger than the one that the other keeps.
- Nor need that be so where each of its pods would be its turn (docs/queues.md, "Taking back" and "Who is
  next"): where its share before the last of them starts is smaller than the one that the other keeps; of
  equal ones that side comes first which lacks some of its nominal amount, or else that of the larger weight.
- Work of its own queue needs no such comparison.
- A pod that came to its place at the cost of the queue that asks goes only where the share of the side of the
  work that asks is then smaller than the one that the other side had, and where its queue, and each above it
  up to its side, keeps its nominal amounts (docs/queues.md, "No circles of evictions").
"""

from collections import Counter

from tests.engine.reference.candidates import Unit, is_reached, is_reached_while_borrowing, is_swap
from tests.engine.reference.charges import start_charge, use_of
from tests.engine.reference.picture import MILLI, Job, Picture
from tests.engine.reference.quota import QuotaTree, Share, Use


def is_just(picture: Picture, tree: QuotaTree, asking: Job, units: list[Unit]) -> bool:
    """True if these may be evicted for a job."""
    return injustice(picture, tree, asking, units) is None


def injustice(picture: Picture, tree: QuotaTree, asking: Job, units: list[Unit]) -> str | None:
    """Why these may not be evicted for a job; None if they may."""
    others = [unit for unit in units if unit.job.queue != asking.queue]
    own = [unit for unit in units if unit.job.queue == asking.queue]
    before = use_of(picture, [*picture.leaving, *(pod for unit in own for pod in unit.pods)])
    after = use_of(picture, [*picture.leaving, *(pod for unit in units for pod in unit.pods)])
    after[asking.queue] += start_charge(picture, asking)
    if others and not some_order_takes_what_is_borrowed(tree, asking, before, after, others):
        return "a victim's queue, or one above it, is within its nominal amounts"
    for unit in others:
        why = unreached(picture, tree, asking, after, unit)
        if why is not None:
            return why
    if is_swap(picture, asking, units) and not brings_closer(picture, tree, asking, after, units[0]):
        return "it came to its place at the cost of this queue, and shares come no closer"
    return None


def brings_closer(picture: Picture, tree: QuotaTree, asking: Job, after: Use, unit: Unit) -> bool:
    """True if the shares of two sides are closer together once one pod of the other side has gone."""
    sides = tree.sides(asking.queue, unit.job.queue)
    if sides is None:
        return False
    mine, theirs = sides
    is_closer = tree.share(mine, after) < tree.share(theirs, use_of(picture, picture.leaving))
    return is_closer and keeps_its_own(tree, asking, after, unit.job.queue)


def unreached(picture: Picture, tree: QuotaTree, asking: Job, after: Use, unit: Unit) -> str | None:
    """Why a policy or the order of queues does not let this unit go; None if it may."""
    sides = tree.sides(asking.queue, unit.job.queue)
    if sides is None:
        return "no queue is above both"
    mine, theirs = sides
    policy = picture.queues[asking.queue].preemption
    if is_owed(tree, mine, after):
        if not is_reached(policy.reclaim, asking, unit.job):
            return f"reclaim does not reach {unit.job.name}"
        return None
    if not is_reached_while_borrowing(picture, asking, unit.job):
        return f"borrowing does not reach {unit.job.name}"
    if not comes_before(tree, mine, theirs, after, asking):
        return f"{mine} does not come before {theirs}"
    return None


def is_owed(tree: QuotaTree, side: str, after: Use) -> bool:
    """True for a side that ends within its nominal amounts."""
    return not tree.borrows(side, after)


def comes_before(tree: QuotaTree, mine: str, theirs: str, after: Use, asking: Job) -> bool:
    """True if what is left over goes to one side, that of the work that asks, rather than to the other."""
    (left, right) = (
        (not tree.queues[one].weight_milli, -tree.queues[one].priority) for one in (mine, theirs)
    )
    if left != right:
        return left < right
    if tree.share(mine, after) <= tree.share(theirs, after):
        return True
    before_last_pod = Counter(after) - Counter({asking.queue: asking.gpus * MILLI})
    return place_in_turn(tree, mine, before_last_pod) < place_in_turn(tree, theirs, after)


def place_in_turn(tree: QuotaTree, side: str, use: Use) -> tuple[Share, bool, int]:
    """By what sides of one priority are compared; the smallest comes first."""
    has_its_own = tree.counted(side, use) >= tree.subtree[side]
    return tree.share(side, use), has_its_own, -tree.queues[side].weight_milli


def some_order_takes_what_is_borrowed(
    tree: QuotaTree, asking: Job, use: Use, after: Use, units: list[Unit]
) -> bool:
    """True if these can go one after the other, each while its queue and those above it have borrowed.

    Work that would borrow leaves them their nominal amounts when a whole gang has gone.
    """

    def leaves_theirs(unit: Unit) -> bool:
        sides = tree.sides(asking.queue, unit.job.queue)
        return unit.is_whole and sides is not None and not is_owed(tree, sides[0], after)

    counts = Counter((unit.job.queue, gpus_of(unit), leaves_theirs(unit)) for unit in units)
    return _can_go(tree, asking, Counter(use), counts, sorted(counts))


def _can_go(
    tree: QuotaTree,
    asking: Job,
    use: Counter[str],
    left: Counter[tuple[str, int, bool]],
    kinds: list[tuple[str, int, bool]],
) -> bool:
    if not left.total():
        return True
    for kind in kinds:
        queue, gpus, leaves_theirs = kind
        if not left[kind] or not is_borrowed(tree, asking, use, queue):
            continue
        without = use - Counter({queue: gpus * MILLI})
        if leaves_theirs and not keeps_its_own(tree, asking, without, queue):
            continue
        fewer = Counter(left)
        fewer[kind] -= 1
        if _can_go(tree, asking, without, fewer, kinds):
            return True
    return False


def is_borrowed(tree: QuotaTree, asking: Job, use: Use, queue: str) -> bool:
    """True if a queue, and each above it up to its side, has more than its nominal amounts."""
    below = up_to_side(tree, asking, queue)
    return bool(below) and all(tree.borrows(one, use) for one in below)


def keeps_its_own(tree: QuotaTree, asking: Job, use: Use, queue: str) -> bool:
    """True if a queue, and each above it up to its side, has its nominal amounts or more."""
    return all(tree.counted(one, use) >= tree.subtree[one] for one in up_to_side(tree, asking, queue))


def up_to_side(tree: QuotaTree, asking: Job, queue: str) -> tuple[str, ...]:
    """A queue, and each above it up to its side; none where no queue is above both."""
    sides = tree.sides(asking.queue, queue)
    path = tree.paths[queue]
    return () if sides is None else path[: path.index(sides[1]) + 1]


def gpus_of(unit: Unit) -> int:
    """The GPUs of a unit."""
    return len(unit.pods) * unit.job.gpus
