"""scheduler-plugins: ElasticQuotas of scheduling.x-k8s.io/v1alpha1.

A namespace is a queue: ``min`` is its nominal quota, ``max`` its hard limit. All of them stand below one root
that has nothing of its own, so that together they use no more than the sum of all ``min``, as in
scheduler-plugins.
"""

from collections.abc import Iterable

from gpufleet.migration.ledger import Ledger
from gpufleet.migration.queues import Draft, parents_first, quota_resource
from gpufleet.migration.sources import Source
from gpufleet.model.quantity import ZERO, Quantity

GROUP = "scheduling.x-k8s.io"
OLD_GROUP = "scheduling.sigs.k8s.io"
KINDS = ("ElasticQuota",)
ROOT = "elastic-quotas"


def convert(sources: Iterable[Source], ledger: Ledger) -> tuple[Draft, ...]:
    """The FleetQueues for these objects; the ledger says what became of each field."""
    drafts: dict[str, Draft] = {}
    for source in sources:
        if source.group in (GROUP, OLD_GROUP) and source.kind in KINDS:
            draft = _quota(source, ledger)
            if draft.name in drafts:
                first = drafts[draft.name].made_of
                raise source.error(f"a second one in its namespace, beside {first}", "metadata.namespace")
            drafts[draft.name] = draft
    if not drafts:
        return ()
    root = f"{ROOT}-root" if ROOT in drafts else ROOT
    for draft in drafts.values():
        draft.parent = root
    return parents_first([Draft(root, "all ElasticQuotas"), *drafts.values()])


def _quota(source: Source, ledger: Ledger) -> Draft:
    if not source.namespace:
        raise source.error("no namespace", "metadata.namespace", expected="the namespace that it is for")
    draft = Draft(source.namespace, source.title, namespaces=[source.namespace])
    for resource, amount in _amounts(source, "max", "hardLimit", ledger).items():
        draft.quota(resource).hard_limit = amount
    for resource, amount in _amounts(source, "min", "nominal", ledger).items():
        draft.quota(resource).nominal = amount
    ledger.finish(source)
    return draft


def _amounts(source: Source, part: str, ours: str, ledger: Ledger) -> dict[str, Quantity]:
    found: dict[str, Quantity] = {}
    for name, value in source.mapping("spec", part).items():
        field = f"spec.{part}.{name}"
        amount = source.quantity(value, field)
        resource = quota_resource(name)
        if resource is None:
            ledger.lost(source, field, "no quota counts this resource")
            continue
        found[resource] = found.get(resource, ZERO) + amount
        ledger.honoured(source, field, f"spec.quotas[{resource}].{ours}")
    return found
