"""The queue above all others, where another system shares the whole fleet without saying so.

In KAI and Volcano what is left over is whatever the nodes have. Here a queue can only lend what is
somebody's, so the fleet itself becomes the root of the tree, with its capacity as nominal quota: that of
the nodes, where Nodes are among the objects, else more than any fleet has.
"""

from collections.abc import Iterable

from gpufleet.migration.queues import Draft, QuotaDraft, quota_resource
from gpufleet.migration.sources import Source
from gpufleet.model.quantity import Quantity, parse_quantity
from gpufleet.model.resource_names import CPU, MEMORY

NAME = "fleet"
MORE_THAN_ANY_FLEET = {"gpu": "1M", CPU: "1G", MEMORY: "32Pi"}
"""What the fleet is taken to have where nobody says it."""

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


def place_under_a_root(drafts: list[Draft], fleet: Capacity) -> list[Draft]:
    """The queues, with a root above those that have no parent, for every resource that one of them names."""
    taken = {draft.name for draft in drafts}
    name = NAME
    while name in taken:
        name = f"{name}-root"
    root = Draft(name, "the fleet")
    for draft in drafts:
        for resource in draft.quotas:
            root.quotas[resource] = QuotaDraft(whole(resource, fleet))
        if draft.parent is None:
            draft.parent = name
    return [root, *drafts]
