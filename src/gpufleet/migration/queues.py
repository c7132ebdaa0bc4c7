"""FleetQueues in the making, and how they are written: only what was said, in the order of the definition."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import msgspec

from gpufleet.kube.codec.fleet_queues import read_fleet_queue
from gpufleet.kube.objects.fleet_queues import FleetQueue
from gpufleet.kube.yaml_documents import yaml_text
from gpufleet.model.model_errors import InputError
from gpufleet.model.quantity import ZERO, Notation, Quantity
from gpufleet.model.resource_names import (
    CPU,
    EPHEMERAL_STORAGE,
    GPU_RESOURCES,
    MEMORY,
    is_extended,
    is_huge_pages,
)

GPU = "gpu"
FROM = "gpufleet.io/imported-from"
"""The annotation that says of which object a queue was made."""


@dataclass
class QuotaDraft:
    """What is said of one resource."""

    nominal: Quantity | None = None
    borrowing_limit: Quantity | None = None
    lending_limit: Quantity | None = None
    hard_limit: Quantity | None = None


@dataclass
class Draft:
    """A FleetQueue in the making; None and empty parts are left out."""

    name: str
    made_of: str = ""
    parent: str | None = None
    priority: int | None = None
    weight: Quantity | None = None
    ordering: str | None = None
    state: str | None = None
    quotas: dict[str, QuotaDraft] = field(default_factory=dict)
    preemption: dict[str, Any] = field(default_factory=dict)
    provisioning: dict[str, Any] | None = None
    namespaces: list[str] = field(default_factory=list)
    namespace_selector: dict[str, Any] | None = None
    local_queues: list[tuple[str, str]] = field(default_factory=list)
    unlimited: set[str] = field(default_factory=set)
    """Resources of which it is owed all there is; its nominal amount then takes nothing from other queues."""

    def quota(self, resource: str) -> QuotaDraft:
        """The quota of a resource, a new one where none is there."""
        return self.quotas.setdefault(resource, QuotaDraft())


def quota_resource(name: str) -> str | None:
    """The resource of quotas that another system's resource is; None where none is."""
    if name in GPU_RESOURCES:
        return GPU
    counted = name in (CPU, MEMORY, EPHEMERAL_STORAGE) or is_extended(name) or is_huge_pages(name)
    return name if counted else None


def total(amounts: Iterable[Quantity]) -> Quantity:
    """The sum of amounts."""
    return sum(amounts, ZERO)


def manifest(draft: Draft) -> dict[str, Any]:
    """The FleetQueue as it is written. Raises InputError where the API server would refuse it."""
    spec = {
        "parent": draft.parent,
        "priority": draft.priority,
        "weight": None if draft.weight is None else written(draft.weight),
        "ordering": draft.ordering,
        "state": draft.state,
        "quotas": [_quota(resource, quota) for resource, quota in draft.quotas.items()],
        "preemption": draft.preemption,
        "provisioning": draft.provisioning,
        "namespaces": sorted(set(draft.namespaces)),
        "namespaceSelector": draft.namespace_selector,
        "localQueues": [
            {"namespace": namespace, "name": name} for namespace, name in sorted(set(draft.local_queues))
        ],
    }
    metadata: dict[str, Any] = {"name": draft.name}
    if draft.made_of:
        metadata["annotations"] = {FROM: draft.made_of}
    found = {
        "apiVersion": "gpufleet.io/v1alpha1",
        "kind": "FleetQueue",
        "metadata": metadata,
        "spec": {name: part for name, part in spec.items() if part not in (None, [], {})},
    }
    try:
        read_fleet_queue(msgspec.convert(found, FleetQueue))
    except msgspec.ValidationError as problem:
        raise InputError(str(problem), where=f"FleetQueue {draft.name}") from None
    return found


def _quota(resource: str, quota: QuotaDraft) -> dict[str, Any]:
    amounts = {
        "nominal": quota.nominal,
        "borrowingLimit": quota.borrowing_limit,
        "lendingLimit": quota.lending_limit,
        "hardLimit": quota.hard_limit,
    }
    return {
        "resource": resource,
        **{name: written(amount) for name, amount in amounts.items() if amount is not None},
    }


def written(amount: Quantity) -> int | str:
    """An amount as people would write it: a whole number without quotes, "80Gi", "7500m"."""
    if amount.notation is not Notation.BINARY and amount.is_whole() and amount.value() < 10**6:
        return amount.value()
    plain = amount if amount.notation is Notation.BINARY else Quantity(amount.nano)
    return str(plain)


def as_yaml(manifests: Iterable[dict[str, Any]]) -> str:
    """All manifests as one text that kubectl applies."""
    return "---\n".join(yaml_text(one) for one in manifests)


def parents_first(drafts: Iterable[Draft]) -> tuple[Draft, ...]:
    """Queues by their depth, then by name; members of a circle come last."""
    by_name = {draft.name: draft for draft in drafts}

    def depth(draft: Draft) -> int:
        steps, seen = 0, {draft.name}
        while draft.parent in by_name:
            draft = by_name[draft.parent]
            if draft.name in seen:
                return len(by_name)
            seen.add(draft.name)
            steps += 1
        return steps

    return tuple(sorted(by_name.values(), key=lambda draft: (depth(draft), draft.name)))
