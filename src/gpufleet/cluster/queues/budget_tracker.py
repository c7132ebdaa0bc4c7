"""Disruption budgets as the engine is told of them.

A budget that cannot be understood keeps its last good reading and is reported in the log; no pod loses its
protection, because the eviction API asks the budgets itself.
"""

import logging

from gpufleet.engine.event import DisruptionBudgetRemoved, DisruptionBudgetSet, Event
from gpufleet.kube import resources
from gpufleet.kube.codec.disruption_budgets import read_disruption_budget
from gpufleet.kube.codec.lookup import Lookup
from gpufleet.kube.kube_errors import ObjectError
from gpufleet.kube.objects.disruption import PodDisruptionBudget
from gpufleet.kube.objects.pod import Pod
from gpufleet.model.identifiers import PodUid
from gpufleet.model.model_errors import printable

LOG = logging.getLogger(__name__)


class BudgetTracker:
    """Which budgets there are, by namespace."""

    def __init__(self, cluster: Lookup) -> None:
        self.cluster = cluster
        self._names: dict[str, dict[str, None]] = {}

    def guards(self, namespace: str) -> bool:
        """True if some budget may keep pods of this namespace."""
        return bool(self._names.get(namespace))

    def update(self, namespace: str, name: str, unreadable: str = "") -> list[Event]:
        """A budget changed: what that means for the engine. ``unreadable``: why it cannot be decoded."""
        if unreadable:
            # The mirror has said so in the log.
            return []
        found: PodDisruptionBudget | None = self.cluster.find(
            resources.POD_DISRUPTION_BUDGETS, name, namespace
        )
        if found is None:
            return self._removed(namespace, name)
        try:
            budget = read_disruption_budget(found, lambda pod: self._uid_of(namespace, pod))
        except ObjectError as problem:
            extra = {"object": printable(f"{namespace}/{name}"), "problem": str(problem)}
            LOG.error("a disruption budget cannot be read", extra=extra)  # noqa: TRY400
            return []
        self._names.setdefault(namespace, {})[name] = None
        return [DisruptionBudgetSet(budget)]

    def _removed(self, namespace: str, name: str) -> list[Event]:
        names = self._names.get(namespace, {})
        if name not in names:
            return []
        del names[name]
        if not names:
            del self._names[namespace]
        return [DisruptionBudgetRemoved(namespace, name)]

    def _uid_of(self, namespace: str, pod: str) -> PodUid | None:
        found: Pod | None = self.cluster.find(resources.PODS, pod, namespace)
        return None if found is None else PodUid(found.metadata.uid)
