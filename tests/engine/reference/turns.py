"""Who is next: a comparison of queues from the root down, and of work within a queue.

The rules are those of docs/queues.md, "Who is next". From the root down, the child is served

1. whose next workload stays within the nominal amounts of the child and all below it; then
2. that has the higher priority; then
3. that has the smaller share, of equal ones, where it would borrow, the one that has not all of its nominal
   amount, or else the larger weight; then
4. whose next workload is more important or older.

A queue of weight 0 comes after its siblings as soon as it would borrow. Within a queue higher priority goes
first, then the older work. In a strict queue nothing overtakes. Work that is leaving does not count: what it
has is on its way to others.
"""

from typing import NamedTuple

from tests.engine.reference.charges import start_charge, use_of
from tests.engine.reference.picture import Job, Picture
from tests.engine.reference.quota import QuotaTree, Share, Use


class Right(NamedTuple):
    """By what siblings are compared; the smallest is served first."""

    is_beyond_nominal: bool
    has_no_weight: bool
    minus_priority: int
    share: Share
    has_its_own: bool
    minus_weight: int
    rank: tuple[int, int, int]


def rank(job: Job) -> tuple[int, int, int]:
    """By what work of a queue is compared; the smallest is served first."""
    return -job.priority, job.created_us, job.order


def in_turn(picture: Picture, tree: QuotaTree, jobs: list[Job]) -> list[Job]:
    """Waiting work in the order in which it is tried, if none of it can start.

    Work behind the first of a strict queue is not tried.
    """
    use = use_of(picture, picture.leaving)
    lines = {leaf: sorted((job for job in jobs if job.queue == leaf), key=rank) for leaf in tree.leaves}
    found: list[Job] = []
    root = next(iter(tree.queues))
    while (job := next_job(picture, tree, use, lines, root)) is not None:
        found.append(job)
        strict = tree.queues[job.queue].strict
        lines[job.queue] = [] if strict else lines[job.queue][1:]
    return found


def next_job(
    picture: Picture, tree: QuotaTree, use: Use, lines: dict[str, list[Job]], name: str
) -> Job | None:
    """The work below a queue that is served first."""
    if not tree.children(name):
        return next(iter(lines[name]), None)
    heads = {child: next_job(picture, tree, use, lines, child) for child in tree.children(name)}
    rights = {
        child: right_of(picture, tree, use, child, head) for child, head in heads.items() if head is not None
    }
    return heads[min(rights, key=rights.__getitem__)] if rights else None


def right_of(picture: Picture, tree: QuotaTree, use: Use, name: str, head: Job) -> Right:
    """The right of a queue to be served, by the work that is its next."""
    counted, own = tree.counted(name, use), tree.subtree[name]
    beyond = counted + start_charge(picture, head) > own
    has_its_own = beyond and counted >= own
    queue = tree.queues[name]
    no_weight = beyond and not queue.weight_milli
    weight = queue.weight_milli if beyond else 0
    share = tree.share(name, use)
    return Right(beyond, no_weight, -queue.priority, share, has_its_own, -weight, rank(head))
