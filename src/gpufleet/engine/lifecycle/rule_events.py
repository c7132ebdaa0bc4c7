"""What is said of queues, prices, budgets, namespaces and of what the policy goes by, taken into the state.

Pods and nodes concern more than the state, and so ``intake`` takes those in itself.
"""

from collections.abc import Callable
from typing import Any

from gpufleet.engine import event
from gpufleet.engine.lifecycle.changes import Change
from gpufleet.engine.lifecycle.engine_state import EngineState
from gpufleet.engine.queueing.resources import PRICE_MILLI_MAX
from gpufleet.engine.state.bounds import ENTRY_COUNT_MAX, check_range, check_shape


def rule_handlers(state: EngineState) -> dict[type[event.Event], Callable[[Any], None]]:
    """What takes in each kind of event about rules."""
    rules = _Rules(state)
    return {
        event.QueueSet: rules.queue_set,
        event.QueueRemoved: rules.queue_removed,
        event.PricesSet: rules.prices_set,
        event.DisruptionBudgetSet: rules.budget_set,
        event.DisruptionBudgetRemoved: rules.budget_removed,
        event.NamespaceSet: rules.namespace_set,
        event.NamespaceRemoved: lambda happened: rules.namespace_set(event.NamespaceSet(happened.name)),
        event.TargetWorkloadSet: rules.target_workload_set,
        event.ValuationLearned: rules.valuation_learned,
    }


class _Rules:
    """The rules by which the state decides."""

    def __init__(self, state: EngineState) -> None:
        self.state = state

    def queue_set(self, happened: event.QueueSet) -> None:
        self.state.queues.set(happened.queue, self.state.waiting.last_sequence)
        self.state.waiting.queues[happened.queue.name] = happened.queue
        self.state.learned.update(happened.queue)
        self.state.eviction_immunity.begin_anew()
        self.state.changes.note(Change.QUEUE_DESCRIBED)

    def queue_removed(self, happened: event.QueueRemoved) -> None:
        self.state.queues.remove(happened.name)
        self.state.waiting.queues.pop(happened.name, None)
        self.state.learned.forget(happened.name)
        self.state.eviction_immunity.begin_anew()
        # What it kept from starting may start now.
        self.state.changes.note(Change.QUEUE_REMOVED)

    def prices_set(self, happened: event.PricesSet) -> None:
        for model, price_milli in happened.prices:
            check_range(price_milli, 0, PRICE_MILLI_MAX, f"prices: {model}")
        self.state.fleet.set_prices(dict(happened.prices))
        self.state.queues.tree.is_stale = True

    def budget_set(self, happened: event.DisruptionBudgetSet) -> None:
        state = self.state
        evicted = (state.pods.pod_at(state.pods.row_by_uid[uid]) for uid in state.departures.evicted)
        state.budgets.set(happened.budget, evicted)
        state.changes.note(Change.BUDGET)

    def budget_removed(self, happened: event.DisruptionBudgetRemoved) -> None:
        self.state.budgets.remove(happened.namespace, happened.name)
        self.state.changes.note(Change.BUDGET)

    def namespace_set(self, happened: event.NamespaceSet) -> None:
        self.state.neighbours.set_namespace(happened.name, happened.labels)
        self.state.queues.namespace_access.set_namespace(happened.name, happened.labels)
        self.state.changes.note(Change.NAMESPACE)

    def target_workload_set(self, happened: event.TargetWorkloadSet) -> None:
        for number, (shape, count) in enumerate(happened.entries):
            check_shape(shape)
            check_range(count, 1, ENTRY_COUNT_MAX, f"entries[{number}].count")
        self.state.policy.set_target(happened.entries)
        self.state.shapes.rank_anew()

    def valuation_learned(self, happened: event.ValuationLearned) -> None:
        self.state.has_valuation = True
        if self.state.policy.take_valuation(happened.valuation):
            self.state.shapes.rank_anew()
