"""The nodes that a line of a bill is for, found by what the provider calls them.

A node says its provider's id: ``aws:///eu-central-1a/i-0abc``, ``gce://project/zone/name``,
``azure:///subscriptions/.../virtualMachineScaleSets/pool/virtualMachines/3``, or the OCID of Oracle. A bill
says the instance's id, its name, or, on Azure, the scale set, which stands for all its nodes.
"""

import itertools
from collections import defaultdict
from collections.abc import Iterable

import msgspec

from gpufleet.ledger.bills.bill_lines import BilledResource

VIRTUAL_MACHINES = "/virtualmachines/"
"""What stands between a scale set and its node, in lower case: Azure writes ids in either case."""


class MatchedNode(msgspec.Struct, frozen=True):
    """A node by what its provider calls it."""

    uid: str
    provider_id: str


class _GoogleName(msgspec.Struct, frozen=True):
    """What Google Cloud calls an instance. Another project or zone may have one of the same name."""

    name: str
    project: str = ""
    zone: str = ""

    def may_be(self, other: "_GoogleName") -> bool:
        """Whether both may be one instance; an empty field is not known."""
        return (
            self.name == other.name
            and (self.project == other.project or "" in (self.project, other.project))
            and (self.zone == other.zone or "" in (self.zone, other.zone))
        )


class NodeMatching:
    """Finds nodes for lines. A node of which no provider's id is known is found by none."""

    def __init__(self, nodes: Iterable[MatchedNode]) -> None:
        self._by_id: dict[str, set[str]] = defaultdict(set)
        self._of_google: dict[str, list[tuple[_GoogleName, str]]] = defaultdict(list)
        for node in nodes:
            provider, is_id, rest = node.provider_id.partition("://")
            if not is_id:
                # Oracle's nodes say the id alone.
                provider, rest = "", node.provider_id
            if not rest:
                continue
            if provider == "gce":
                # Filled up in front, so that an id of fewer parts than project, zone and name can be taken
                # apart.
                project, zone, name = ("", "", *rest.strip("/").lower().split("/"))[-3:]
                self._of_google[name].append((_GoogleName(name, project, zone), node.uid))
                continue
            for name in _ids(provider, rest):
                self._by_id[name].add(node.uid)

    def nodes_of(self, resource: BilledResource) -> tuple[str, ...]:
        """The uids of the nodes of a resource, in order; none for what is no node that was seen."""
        found = self._by_id.get(_plain(resource.id), set())
        return tuple(sorted(found or self._google_nodes(resource)))

    def _google_nodes(self, resource: BilledResource) -> set[str]:
        names = [_google_name(resource.id, resource.zone)]
        if resource.name:
            # Where the id is a number or nothing, the instance stands in the name.
            names.append(_GoogleName(resource.name.lower(), zone=resource.zone.lower()))
        for one in names:
            found = {uid for known, uid in self._of_google.get(one.name, ()) if known.may_be(one)}
            if found:
                return found
        return set()


def _google_name(resource_id: str, zone: str) -> _GoogleName:
    """The instance of an id such as //compute.googleapis.com/projects/P/zones/Z/instances/NAME."""
    parts = resource_id.strip("/").lower().split("/")
    told = dict(itertools.pairwise(parts))
    return _GoogleName(parts[-1], told.get("projects", ""), told.get("zones", "") or zone.lower())


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
    """A bill's id without what stands before it in an ARN."""
    path = resource_id.strip("/").lower()
    return path.rpartition("/")[2] if path.startswith("arn:") else path
