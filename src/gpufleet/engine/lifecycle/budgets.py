"""Disruption budgets, kept exactly: how many pods of each may still be told to end.

A budget says how many evictions it allows as of its last report. Ours since then, and those before that
it cannot know of yet, are taken off until it reports again, or until they are seen to end after it has
reported without naming them. A pod that two budgets select cannot be
evicted at all: the eviction API refuses that.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field

from gpufleet.model.disruption_budget import DisruptionBudget
from gpufleet.model.identifiers import PodUid
from gpufleet.model.pod import Pod

BudgetKey = tuple[str, str]


@dataclass(slots=True)
class _Account:
    """``spent``: the pods that we told to end, and whether the budget reported since without naming them."""

    budget: DisruptionBudget
    spent: dict[PodUid, bool] = field(default_factory=dict)

    @property
    def left(self) -> int:
        return max(0, self.budget.allowed - len(self.spent))


class Budgets:
    """Every budget by namespace and name."""

    def __init__(self) -> None:
        self.accounts: dict[str, dict[str, _Account]] = {}

    @property
    def any_is_known(self) -> bool:
        """True if some budget may keep a pod."""
        return any(self.accounts.values())

    def set(self, budget: DisruptionBudget, evicted: Iterable[Pod]) -> None:
        """A budget appeared or reports anew; ``evicted`` are ours that have not been seen to end."""
        account = _Account(budget)
        for pod in evicted:
            # A budget that names the pod has taken its end into account already.
            if _selects(budget, pod) and pod.uid not in budget.disrupted:
                account.spent[pod.uid] = True
        self.accounts.setdefault(budget.namespace, {})[budget.name] = account

    def remove(self, namespace: str, name: str) -> None:
        """A budget is gone."""
        self.accounts.get(namespace, {}).pop(name, None)

    def spend(self, pod: Pod) -> None:
        """A pod is told to end."""
        for account in self._of(pod):
            account.spent[pod.uid] = False

    def seen_to_end(self, pod: Pod) -> None:
        """A pod that was told to end does: a report that came since has taken that into account."""
        if not self.accounts:
            return
        for account in self._of(pod):
            if account.spent.get(pod.uid):
                del account.spent[pod.uid]

    def refund(self, pod: Pod) -> None:
        """A pod was not told to end after all."""
        for account in self._of(pod):
            account.spent.pop(pod.uid, None)

    def forbids(self, pod: Pod) -> bool:
        """True if the pod may not be evicted, whatever others are."""
        if not self.accounts:
            return False
        accounts = self._of(pod)
        # The API server evicts no pod that several budgets select.
        return len(accounts) > 1 or any(account.left == 0 for account in accounts)

    def allow(self, pods: Iterable[Pod]) -> bool:
        """True if all of these may be evicted at once."""
        if not self.accounts:
            return True
        counts: dict[BudgetKey, int] = {}
        for pod in pods:
            accounts = self._of(pod)
            if len(accounts) > 1:
                return False
            for account in accounts:
                # Counted over all of these pods: a budget that has room for each alone may not have it for
                # all.
                key = (account.budget.namespace, account.budget.name)
                counts[key] = counts.get(key, 0) + 1
                if counts[key] > account.left:
                    return False
        return True

    def _of(self, pod: Pod) -> list[_Account]:
        accounts = self.accounts.get(pod.namespace, {}).values()
        return [account for account in accounts if _selects(account.budget, pod)]


def _selects(budget: DisruptionBudget, pod: Pod) -> bool:
    if budget.selector is None or budget.namespace != pod.namespace:
        return False
    return budget.selector.accepts(dict(pod.labels))
