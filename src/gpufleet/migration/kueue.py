"""Kueue: ClusterQueues, Cohorts, LocalQueues and ResourceFlavors, of v1alpha1 to v1beta2.

Its quota is ours, amount by amount: a ClusterQueue becomes a leaf, a Cohort the queue above. Two things
differ. Kueue keeps a quota for each flavor of a resource; here a flavor counts where it is a model of GPU,
and other flavors of a resource are added up. And a LocalQueue is a name in a namespace, which stays a name
of the queue.
"""

from collections.abc import Iterable
from typing import Any

from gpufleet.kube.codec.quota_amounts import read_model
from gpufleet.kube.meanings.node_labels import CARD_LABELS, card_name
from gpufleet.migration.admitted_namespaces import GIVE_NAMESPACES, Namespaces, read_selector
from gpufleet.migration.field_notes import FieldNotes
from gpufleet.migration.kueue_provisioning import CHECK, CONFIG, checks_of
from gpufleet.migration.queues import GPU, Draft, QuotaDraft, parents_first, quota_resource, total
from gpufleet.migration.sources import Source
from gpufleet.model import gpu_model
from gpufleet.model.model_errors import InputError
from gpufleet.model.quantity import Quantity

GROUP = "kueue.x-k8s.io"
KINDS = ("ClusterQueue", "Cohort", "LocalQueue", "ResourceFlavor", "WorkloadPriorityClass", CHECK, CONFIG)
DEFAULT_LOCAL_QUEUE = "default"
# What each stopPolicy becomes.
STATES = {"None": "Open", "Hold": "Held", "HoldAndDrain": "Stopped"}
ORDERINGS = {"BestEffortFIFO": "BestEffort", "StrictFIFO": "Strict"}
NODES_BY_POD = "pods choose their nodes by their own nodeSelector, affinity and tolerations"
SHARES_COUNT = "shares count here whether or not Kueue's fair sharing is enabled"
SHARES_DECIDE = (
    "the priorities and shares of the queues decide too: of a queue of equal priority, work is evicted only"
    " while the own queue's share is not the larger one; Kueue ignores this field where fair sharing is"
    " enabled"
)
WITHIN_NOMINAL = (
    "for work within the nominal amount of its queue; with fair sharing Kueue lets work that borrows take by"
    " shares too, which is spec.preemption.borrowing here; without it Kueue evicts what was admitted last,"
    " whatever its queue has borrowed: spec.preemption.victimOrder WorkLostFirst comes nearest"
)
CLASSIC_ONLY = "Kueue ignores this field where fair sharing is enabled"
NO_SHARES_DECIDE = f"nothing is evicted for work that borrows; {CLASSIC_ONLY}, and lets shares decide"
LOST = {
    "flavorFungibility": "pods list the models they want in order (gpufleet.io/gpu-models): an earlier one "
    "is borrowed before a later one is tried, and a later one is tried before any pod is evicted",
    "admissionScope": "set spec.halfLife: past usage then counts between queues, not between LocalQueues",
    "concurrentAdmissionPolicy": "all models that a pod accepts are tried in one decision",
}

Amounts = dict[str, QuotaDraft]


def convert(sources: Iterable[Source], notes: FieldNotes) -> tuple[Draft, ...]:
    """The FleetQueues for these objects; the notes say what became of each field."""
    everything = list(sources)
    by_kind: dict[str, list[Source]] = {kind: [] for kind in KINDS}
    for source in everything:
        if source.group == GROUP and source.kind in by_kind:
            by_kind[source.kind].append(source)
    models = {one.name: _flavor(one, notes) for one in by_kind["ResourceFlavor"]}
    queues = {one.name: one for one in by_kind["ClusterQueue"]}
    names = _cohort_names(by_kind["Cohort"], queues)
    drafts: dict[str, Draft] = {}
    for source in by_kind["Cohort"]:
        draft = _cohort(source, names, models, notes)
        drafts[draft.name] = draft
    checks = checks_of(by_kind[CHECK], by_kind[CONFIG])
    checks.note_fields(notes)
    for source in queues.values():
        drafts[source.name] = _cluster_queue(source, names, models, notes)
        drafts[source.name].provisioning = checks.provisioning_of(source, notes)
    for cohort, name in names.items():
        # A Cohort needs no object: the name is enough.
        drafts.setdefault(name, Draft(name, f"Cohort {cohort}"))
    namespaces = Namespaces(everything)
    for source in by_kind["LocalQueue"]:
        _local_queue(source, queues, drafts, namespaces, notes)
    for source in queues.values():
        _namespaces_of_queue(source, drafts[source.name], notes)
    for source in by_kind["WorkloadPriorityClass"]:
        value = source.number("value")
        way_out = f"kubectl create priorityclass {source.name} --value={value}, and name it in the pods"
        notes.lost(source, "value", f"the priority of a pod is its PriorityClass: {way_out}")
    return parents_first(drafts.values())


def _cohort_names(cohorts: list[Source], queues: dict[str, Source]) -> dict[str, str]:
    """The queue that each Cohort becomes; a ClusterQueue of the same name keeps the name."""
    named = [one.name for one in cohorts]
    named += [_cohort_of(one)[1] for one in queues.values()]
    named += [_parent_of(one)[1] for one in cohorts]
    taken = set(queues)
    found: dict[str, str] = {}
    for name in sorted({name for name in named if name}):
        free = name
        # Cohorts and ClusterQueues have names apart from each other; FleetQueues share one space of names.
        while free in taken:
            free = f"cohort-{free}"
        taken.add(free)
        found[name] = free
    return found


def _cohort_of(source: Source) -> tuple[str, str]:
    """The field that names the cohort, and the name; v1beta1 calls it "cohort"."""
    field = "cohortName" if source.get("spec", "cohortName") is not None else "cohort"
    return f"spec.{field}", source.text("spec", field)


def _parent_of(source: Source) -> tuple[str, str]:
    field = "parentName" if source.get("spec", "parentName") is not None else "parent"
    return f"spec.{field}", source.text("spec", field)


def _flavor(source: Source, notes: FieldNotes) -> str | None:
    """The model of GPU that a flavor stands for."""
    labels = source.mapping("spec", "nodeLabels")
    model = None
    for key, value in labels.items():
        field = f"spec.nodeLabels.{key}"
        named = card_name(key, str(value)) if key in CARD_LABELS else ""
        known = gpu_model.find(named)
        if key in CARD_LABELS and model is None and (known is not None or not gpu_model.matching(named)):
            model = str(known.name) if known is not None else _own_name(source, str(value), field)
            becomes = f"spec.quotas[gpu/{model}]"
            notes.approximated(
                source,
                field,
                becomes,
                f"counted as a model of GPU; {NODES_BY_POD}, and no label is put on them",
            )
        else:
            notes.lost(source, field, NODES_BY_POD)
    for name in ("nodeTaints", "tolerations"):
        if source.get("spec", name) is not None:
            notes.lost(source, f"spec.{name}", NODES_BY_POD)
    if source.get("spec", "topologyName") is not None:
        notes.lost(source, "spec.topologyName", "levels of topology are the node labels that gangs ask for")
    notes.finish(source)
    return model


def _own_name(source: Source, text: str, field: str) -> str:
    try:
        return read_model(text, field)
    except InputError as problem:
        raise source.error(problem.problem, field, text, problem.expected) from None


def _cohort(source: Source, names: dict[str, str], models: dict[str, str | None], notes: FieldNotes) -> Draft:
    draft = Draft(names[source.name], source.title)
    if draft.name != source.name:
        reason = f"a ClusterQueue has this name too: the cohort is called {draft.name}"
        notes.approximated(source, "metadata.name", "metadata.name", reason)
    field, parent = _parent_of(source)
    if parent:
        draft.parent = names[parent]
        notes.honoured(source, field, "spec.parent")
    _quotas(source, draft, models, notes)
    _lend_own(source, draft, notes)
    _weight(source, draft, notes)
    notes.finish(source)
    return draft


def _lend_own(source: Source, draft: Draft, notes: FieldNotes) -> None:
    """Kueue lets a Cohort limit what its members lend on; here a queue limits its own alone."""
    for resource, quota in draft.quotas.items():
        limit, nominal = quota.lending_limit, quota.nominal or Quantity()
        if limit is not None and nominal < limit:
            quota.lending_limit = None
            reason = (
                "a queue above others keeps only what is its own: what they lend is lent on without a limit"
            )
            field = f"spec.resourceGroups ({resource}).lendingLimit"
            notes.approximated(source, field, f"spec.quotas[{resource}]", reason)


def _cluster_queue(
    source: Source, names: dict[str, str], models: dict[str, str | None], notes: FieldNotes
) -> Draft:
    draft = Draft(source.name, source.title)
    field, cohort = _cohort_of(source)
    if cohort:
        draft.parent = names[cohort]
        notes.honoured(source, field, "spec.parent")
    _quotas(source, draft, models, notes)
    _weight(source, draft, notes)
    ordering = source.text("spec", "queueingStrategy")
    if ordering:
        draft.ordering = _word(source, "spec.queueingStrategy", ordering, ORDERINGS)
        notes.honoured(source, "spec.queueingStrategy", "spec.ordering")
    state = source.text("spec", "stopPolicy")
    if state:
        draft.state = _word(source, "spec.stopPolicy", state, STATES)
        notes.honoured(source, "spec.stopPolicy", "spec.state")
    _preemption(source, draft, notes)
    for name, reason in LOST.items():
        if source.get("spec", name) is not None:
            notes.lost(source, f"spec.{name}", reason)
    return draft


def _namespaces_of_queue(source: Source, draft: Draft, notes: FieldNotes) -> None:
    """The namespaces of a queue. In Kueue a namespace needs both: a LocalQueue, and to be selected."""
    field = "spec.namespaceSelector"
    found = read_selector(source, ("spec", "namespaceSelector"))
    if found is not None and draft.local_queues:
        reason = "those of its LocalQueues that it selects; work of others may not use the queue"
        notes.honoured(source, field, "spec.localQueues", reason)
    elif found is not None:
        written, selector = found
        draft.namespace_selector = written if selector.requirements else None
        if selector.requirements:
            reason = "no LocalQueue is known to be selected: all that it selects may use the queue"
            notes.approximated(source, field, field, reason)
        else:
            notes.lost(
                source, field, "without a LocalQueue no namespace uses it in Kueue: name those that may"
            )
    elif draft.local_queues:
        reason = "absent selects no namespace in Kueue: here those of its LocalQueues may use the queue"
        notes.approximated(source, field, "spec.localQueues", reason)
    notes.finish(source)


def _preemption(source: Source, draft: Draft, notes: FieldNotes) -> None:
    """Kueue's defaults are Never, which are not ours: they are written out."""
    spec = source.mapping("spec", "preemption")
    within, reclaim = spec.get("withinClusterQueue"), spec.get("reclaimWithinCohort")
    draft.preemption = {"withinQueue": within or "Never", "reclaim": reclaim or "Never"}
    if within:
        notes.honoured(source, "spec.preemption.withinClusterQueue", "spec.preemption.withinQueue")
    field, becomes = "spec.preemption.reclaimWithinCohort", "spec.preemption.reclaim"
    if reclaim == "Never":
        notes.honoured(source, field, becomes)
    elif reclaim:
        notes.approximated(source, field, becomes, WITHIN_NOMINAL)
    borrow = source.mapping("spec", "preemption", "borrowWithinCohort")
    if not borrow:
        return
    field = "spec.preemption.borrowWithinCohort"
    policy = borrow.get("policy") or "Never"
    draft.preemption["borrowing"] = policy
    if policy == "Never":
        notes.approximated(source, f"{field}.policy", "spec.preemption.borrowing", NO_SHARES_DECIDE)
    else:
        notes.approximated(source, f"{field}.policy", "spec.preemption.borrowing", SHARES_DECIDE)
    threshold = source.number("spec", "preemption", "borrowWithinCohort", "maxPriorityThreshold")
    # Kueue keeps a threshold beside the policy Never, where it does nothing.
    if threshold is not None and policy != "Never":
        draft.preemption["borrowingPriorityMax"] = threshold
        becomes = "spec.preemption.borrowingPriorityMax"
        notes.approximated(source, f"{field}.maxPriorityThreshold", becomes, CLASSIC_ONLY)
    elif threshold is not None:
        notes.lost(source, f"{field}.maxPriorityThreshold", "means nothing while the policy is Never")


def _weight(source: Source, draft: Draft, notes: FieldNotes) -> None:
    weight = source.get("spec", "fairSharing", "weight")
    if weight is None:
        return
    exact = source.quantity(weight, "spec.fairSharing.weight")
    draft.weight = Quantity(exact.milli_value() * 10**6)
    field = "spec.fairSharing.weight"
    if draft.weight == exact:
        notes.approximated(source, field, "spec.weight", SHARES_COUNT)
    else:
        notes.approximated(source, field, "spec.weight", f"rounded up to thousandths; {SHARES_COUNT}")


def _quotas(source: Source, draft: Draft, models: dict[str, str | None], notes: FieldNotes) -> None:
    """Quotas by resource: added up over flavors, and for GPUs also by model."""
    amounts: dict[str, list[QuotaDraft]] = {}
    for number, group in enumerate(source.items("spec", "resourceGroups")):
        path = f"spec.resourceGroups[{number}]"
        _covered(source, path, group, notes)
        for flavor in _maps(source, group, "flavors", path):
            name = str(flavor.get("name"))
            _note_flavor(source, f"{path}.flavors[{name}].name", models.get(name), notes)
            for one in _maps(source, flavor, "resources", f"{path}.flavors[{name}]"):
                field = f"{path}.flavors[{name}].resources[{one.get('name')}]"
                resource = quota_resource(str(one.get("name")))
                if resource is None:
                    notes.lost(source, field, "no quota counts this resource")
                    continue
                quota = _amounts(source, one, field)
                amounts.setdefault(resource, []).append(quota)
                # A quota of a flavor that is a model counts twice: among all GPUs, and for that model.
                model = models.get(name) if resource == GPU else None
                if model is not None:
                    amounts.setdefault(f"gpu/{model}", []).append(quota)
                _note(source, field, one, resource, model, notes)
    for resource, quotas in amounts.items():
        draft.quotas[resource] = added(quotas)
        if len(quotas) > 1 and resource != GPU:
            reason = "its flavors are added up: what one of them has may be used of another"
            notes.approximated(
                source, f"spec.resourceGroups ({resource})", f"spec.quotas[{resource}]", reason
            )


def _note_flavor(source: Source, field: str, model: str | None, notes: FieldNotes) -> None:
    if model is not None:
        notes.honoured(source, field, f"spec.quotas[gpu/{model}]", "its GPUs have a quota of their own")
    else:
        notes.approximated(
            source, field, "spec.quotas", "only flavors that are a model of GPU are kept apart"
        )


def _covered(source: Source, path: str, group: Any, notes: FieldNotes) -> None:
    if not isinstance(group, dict):
        raise source.error("not a map", path, group, "a map")
    reason = "work that asks for other resources is not refused: what no queue names is not limited"
    notes.approximated(source, f"{path}.coveredResources", "spec.quotas", reason)


def _maps(source: Source, part: dict[str, Any], name: str, path: str) -> list[dict[str, Any]]:
    found = part.get(name) or []
    if not isinstance(found, list) or not all(isinstance(one, dict) for one in found):
        raise source.error("not a list of maps", f"{path}.{name}", found, "a list of maps")
    return found


def _amounts(source: Source, one: dict[str, Any], field: str) -> QuotaDraft:
    def amount(name: str) -> Quantity | None:
        value = one.get(name)
        return None if value is None else source.quantity(value, f"{field}.{name}")

    return QuotaDraft(amount("nominalQuota"), amount("borrowingLimit"), amount("lendingLimit"))


def _note(
    source: Source, field: str, one: dict[str, Any], resource: str, model: str | None, notes: FieldNotes
) -> None:
    becomes = f"gpu/{model}" if model is not None else resource
    notes.honoured(source, f"{field}.name", f"spec.quotas[{becomes}].resource")
    words = {"nominalQuota": "nominal", "borrowingLimit": "borrowingLimit", "lendingLimit": "lendingLimit"}
    for name, ours in words.items():
        if one.get(name) is not None:
            notes.honoured(source, f"{field}.{name}", f"spec.quotas[{becomes}].{ours}")


def added(quotas: list[QuotaDraft]) -> QuotaDraft:
    """Several quotas as one. A limit is left out where one of them has none to borrow by."""
    nominal = total(quota.nominal or Quantity() for quota in quotas)
    borrowing = [quota.borrowing_limit for quota in quotas if quota.borrowing_limit is not None]
    lending = None
    if any(quota.lending_limit is not None for quota in quotas):
        lent = (quota.nominal if quota.lending_limit is None else quota.lending_limit for quota in quotas)
        lending = total(amount or Quantity() for amount in lent)
    return QuotaDraft(nominal, total(borrowing) if len(borrowing) == len(quotas) else None, lending)


def _local_queue(
    source: Source,
    queues: dict[str, Source],
    drafts: dict[str, Draft],
    namespaces: Namespaces,
    notes: FieldNotes,
) -> None:
    target = source.text("spec", "clusterQueue")
    found = read_selector(queues[target], ("spec", "namespaceSelector")) if target in queues else None
    is_selected = True if found is None else namespaces.selected(source.namespace, found[1])
    if target not in queues:
        notes.lost(source, "spec.clusterQueue", f"there is no ClusterQueue {target} among these objects")
    elif is_selected is None:
        reason = f"whether ClusterQueue {target} selects its namespace is not known: {GIVE_NAMESPACES}"
        notes.lost(source, "spec.clusterQueue", reason)
    elif not is_selected:
        reason = f"ClusterQueue {target} does not select its namespace, so its work may not use the queue"
        notes.honoured(source, "spec.clusterQueue", "spec.localQueues", reason)
    else:
        draft = drafts[target]
        draft.local_queues.append((source.namespace, source.name))
        becomes = "spec.localQueues"
        if source.name == DEFAULT_LOCAL_QUEUE:
            # As in Kueue, work of the namespace that names no queue.
            draft.namespaces.append(source.namespace)
            becomes = "spec.localQueues, spec.namespaces"
        notes.honoured(source, "spec.clusterQueue", becomes)
    if source.get("spec", "stopPolicy") not in (None, "None"):
        notes.lost(source, "spec.stopPolicy", "a queue is held as a whole, not for one namespace")
    elif source.get("spec", "stopPolicy") is not None:
        notes.honoured(source, "spec.stopPolicy", "spec.state")
    if source.get("spec", "fairSharing") is not None:
        notes.lost(source, "spec.fairSharing", "work inside a queue goes by priority, then by age")
    notes.finish(source)


def _word(source: Source, field: str, text: str, meanings: dict[str, str]) -> str:
    found = meanings.get(text)
    if found is None:
        raise source.error("unknown", field, text, ", ".join(meanings))
    return found
