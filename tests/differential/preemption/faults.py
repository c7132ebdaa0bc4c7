"""What is wrong with an outcome: a pod that must never be evicted, or a difference without a name."""

from collections.abc import Iterator

from tests.differential.preemption.classes import NEVER
from tests.differential.preemption.differences import breaks_budgets, excuse, must_stay
from tests.differential.preemption.outcome import Contest, Outcome, priority_of


def fault(contest: Contest) -> str | None:
    """In a few words; None if nothing is wrong."""
    found = next(_never_evicted(contest), None)
    if found is not None:
        return found
    elsewhere = contest.nominated_elsewhere
    if elsewhere is not None:
        return f"both evict the same pods for {elsewhere}, and keep its place on other nodes"
    return (
        None if contest.agreed or excuse(contest) is not None else "they differ, and no difference says why"
    )


def _never_evicted(contest: Contest) -> Iterator[str]:
    """Pods of ours that must stay whatever kube-scheduler does, and of theirs as far as it says the same."""
    if not _are_lower(contest, contest.theirs):
        yield "kube-scheduler evicts a pod for one that is not above it: the test reads something wrong"
    if not _are_lower(contest, contest.ours):
        yield "gpufleet evicts a pod that is above all that may have pods evicted"
    if any(must_stay(contest.pod(path)) for path in contest.ours.victims):
        yield "gpufleet evicts a pod that is never evicted"
    if breaks_budgets(contest, contest.ours):
        yield "gpufleet goes beyond a disruption budget"


def _are_lower(contest: Contest, outcome: Outcome) -> bool:
    """True if each victim is below the most important pod that waits and may have pods evicted."""
    asking = [one for one in contest.case.asked if one["spec"]["priorityClassName"] != NEVER]
    highest = max(map(priority_of, asking), default=-(10**9))
    return all(priority_of(contest.pod(path)) < highest for path in outcome.victims)
