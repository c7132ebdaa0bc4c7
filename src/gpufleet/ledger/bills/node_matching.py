"""The nodes that a line of a bill is for, found by what the provider calls them.

A node says its provider's id: ``aws:///eu-central-1a/i-0abc``, ``gce://project/zone/name``,
``azure:///subscriptions/.../virtualMachineScaleSets/pool/virtualMachines/3``, or the OCID of Oracle. A bill
says the instance's id, its name, or, on Azure, the scale set, which stands for all its nodes.
"""

from collections import defaultdict
from collections.abc import Iterable

import msgspec

from gpufleet.ledger.bills.bill_lines import BilledResource

VIRTUAL_MACHINES = "/virtualmachines/"
"""What stands between a scale set and its node, in lower case: Azure writes ids in either case."""

INSTANCES = "/instances/"
"""What stands before the name or the number of an instance of Google Cloud."""


class MatchedNode(msgspec.Struct, frozen=True):
    """A node by what its provider calls it."""

    uid: str
    provider_id: str


class NodeMatching:
    """Finds nodes for lines. A node of which no provider's id is known is found by none."""

    def __init__(self, nodes: Iterable[MatchedNode]) -> None:
        self._by_id: dict[str, set[str]] = defaultdict(set)
        self._by_name: dict[tuple[str, str], set[str]] = defaultdict(set)
        for node in nodes:
            provider, is_id, rest = node.provider_id.partition("://")
            if not is_id:
                # Oracle's nodes say the id alone.
                provider, rest = "", node.provider_id
            if not rest:
                continue
            for name in _ids(provider, rest):
                self._by_id[name].add(node.uid)
            if provider == "gce":
                # Filled up in front, so that an id of fewer parts than project, zone and name can be taken
                # apart.
                _, zone, name = ("", "", *rest.split("/"))[-3:]
                self._by_name[name, zone].add(node.uid)

    def nodes_of(self, resource: BilledResource) -> tuple[str, ...]:
        """The uids of the nodes of a resource, in order; none for what is no node that was seen."""
        found = self._by_id.get(_plain(resource.id), set())
        if not found and resource.name:
            found = self._by_name.get((resource.name, resource.zone), set())
        return tuple(sorted(found))


def _ids(provider: str, rest: str) -> Iterable[str]:
    """What bills may call a node, as ``_plain`` writes it."""
    path = rest.strip("/").lower()
    yield path
    if provider == "azure":
        scale_set, is_member, _ = path.rpartition(VIRTUAL_MACHINES)
        if is_member and "virtualmachinescalesets" in scale_set:
            yield scale_set
    else:
        yield path.rpartition("/")[2]


def _plain(resource_id: str) -> str:
    """A bill's id without what stands before it: that of an ARN, or the host of a full name."""
    path = resource_id.strip("/").lower()
    if path.startswith("arn:"):
        return path.rpartition("/")[2]
    return path.rpartition(INSTANCES)[2] if INSTANCES in path else path
