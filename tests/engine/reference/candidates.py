"""Which pods a job may have evicted, as far as each is concerned by itself.

The rules, from docs/queues.md ("Taking back" and "Amounts") unless another source is named:

- a pod of a class that is never evicted stays, and a gang with one such pod never goes as a whole;
- a pod that has not run for ``preemptAfter`` stays for work of its own queue, one that has not run for
  ``reclaimAfter`` for work of others; these are times of the queue of the pod that runs; a member of a gang
  above the minimum may go without the gang after ``elasticAfter`` of that queue instead, where it is set;
- a pod that was placed in this very step stays;
- of gangs the members above the minimum go first, then only the whole gang;
- within a queue no work goes for work that it precedes, whatever the policy (designs/0004-queues.md);
- ``LowerPriority`` reaches work of lower priority, ``LowerOrNewerEqualPriority`` also that of equal priority
  that came later, ``Any`` all; the priority and age of a gang's member are those of the gang;
- work that came to its place by evicting others is not evicted for the queues that lost by it; a gang of
  which one pod came so is such work; all the same one pod may go so for one that asks for the same and has no
  lower priority, if both are of no gang (docs/queues.md, "No circles of evictions").
"""

from itertools import combinations, product
from typing import NamedTuple

from gpufleet.model.queue import VictimScope
from tests.engine.reference.picture import Job, Picture


class Unit(NamedTuple):
    """Pods of one job that are evicted together; ``is_whole`` for all members of a gang."""

    job: Job
    pods: tuple[str, ...]
    is_whole: bool = False


def is_reached(scope: VictimScope, asking: Job, job: Job) -> bool:
    """True if a policy lets one job evict another, by priority and age alone."""
    if scope is VictimScope.NEVER:
        return False
    if scope is VictimScope.ANY or job.priority < asking.priority:
        return True
    newer = job.priority == asking.priority and job.created_us > asking.created_us
    return scope is VictimScope.LOWER_OR_NEWER_EQUAL_PRIORITY and newer


def is_reached_within(scope: VictimScope, asking: Job, job: Job) -> bool:
    """The same for work of one queue, of which none goes for work that comes after it."""
    same = VictimScope.LOWER_OR_NEWER_EQUAL_PRIORITY
    return is_reached(same if scope is VictimScope.ANY else scope, asking, job)


def is_reached_while_borrowing(picture: Picture, asking: Job, job: Job) -> bool:
    """The same for work of another queue, where the queue of the work that asks would borrow."""
    policy = picture.queues[asking.queue].preemption
    most = policy.borrowing_priority_max
    return is_reached(policy.borrowing, asking, job) and (most is None or job.priority <= most)


def is_protected_by_time(picture: Picture, asking: Job, pod: str, *, as_growth: bool = False) -> bool:
    """True for a pod that has not run for the minimum run time of its queue.

    ``as_growth``: it would go without its gang, which keeps its minimum.
    """
    job = picture.job_of(pod)
    policy = picture.queues[job.queue].preemption
    same = asking.queue == job.queue
    least_us = policy.preempt_after_us if same else policy.reclaim_after_us
    if as_growth and policy.elastic_after_us is not None:
        least_us = policy.elastic_after_us
    return picture.now_us - picture.runs[pod].since_us < least_us


def may_go(
    picture: Picture, asking: Job, pod: str, *, as_growth: bool = False, is_swap: bool = False
) -> bool:
    """True for a pod that may be evicted for a job, if it is just to evict it.

    ``is_swap``: it alone goes, for one pod.
    """
    job = picture.job_of(pod)
    if pod in picture.leaving or pod not in picture.runs or pod in picture.placed_now:
        return False
    if not job.preemptible or is_protected_by_time(picture, asking, pod, as_growth=as_growth):
        return False
    policy = picture.queues[asking.queue].preemption
    if job.queue == asking.queue:
        return is_reached_within(policy.within_queue, asking, job)
    if any(is_immune(picture, asking, one) for one in picture.running(job)):
        if not (is_swap and is_alike(asking, job)):
            return False
    while_owed = is_reached(policy.reclaim, asking, job)
    return while_owed or is_reached_while_borrowing(picture, asking, job)


def is_immune(picture: Picture, asking: Job, pod: str) -> bool:
    """True for a pod that came to its place at the cost of the queue of a job."""
    return asking.queue in picture.immune_to.get(pod, frozenset())


def is_alike(asking: Job, job: Job) -> bool:
    """True if one pod of no gang asks for the same as another one, which has no higher priority."""
    asks_for_the_same = (asking.gpus, asking.model) == (job.gpus, job.model)
    return asks_for_the_same and not (asking.is_gang or job.is_gang) and job.priority <= asking.priority


def is_swap(picture: Picture, asking: Job, units: list[Unit]) -> bool:
    """True for one pod that goes although it came to its place at the cost of the queue of the job."""
    pods = [pod for unit in units for pod in unit.pods]
    return len(pods) == 1 and is_immune(picture, asking, pods[0]) and is_alike(asking, units[0].job)


def swaps(picture: Picture, asking: Job) -> list[list[Unit]]:
    """Each pod that may go so, as a set of its own."""
    found: list[list[Unit]] = []
    for job in picture.jobs.values():
        for pod in picture.running(job):
            units = [Unit(job, (pod,))]
            if is_swap(picture, asking, units) and may_go(picture, asking, pod, is_swap=True):
                found.append(units)
    return found


def choices(picture: Picture, asking: Job) -> list[list[Unit]]:
    """For each running job what of it may go: nothing, some of its members above the minimum, or all."""
    found: list[list[list[Unit]]] = []
    for job in picture.jobs.values():
        running = picture.running(job)
        going = [pod for pod in running if may_go(picture, asking, pod)]
        growth = [pod for pod in running if job.is_gang and may_go(picture, asking, pod, as_growth=True)]
        if not (going or growth) or job.name == asking.name:
            continue
        if not job.is_gang:
            found.append([[], [Unit(job, (going[0],))]])
            continue
        surplus = max(0, len(running) - job.minimum)
        ways: list[list[Unit]] = []
        for count in range(min(surplus, len(growth)) + 1):
            ways += [[Unit(job, (pod,)) for pod in some] for some in combinations(growth, count)]
        if len(going) == len(running):
            ways.append([Unit(job, tuple(running), is_whole=True)])
        found.append(ways)
    every = [[unit for way in ways for unit in way] for ways in product(*found)]
    return sorted((one for one in every if one), key=pods_in)


def pods_in(units: list[Unit]) -> int:
    """How many pods these are."""
    return sum(len(unit.pods) for unit in units)
