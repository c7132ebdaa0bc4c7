"""Karpenter's NodeOverlays: other prices of instances, and resources that their nodes have besides."""

import msgspec

from gpufleet.kube.objects.metadata import Metadata
from gpufleet.kube.objects.selectors import SelectorRequirement
from gpufleet.kube.objects.structure import Structure


class NodeOverlaySpec(Structure, frozen=True):
    """Which instances are meant, and what is different of them. Without requirements it is all."""

    requirements: tuple[SelectorRequirement, ...] = ()
    price: str | None = None
    price_adjustment: str | None = None
    capacity: dict[str, str] = msgspec.field(default_factory=dict)
    weight: int = 0


class OverlayCondition(Structure, frozen=True):
    """What Karpenter says of it."""

    type: str
    status: str


class NodeOverlayStatus(Structure, frozen=True):
    """Whether Karpenter applies it."""

    conditions: tuple[OverlayCondition, ...] = ()


class NodeOverlay(Structure, frozen=True):
    """The NodeOverlay of karpenter.sh."""

    metadata: Metadata
    spec: NodeOverlaySpec = NodeOverlaySpec()
    status: NodeOverlayStatus = NodeOverlayStatus()
