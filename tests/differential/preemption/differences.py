"""The differences from kube-scheduler in who makes room, by the names they have in the documentation.

Each is as narrow as it can be told from a contest. Where two pods wait, the first one decides for which both
do not do the same: what follows from that for the second one is excused along with it.
"""

from collections.abc import Callable, Mapping
from typing import NamedTuple

from tests.differential.builder import ASKS
from tests.differential.cases import Manifest, namespace_of, path_of
from tests.differential.preemption.classes import NEVER, PROTECTED
from tests.differential.preemption.outcome import Contest, Outcome


class Rank(NamedTuple):
    """What both schedulers compare first: the smaller one is better."""

    highest: int
    pods: int
    sum: int


def rank(contest: Contest, outcome: Outcome) -> Rank:
    """The rank of the victims that ended for the decisive pod."""
    cost = contest.cost(outcome)
    return Rank(cost.highest, cost.pods, cost.sum)


def breaks_budgets(contest: Contest, outcome: Outcome) -> bool:
    """True if more pods of a budget went than it allows."""
    victims = [contest.pod(path) for path in outcome.victims]
    budgets = [one for one in contest.case.objects if one["kind"] == "PodDisruptionBudget"]
    return any(
        sum(is_kept_by(one, victim) for victim in victims) > one["status"]["disruptionsAllowed"]
        for one in budgets
    )


def is_kept_by(budget: Manifest, pod: Manifest) -> bool:
    """True if a budget selects a pod."""
    wanted = budget["spec"]["selector"]["matchLabels"].items()
    return namespace_of(budget) == namespace_of(pod) and wanted <= pod["metadata"]["labels"].items()


def must_stay(pod: Manifest) -> bool:
    """True for a pod of another scheduler without a GPU, and for one of a class that is never evicted."""
    spec = pod["spec"]
    requests = spec["containers"][0]["resources"]["requests"]
    holds_gpus = requests.get("nvidia.com/gpu", "0") != "0"
    return spec["priorityClassName"] == PROTECTED or (spec["schedulerName"] != ASKS and not holds_gpus)


def starts_in_both(contest: Contest) -> bool:
    """True if the decisive pod gets a place in both outcomes, by evictions."""
    pod = contest.decisive
    return all(one.victims_for(pod) and one.places[pod] for one in (contest.ours, contest.theirs))


def budgets_hold(contest: Contest) -> bool:
    """kube-scheduler goes beyond a budget where it finds no other way."""
    return breaks_budgets(contest, contest.theirs) and not breaks_budgets(contest, contest.ours)


def budgets_count_victims(contest: Contest) -> bool:
    """kube-scheduler spends a budget on the most important of all candidates, and spares the others of it."""
    candidates = [one for one in contest.case.objects if one["kind"] == "Pod"]
    scarce = any(
        0 < one["status"]["disruptionsAllowed"] < sum(is_kept_by(one, pod) for pod in candidates)
        for one in contest.case.objects
        if one["kind"] == "PodDisruptionBudget"
    )
    return scarce and starts_in_both(contest) and rank(contest, contest.ours) < rank(contest, contest.theirs)


def pods_that_stay(contest: Contest) -> bool:
    """kube-scheduler evicts services, and pods of a class that gpufleet never evicts."""
    theirs = any(must_stay(contest.pod(path)) for path in contest.theirs.victims)
    return theirs and not any(must_stay(contest.pod(path)) for path in contest.ours.victims)


def kept_places(contest: Contest) -> bool:
    """A place is kept for the pod whose victims leave it; a pod above it that evicts none does not get it.

    With kube-scheduler it does, and the other one must have further pods evicted.
    """
    patient = [one for one in contest.case.asked if one["spec"]["priorityClassName"] == NEVER]
    paths = [path_of(one) for one in patient]
    return bool(contest.ours.victims) and any(
        contest.theirs.places[path] and not contest.ours.places[path] for path in paths
    )


def ending_pods_first(contest: Contest) -> bool:
    """Pods on their way out make room, and what more must go costs no more than with kube-scheduler."""
    leaving = any("deletionTimestamp" in one["metadata"] for one in contest.case.objects)
    pod = contest.decisive
    starts = bool(contest.ours.places[pod]) >= bool(contest.theirs.places[pod])
    return leaving and starts and rank(contest, contest.ours) <= rank(contest, contest.theirs)


def victims_on_other_nodes(contest: Contest) -> bool:
    """A pod is kept off a node by one on another node, and kube-scheduler evicts on the node alone."""
    node_of = {path_of(one): one["spec"]["nodeName"] for one in contest.case.objects if one["kind"] == "Pod"}
    places = set(contest.ours.places.values())
    elsewhere = any(node_of[path] not in places for path in contest.ours.victims)
    return elsewhere and not contest.theirs.victims


def fewest_pods(contest: Contest) -> bool:
    """kube-scheduler spares the most important pods one by one, though fewer pods would do without that."""
    ours, theirs = rank(contest, contest.ours), rank(contest, contest.theirs)
    return starts_in_both(contest) and ours.highest == theirs.highest and ours < theirs


def work_lost(contest: Contest) -> bool:
    """The victims are equals but for when they started."""
    return starts_in_both(contest) and rank(contest, contest.ours) == rank(contest, contest.theirs)


DIFFERENCES: Mapping[str, Callable[[Contest], bool]] = {
    "budgets-hold": budgets_hold,
    "pods-that-stay": pods_that_stay,
    "kept-places": kept_places,
    "ending-pods-first": ending_pods_first,
    "victims-on-other-nodes": victims_on_other_nodes,
    "budgets-count-victims": budgets_count_victims,
    "fewest-pods": fewest_pods,
    "work-lost": work_lost,
}


def excuse(contest: Contest) -> str | None:
    """The name of the difference that explains why the outcomes differ; None for none."""
    return next((name for name, explains in DIFFERENCES.items() if explains(contest)), None)
