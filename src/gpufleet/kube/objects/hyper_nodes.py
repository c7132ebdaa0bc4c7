"""Volcano's HyperNodes: which nodes are near to one another, tier by tier."""

from gpufleet.kube.objects.metadata import Metadata
from gpufleet.kube.objects.selectors import LabelSelector
from gpufleet.kube.objects.structure import Structure


class MemberSelector(Structure, frozen=True):
    """Which nodes or HyperNodes are members; only by labels of nodes is it read here."""

    label_match: LabelSelector | None = None


class HyperNodeMember(Structure, frozen=True):
    """Some members, each a "Node" or a "HyperNode"."""

    type: str = ""
    selector: MemberSelector = MemberSelector()


class HyperNodeSpec(Structure, frozen=True):
    """One domain; the smaller its tier, the nearer its members are."""

    tier: int = 0
    tier_name: str = ""
    members: tuple[HyperNodeMember, ...] = ()


class HyperNode(Structure, frozen=True):
    """The HyperNode of topology.volcano.sh."""

    metadata: Metadata
    spec: HyperNodeSpec
