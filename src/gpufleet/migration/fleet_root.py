"""The queue above all others, where another system shares the whole fleet without saying so.

In KAI and Volcano what is left over is whatever the nodes have. Here a queue can only lend what a queue owns,
so the fleet itself becomes the root of the tree, with its capacity as nominal quota: that of the nodes, where
Nodes are among the objects, else more than any fleet has.
"""

from collections.abc import Iterable

from gpufleet.migration.field_notes import FieldNotes, FieldVerdict
from gpufleet.migration.queues import Draft, QuotaDraft, quota_resource
from gpufleet.migration.sources import Source
from gpufleet.model.quantity import ZERO, Quantity, parse_quantity
from gpufleet.model.resource_names import CPU, MEMORY

NAME = "fleet"
MORE_THAN_ANY_FLEET = {"gpu": "1M", CPU: "1G", MEMORY: "32Pi"}
"""The capacity that the fleet is taken to have where no Nodes are among the objects."""

Capacity = dict[str, Quantity]


def capacity(sources: Iterable[Source]) -> Capacity:
    """What the nodes have in all, by resource of quotas; nothing where there are no Nodes."""
    found: Capacity = {}
    for node in sources:
        if (node.group, node.kind) != ("", "Node"):
            continue
        for name, amount in node.mapping("status", "allocatable").items():
            resource = quota_resource(name)
            if resource is not None:
                more = node.quantity(amount, f"status.allocatable[{name}]")
                found[resource] = found.get(resource, Quantity()) + more
    return found


def whole(resource: str, fleet: Capacity) -> Quantity:
    """All that there is of a resource: what the nodes have, or more than any fleet has."""
    return fleet.get(resource) or parse_quantity(MORE_THAN_ANY_FLEET.get(resource, "1G"))


def divide(drafts: Iterable[Draft], notes: FieldNotes) -> None:
    """Leave each queue what it is owed beyond those below it.

    In KAI and Volcano the quotas below are parts of the one above; here they come on top of it.
    """
    by_parent: dict[str, list[Draft]] = {}
    for draft in drafts:
        if draft.parent is not None:
            by_parent.setdefault(draft.parent, []).append(draft)
    # Before any quota changes: the quota of a queue is a part of what is below its parent.
    below = {
        (draft.name, resource): _owed_below(by_parent.get(draft.name, []), resource)
        for draft in drafts
        for resource in draft.quotas
    }
    for draft in drafts:
        for resource, quota in draft.quotas.items():
            parts, all_of_it = below[draft.name, resource], quota.nominal
            if parts != ZERO and all_of_it is not None:
                quota.nominal = _rest(draft, resource, all_of_it, parts, notes)
                _lend_no_more(draft, resource, quota, notes)


def _owed_below(children: list[Draft], resource: str) -> Quantity:
    found = ZERO
    for child in children:
        quota = child.quotas.get(resource)
        if quota is not None and quota.nominal is not None and resource not in child.unlimited:
            found += quota.nominal
    return found


def _rest(draft: Draft, resource: str, all_of_it: Quantity, parts: Quantity, notes: FieldNotes) -> Quantity:
    if all_of_it < parts:
        reason = f"the queues below are owed {parts} together, more than its {all_of_it}: nothing is its own"
        notes.of_queue(draft.made_of, resource, FieldVerdict.APPROXIMATED, reason)
        return ZERO
    reason = f"of {all_of_it}, {parts} stand in the queues below"
    notes.of_queue(draft.made_of, resource, FieldVerdict.HONOURED, reason)
    return Quantity(all_of_it.nano - parts.nano, all_of_it.notation)


def _lend_no_more(draft: Draft, resource: str, quota: QuotaDraft, notes: FieldNotes) -> None:
    if quota.lending_limit is None or quota.nominal is None or not quota.nominal < quota.lending_limit:
        return
    quota.lending_limit = None
    reason = "a queue above others keeps only what is its own: what they lend is lent on without a limit"
    notes.of_queue(draft.made_of, resource, FieldVerdict.APPROXIMATED, reason)


def place_under_a_root(drafts: list[Draft], fleet: Capacity) -> list[Draft]:
    """The queues, with a root above those that have no parent, for every resource that one of them names."""
    taken = {draft.name for draft in drafts}
    name = NAME
    # One of the queues may have the name of the root.
    while name in taken:
        name = f"{name}-root"
    root = Draft(name, "the fleet")
    for draft in drafts:
        for resource in draft.quotas:
            root.quotas[resource] = QuotaDraft(whole(resource, fleet))
        if draft.parent is None:
            draft.parent = name
    return [root, *drafts]
