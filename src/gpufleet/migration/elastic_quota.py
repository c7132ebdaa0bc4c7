"""scheduler-plugins: ElasticQuotas of scheduling.x-k8s.io/v1alpha1.

A namespace is a queue: ``min`` is its nominal quota, ``max`` its hard limit. All of them stand below one root
that has nothing of its own, so that together they use no more than the sum of all ``min``, as in
scheduler-plugins.
"""

from collections.abc import Iterable

from gpufleet.migration.field_notes import FieldNotes
from gpufleet.migration.queues import Draft, parents_first, quota_resource
from gpufleet.migration.sources import Source
from gpufleet.model.quantity import ZERO, Quantity

GROUP = "scheduling.x-k8s.io"
OLD_GROUP = "scheduling.sigs.k8s.io"
KINDS = ("ElasticQuota",)
ROOT = "elastic-quotas"


def convert(sources: Iterable[Source], notes: FieldNotes) -> tuple[Draft, ...]:
    """The FleetQueues for these objects; the notes say what became of each field."""
    drafts: dict[str, Draft] = {}
    for source in sources:
        if source.group in (GROUP, OLD_GROUP) and source.kind in KINDS:
            draft = _quota(source, notes)
            if draft.name in drafts:
                first = drafts[draft.name].made_of
                raise source.error(f"a second one in its namespace, beside {first}", "metadata.namespace")
            drafts[draft.name] = draft
    if not drafts:
        return ()
    # A namespace may have the name of the root.
    root = f"{ROOT}-root" if ROOT in drafts else ROOT
    for draft in drafts.values():
        draft.parent = root
    return parents_first([Draft(root, "all ElasticQuotas"), *drafts.values()])


def _quota(source: Source, notes: FieldNotes) -> Draft:
    if not source.namespace:
        raise source.error("no namespace", "metadata.namespace", expected="the namespace that it is for")
    draft = Draft(source.namespace, source.title, namespaces=[source.namespace])
    for resource, amount in _amounts(source, "max", "hardLimit", notes).items():
        draft.quota(resource).hard_limit = amount
    for resource, amount in _amounts(source, "min", "nominal", notes).items():
        draft.quota(resource).nominal = amount
    notes.finish(source)
    return draft


def _amounts(source: Source, part: str, ours: str, notes: FieldNotes) -> dict[str, Quantity]:
    found: dict[str, Quantity] = {}
    for name, value in source.mapping("spec", part).items():
        field = f"spec.{part}.{name}"
        amount = source.quantity(value, field)
        resource = quota_resource(name)
        if resource is None:
            notes.lost(source, field, "no quota counts this resource")
            continue
        # Several of their resources may be one of ours: GPUs of two vendors are both GPUs.
        found[resource] = found.get(resource, ZERO) + amount
        notes.honoured(source, field, f"spec.quotas[{resource}].{ours}")
    return found
