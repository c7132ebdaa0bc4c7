"""Queues in the order of their tree, with what each may have together with all below it."""

import msgspec

from gpufleet.explain.queue_answer import QueueRow, ResourceRow
from gpufleet.kube.codec.quota_amounts import read_amount, written_amount
from gpufleet.model.identifiers import QuotaResource


def children_of(rows: list[QueueRow]) -> dict[str | None, list[QueueRow]]:
    """By parent, None for the roots, siblings by name.

    What hangs on a queue that is not there is a root, and so is the first of a circle.
    """
    by_name = {row.name: row for row in sorted(rows, key=lambda row: row.name)}
    found: dict[str | None, list[QueueRow]] = {}
    for row in by_name.values():
        found.setdefault(row.parent if row.parent in by_name else None, []).append(row)
    reached = _below(found, found.get(None, []))
    for row in by_name.values():
        if row.name not in reached:
            # The queue is on a circle of parents, or below one.
            found.setdefault(None, []).append(row)
            siblings = found[row.parent]
            siblings.remove(row)
            reached |= _below(found, [row])
    return found


def _below(children: dict[str | None, list[QueueRow]], starts: list[QueueRow]) -> set[str]:
    reached: set[str] = set()
    level = list(starts)
    while level:
        row = level.pop()
        reached.add(row.name)
        level += [child for child in children.get(row.name, []) if child.name not in reached]
    return reached


def in_tree_order(rows: list[QueueRow]) -> list[QueueRow]:
    """Parents before their children, siblings by name, each with the quota of all below it."""
    children = children_of(rows)
    order: list[QueueRow] = []
    level = list(reversed(children.get(None, [])))
    while level:
        row = level.pop()
        order.append(row)
        level += reversed(children.get(row.name, []))
    quotas: dict[str, dict[str, int]] = {}
    # From the bottom up: a child's sum must be whole before it goes into its parent's.
    for row in reversed(order):
        quotas[row.name] = {one.resource: _units(one) for one in row.resources}
        for child in children.get(row.name, []):
            for resource, units in quotas[child.name].items():
                quotas[row.name][resource] = quotas[row.name].get(resource, 0) + units
    return [_with_quota(row, quotas[row.name]) for row in order]


def _units(row: ResourceRow) -> int:
    return read_amount(QuotaResource(row.resource), row.nominal, "nominal")


def _with_quota(row: QueueRow, quota: dict[str, int]) -> QueueRow:
    resources = tuple(
        msgspec.structs.replace(one, quota=written_amount(QuotaResource(one.resource), quota[one.resource]))
        for one in row.resources
    )
    return msgspec.structs.replace(row, resources=resources)
