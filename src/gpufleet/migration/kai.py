"""KAI: Queues of scheduling.run.ai/v2.

Quota is the nominal quota, limit the hard limit, the over-quota weight of GPUs the weight, and what is over
quota is borrowed from the fleet (``fleet_root``). GPUs are counted in GPUs, CPU in thousandths, memory in
units of 10^6 bytes; -1 is unlimited.
"""

from collections.abc import Iterable
from typing import Any

from gpufleet.kube.keys import KAI_QUEUE
from gpufleet.migration import fleet_root
from gpufleet.migration.admitted_namespaces import Namespaces, tell_of_closed
from gpufleet.migration.field_notes import FieldNotes
from gpufleet.migration.fleet_root import Capacity
from gpufleet.migration.go_durations import as_ours
from gpufleet.migration.queues import Draft, parents_first
from gpufleet.migration.sources import Source
from gpufleet.model.quantity import NANO_PER_MILLI, NANO_PER_UNIT, ZERO, Quantity, parse_quantity
from gpufleet.model.resource_names import CPU, MEMORY

GROUP = "scheduling.run.ai"
KINDS = ("Queue",)
NAMESPACE_LABELS = (KAI_QUEUE, "runai/queue")
"""Labels by which the namespace of a project names its queue."""
UNLIMITED = -1
"""How KAI writes that there is no limit."""

UNITS_NANO = {"gpu": NANO_PER_UNIT, CPU: NANO_PER_MILLI, MEMORY: 10**6 * NANO_PER_UNIT}
DEFAULT_PRIORITY = 100
"""KAI's for a queue that names none."""

WHOLE_GANG = (
    "with elasticAfter 0s the minimum of elastic work alone, as in KAI; "
    "KAI counts from the start of the group, and takes the times of queues above too"
)
NEVER_MORE = (
    "0 or nothing: KAI's documents let nothing above the quota, its scheduler nothing at all; here the quota"
    " is the limit"
)
MIG = "a MIG device counts in mig-slices here, in KAI as its slices in gpu"


def convert(sources: Iterable[Source], notes: FieldNotes) -> tuple[Draft, ...]:
    """The FleetQueues for these objects; the notes say what became of each field."""
    everything = list(sources)
    queues = [one for one in everything if one.group == GROUP and one.kind in KINDS]
    if not queues:
        return ()
    fleet = fleet_root.capacity(everything)
    drafts = [_queue(one, fleet, notes) for one in queues]
    Namespaces(everything).map_by("labels", NAMESPACE_LABELS, {one.name: one for one in drafts}, notes)
    tell_of_closed(drafts, notes, {one.name: one for one in queues})
    tree = fleet_root.place_under_a_root(drafts, fleet)
    fleet_root.divide(tree, notes)
    return parents_first(tree)


def _queue(source: Source, fleet: Capacity, notes: FieldNotes) -> Draft:
    draft = Draft(source.name, source.title)
    parent = source.text("spec", "parentQueue")
    if parent:
        draft.parent = parent
        notes.honoured(source, "spec.parentQueue", "spec.parent")
    priority = source.number("spec", "priority")
    # Written out, because ours for a queue that names none is another.
    draft.priority = DEFAULT_PRIORITY if priority is None else priority
    if priority is not None:
        notes.honoured(source, "spec.priority", "spec.priority")
    if not source.mapping("spec", "resources"):
        raise source.error(
            "no resources", "spec.resources", expected="resources, without which KAI takes no queue"
        )
    for resource in UNITS_NANO:
        _resource(source, draft, resource, fleet, notes)
    _weight(source, draft, notes)
    for theirs, ours in (("preemptMinRuntime", "preemptAfter"), ("reclaimMinRuntime", "reclaimAfter")):
        length = source.text("spec", theirs)
        if length:
            draft.preemption[ours] = as_ours(source, length, f"spec.{theirs}")
            draft.preemption["elasticAfter"] = "0s"
            notes.approximated(source, f"spec.{theirs}", f"spec.preemption.{ours}", WHOLE_GANG)
    if source.get("spec", "displayName") is not None:
        notes.lost(source, "spec.displayName", "a queue is shown by its name")
    notes.finish(source)
    return draft


def _resource(source: Source, draft: Draft, resource: str, fleet: Capacity, notes: FieldNotes) -> None:
    """Quota and limit; a resource that is not named has neither, as in KAI."""
    field = f"spec.resources.{resource}"
    asked = source.mapping("spec", "resources", resource)
    quota, limit = (_amount(source, asked, resource, name) for name in ("quota", "limit"))
    if not asked:
        # KAI reads this as a quota and a limit of 0.
        notes.approximated(source, field, f"spec.quotas[{resource}].hardLimit", f"absent: {NEVER_MORE}")
    ours = draft.quota(resource)
    ours.nominal = fleet_root.whole(resource, fleet) if quota is None else quota
    if quota is None:
        # It is not there twice: others borrow from the fleet itself.
        ours.lending_limit = ZERO
        draft.unlimited.add(resource)
    becomes = f"spec.quotas[{resource}]"
    if "quota" in asked:
        said = f"unlimited is the whole fleet, {ours.nominal}, not lent" if quota is None else ""
        note = notes.approximated if said or resource == "gpu" else notes.honoured
        note(source, f"{field}.quota", f"{becomes}.nominal", said or (MIG if resource == "gpu" else ""))
    if limit is None:
        notes.honoured(source, f"{field}.limit", f"{becomes}.hardLimit", "unlimited: none is written")
    elif limit == ZERO:
        ours.hard_limit = ZERO if quota is None else quota
        if asked:
            notes.approximated(source, f"{field}.limit", f"{becomes}.hardLimit", NEVER_MORE)
    else:
        ours.hard_limit = limit
        notes.honoured(source, f"{field}.limit", f"{becomes}.hardLimit")


def _amount(source: Source, asked: dict[str, Any], resource: str, name: str) -> Quantity | None:
    """An amount, None for an unlimited one."""
    value = asked.get(name, 0)
    if value == UNLIMITED:
        return None
    exact = source.quantity(value, f"spec.resources.{resource}.{name}")
    return Quantity(exact.nano * UNITS_NANO[resource] // NANO_PER_UNIT)


def _weight(source: Source, draft: Draft, notes: FieldNotes) -> None:
    """One weight for a queue: that of GPUs."""
    weights: dict[str, Quantity] = {}
    for resource in UNITS_NANO:
        value = source.mapping("spec", "resources", resource).get("overQuotaWeight")
        if value is not None:
            weights[resource] = source.quantity(value, f"spec.resources.{resource}.overQuotaWeight")
    chosen = next(iter(weights), None)
    draft.weight = weights[chosen] if chosen is not None else parse_quantity("0")
    for resource, weight in weights.items():
        field = f"spec.resources.{resource}.overQuotaWeight"
        if weight == draft.weight:
            notes.honoured(source, field, "spec.weight")
        else:
            notes.approximated(
                source, field, "spec.weight", f"a queue has one weight here, that of its {chosen}"
            )
    if chosen is None:
        reason = "absent is 0, as in KAI: it gets of what is left over only what no other queue wants"
        notes.approximated(source, "spec.resources.gpu.overQuotaWeight", "spec.weight", reason)
