"""Volcano: Queues of scheduling.volcano.sh/v1beta1.

``deserved`` is the nominal quota, of which ``guarantee`` is not lent, and ``capability`` is the hard limit.
A queue that says its place in the annotation of hierarchical DRF gets the queues above it made from there.
What is above the deserved amounts is borrowed from the fleet (``fleet_root``), or from the Queue ``root``
if that is given.
"""

from collections.abc import Iterable

from gpufleet.kube.keys import VOLCANO_MEMORY, VOLCANO_QUEUE
from gpufleet.migration import fleet_root
from gpufleet.migration.admitted_namespaces import Namespaces, tell_of_closed
from gpufleet.migration.field_notes import FieldNotes
from gpufleet.migration.queues import Draft, parents_first, quota_resource
from gpufleet.migration.sources import Source
from gpufleet.model.label_syntax import is_subdomain
from gpufleet.model.quantity import ZERO, Quantity, parse_quantity

GROUP = "scheduling.volcano.sh"
KINDS = ("Queue",)
ROOT = "root"
HIERARCHY = "volcano.sh/hierarchy"
WEIGHTS = "volcano.sh/hierarchy-weights"
FOR_EVER = "36500d"
# What each state of a Queue becomes.
STATES = {"Open": "Open", "Closing": "Draining", "Closed": "Held"}
SHARE_PREFIX = "volcano.sh/vgpu-"

Amounts = dict[str, Quantity]


def convert(sources: Iterable[Source], notes: FieldNotes) -> tuple[Draft, ...]:
    """The FleetQueues for these objects; the notes say what became of each field."""
    everything = list(sources)
    queues = [one for one in everything if one.group == GROUP and one.kind in KINDS]
    drafts: dict[str, Draft] = {}
    for source in queues:
        drafts[source.name] = _queue(source, notes)
    for source in queues:
        _hierarchy(source, drafts, notes)
    Namespaces(everything).map_by("annotations", (VOLCANO_QUEUE,), drafts, notes)
    tell_of_closed(drafts.values(), notes, {one.name: one for one in queues})
    if not drafts:
        return ()
    root = drafts.get(ROOT)
    if root is None:
        found = fleet_root.place_under_a_root(list(drafts.values()), fleet_root.capacity(everything))
        fleet_root.divide(found, notes)
        return parents_first(found)
    # Volcano's root is the parent of every queue that names none.
    for draft in drafts.values():
        if draft.parent is None and draft is not root:
            draft.parent = ROOT
    fleet_root.divide(drafts.values(), notes)
    return parents_first(drafts.values())


def _queue(source: Source, notes: FieldNotes) -> Draft:
    draft = Draft(source.name, source.title)
    parent = source.text("spec", "parent")
    if parent:
        draft.parent = None if parent == source.name else parent
        notes.honoured(source, "spec.parent", "spec.parent")
    weight = source.number("spec", "weight")
    if weight is not None:
        draft.weight = source.quantity(weight, "spec.weight")
        notes.honoured(source, "spec.weight", "spec.weight")
    priority = source.number("spec", "priority")
    if priority is not None:
        draft.priority = priority
        notes.honoured(source, "spec.priority", "spec.priority")
    _quotas(source, draft, notes)
    _reclaimable(source, draft, notes)
    state = source.text("status", "state")
    if state in STATES and state != "Open":
        draft.state = STATES[state]
        notes.honoured(source, "status.state", "spec.state")
    if source.get("spec", "affinity") is not None:
        notes.lost(source, "spec.affinity", "pods choose their nodes by their own affinity")
    if source.get("spec", "extendClusters") is not None:
        notes.lost(source, "spec.extendClusters", "a queue is of one cluster")
    if source.get("spec", "type") is not None:
        notes.lost(source, "spec.type", "there is one kind of queue")
    return draft


def _quotas(source: Source, draft: Draft, notes: FieldNotes) -> None:
    guarantee = _amounts(source, ("spec", "guarantee", "resource"), notes)
    deserved = _amounts(source, ("spec", "deserved"), notes)
    for resource, amount in guarantee.items():
        nominal = deserved.get(resource, amount)
        quota = draft.quota(resource)
        quota.nominal = nominal
        if nominal < amount:
            expected = f"at least the guarantee, {amount}"
            raise source.error(
                "less than is guaranteed", f"spec.deserved[{resource}]", str(nominal), expected
            )
        quota.lending_limit = Quantity(nominal.nano - amount.nano, nominal.notation)
    for resource, amount in deserved.items():
        draft.quota(resource).nominal = amount
    for resource, amount in _amounts(source, ("spec", "capability"), notes).items():
        draft.quota(resource).hard_limit = amount


BECOMES = {"guarantee": "nominal, lendingLimit", "deserved": "nominal", "capability": "hardLimit"}


def _amounts(source: Source, path: tuple[str, ...], notes: FieldNotes) -> Amounts:
    """Amounts by resource of quotas."""
    found: Amounts = {}
    ours = BECOMES[path[1]]
    for name, value in source.mapping(*path).items():
        field = f"{'.'.join(path)}.{name}"
        amount = source.quantity(value, field)
        if name == VOLCANO_MEMORY:
            # Written as a count of MiB.
            found["gpu-memory"] = parse_quantity(f"{amount.value()}Mi")
            reason = "counted as MiB; a factor in the device plugin's settings is not known here"
            notes.approximated(source, field, f"spec.quotas[gpu-memory].{ours}", reason)
            continue
        resource = None if name.startswith(SHARE_PREFIX) else quota_resource(name)
        if resource is None:
            reason = (
                "shares of GPUs are counted in gpu and gpu-memory" if SHARE_PREFIX in name else "not counted"
            )
            notes.lost(source, field, reason)
            continue
        found[resource] = found.get(resource, ZERO) + amount
        notes.honoured(source, field, f"spec.quotas[{resource}].{ours}")
    return found


def _reclaimable(source: Source, draft: Draft, notes: FieldNotes) -> None:
    reclaimable = source.get("spec", "reclaimable")
    if reclaimable is None:
        return
    if reclaimable is False:
        draft.preemption["reclaimAfter"] = FOR_EVER
        notes.honoured(
            source, "spec.reclaimable", "spec.preemption.reclaimAfter", "its work is left for 100 years"
        )
    else:
        notes.honoured(source, "spec.reclaimable", "spec.preemption")


def _hierarchy(source: Source, drafts: dict[str, Draft], notes: FieldNotes) -> None:
    """The queues above, from "root/eng/prod" and "1/2/8": eng with weight 2, and this queue with weight 8."""
    annotations = source.mapping("metadata", "annotations")
    path, weights = annotations.get(HIERARCHY), annotations.get(WEIGHTS)
    draft = drafts[source.name]
    if path is None or draft.parent is not None:
        notes.finish(source)
        return
    names, numbers = str(path).split("/"), str(weights or "").split("/")
    field = f"metadata.annotations[{HIERARCHY}]"
    if len(names) != len(numbers) or not all(map(is_subdomain, names)):
        raise source.error(
            "not a path with its weights", field, f"{path}, {weights}", "root/eng/prod and 1/2/8"
        )
    above: str | None = None
    for depth in range(1, len(names) - 1):
        name = "-".join(names[1 : depth + 1])
        # A Queue may have the name that a step of the path makes.
        if name in drafts and drafts[name].made_of != HIERARCHY:
            name = f"inner-{name}"
        inner = drafts.setdefault(name, Draft(name, HIERARCHY, parent=above))
        inner.weight = source.quantity(numbers[depth], f"metadata.annotations[{WEIGHTS}]")
        above = name
    draft.parent = above
    draft.weight = source.quantity(numbers[-1], f"metadata.annotations[{WEIGHTS}]")
    notes.honoured(source, field, "spec.parent")
    notes.honoured(source, f"metadata.annotations[{WEIGHTS}]", "spec.weight", "it goes before spec.weight")
    notes.finish(source)
