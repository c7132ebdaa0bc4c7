"""Names of new nodes: each type has a beginning of its own, which no node of today shares."""

from collections.abc import Iterable, Sequence

import msgspec

from gpufleet.plan.instance_types import ON_DEMAND, InstanceType


def named(types: Sequence[InstanceType], taken: Iterable[str]) -> tuple[InstanceType, ...]:
    """The types with how the names of their nodes begin, beside nodes with the names that are taken."""
    begins = {beginning(name) for name in taken}
    found = []
    for one in types:
        plain = begin = _name_of_type(one)
        number = 1
        while begin in begins:
            number += 1
            begin = f"{plain}-{number}"
        begins.add(begin)
        found.append(msgspec.structs.replace(one, node_names=begin))
    return tuple(found)


def beginning(node: str) -> str:
    """How the name of a node begins, without its number."""
    return node.rpartition("-")[0]


def _name_of_type(one: InstanceType) -> str:
    """A name of Kubernetes, which tells the type."""
    parts = (one.name, one.zone or one.region, "" if one.capacity_type == ON_DEMAND else one.capacity_type)
    return "new-" + "-".join(part for part in parts if part).lower().replace("_", "-")
