"""What disruption budgets still allow, beside an account of all that happened since their reports."""

from random import Random
from typing import NamedTuple

import pytest

from gpufleet.engine.lifecycle.budgets import Budgets
from gpufleet.model.disruption_budget import DisruptionBudget
from gpufleet.model.identifiers import PodUid
from gpufleet.model.labels import LabelSelector, Operator, Requirement
from gpufleet.model.pod import Pod
from gpufleet.model.shape import Shape
from tests.engine.effort import seeds

APPS = ("a", "b")
SPACES = ("default", "other")
PODS = [
    Pod(PodUid(f"{space}-{app}{number}"), Shape(), namespace=space, labels=(("app", app),))
    for space in SPACES
    for app in APPS
    for number in range(3)
]


class Report(NamedTuple):
    """A budget as it reported last, when that was, and the pods that were told to end by then."""

    budget: DisruptionBudget
    number: int
    leaving: frozenset[PodUid]


class Account:
    """Everything that happened, in order: (what, pod)."""

    def __init__(self) -> None:
        self.happened: list[tuple[str, PodUid]] = []
        self.reports: dict[tuple[str, str], Report] = {}

    def of(self, pod: Pod) -> list[Report]:
        """The budgets that select a pod."""
        found = [one for one in self.reports.values() if one.budget.namespace == pod.namespace]
        return [one for one in found if one.budget.selector and one.budget.selector.accepts(dict(pod.labels))]

    def left(self, report: Report) -> int:
        """What a budget allows, less the pods that it does not count yet."""
        mine = [pod for pod in PODS if report in self.of(pod)]
        return max(0, report.budget.allowed - sum(self.is_uncounted(report, pod.uid) for pod in mine))

    def is_uncounted(self, report: Report, uid: PodUid) -> bool:
        """Whether a pod is told to end of which the budget cannot know yet.

        One that left before the report was seen to end since, or the budget has named it. One that was told
        after it counts until the next report.
        """
        told_before = uid in report.leaving and uid not in report.budget.disrupted
        told_since = False
        for what, whom in self.happened[report.number :]:
            if whom != uid:
                continue
            told_since = what == "told" or (told_since and what == "ended")
            told_before = told_before and what == "told"
        return told_before or told_since

    def forbids(self, pod: Pod) -> bool:
        """Whether a pod may not be told to end."""
        reports = self.of(pod)
        return len(reports) > 1 or any(self.left(one) == 0 for one in reports)

    def allows(self, pods: list[Pod]) -> bool:
        """Whether all of these may be told to end together."""
        if any(len(self.of(pod)) > 1 for pod in pods):
            return False
        asked = [one for pod in pods for one in self.of(pod)]
        return all(asked.count(one) <= self.left(one) for one in asked)


def a_budget(chance: Random, leaving: list[Pod]) -> DisruptionBudget:
    """A budget of one app, of both, or of none, that names some of the pods that leave."""
    apps = chance.choice((("a",), ("a",), ("b",), APPS))
    selector = LabelSelector((Requirement("app", Operator.IN, apps),)) if chance.random() < 0.9 else None
    named = tuple(pod.uid for pod in leaving if chance.random() < 0.5)
    name, space = chance.choice(("x", "y")), chance.choice(SPACES)
    return DisruptionBudget(name, space, selector, chance.randint(0, 3), named)


def happen(chance: Random, budgets: Budgets, account: Account, leaving: list[Pod]) -> None:
    """One thing that may happen to budgets, or to a pod that was told to end."""
    match chance.choice(("report", "told", "told", "ended", "refused", "gone")):
        case "report":
            budget = a_budget(chance, leaving)
            budgets.set(budget, leaving)
            uids = frozenset(pod.uid for pod in leaving)
            key = (budget.namespace, budget.name)
            account.reports[key] = Report(budget, len(account.happened), uids)
        case "told":
            pod = chance.choice([one for one in PODS if one not in leaving] or PODS)
            leaving.append(pod)
            budgets.spend(pod)
            account.happened.append(("told", pod.uid))
        case "ended" if leaving:
            pod = leaving.pop(chance.randrange(len(leaving)))
            budgets.seen_to_end(pod)
            account.happened.append(("ended", pod.uid))
        case "refused" if leaving:
            pod = leaving.pop(chance.randrange(len(leaving)))
            budgets.refund(pod)
            account.happened.append(("refused", pod.uid))
        case "gone" if chance.random() < 0.3:
            key = (chance.choice(SPACES), chance.choice(("x", "y")))
            budgets.remove(*key)
            account.reports.pop(key, None)
        case _:
            pass


@pytest.mark.parametrize("seed", seeds(60))
def test_budgets_allow_what_their_reports_and_all_that_happened_since_allow(seed: int) -> None:
    chance, budgets, account = Random(seed), Budgets(), Account()
    leaving: list[Pod] = []
    for _ in range(60):
        happen(chance, budgets, account, leaving)
        assert budgets.any_is_known == bool(account.reports)
        assert [budgets.forbids(pod) for pod in PODS] == [account.forbids(pod) for pod in PODS]
        together = chance.sample(PODS, chance.randint(1, 5))
        assert budgets.allow(together) == account.allows(together)
