"""Karpenter's NodePools, as far as they say which pods their nodes are for and how much may be bought."""

import msgspec

from gpufleet.kube.objects.metadata import Metadata
from gpufleet.kube.objects.node import Taint
from gpufleet.kube.objects.selectors import SelectorRequirement
from gpufleet.kube.objects.structure import Structure


class TemplateMetadata(Structure, frozen=True):
    """Labels of each node."""

    labels: dict[str, str] = msgspec.field(default_factory=dict)


class TemplateSpec(Structure, frozen=True):
    """Which instances are bought, the taints that their nodes keep, and those that they lose once set up."""

    requirements: tuple[SelectorRequirement, ...] = ()
    taints: tuple[Taint, ...] = ()
    startup_taints: tuple[Taint, ...] = ()


class NodeTemplate(Structure, frozen=True):
    """What each node of the pool is like."""

    metadata: TemplateMetadata = TemplateMetadata()
    spec: TemplateSpec = TemplateSpec()


class NodePoolSpec(Structure, frozen=True):
    """``limits`` bounds what all nodes of the pool have together, by resource. Of several pools Karpenter
    takes the one of the highest ``weight``. A pool with ``replicas`` has so many nodes, whatever waits.
    """

    template: NodeTemplate = NodeTemplate()
    limits: dict[str, str] = msgspec.field(default_factory=dict)
    weight: int = 0
    replicas: int | None = None


class NodePoolStatus(Structure, frozen=True):
    """What the nodes of the pool have together, with those that are on their way."""

    resources: dict[str, str] = msgspec.field(default_factory=dict)


class NodePool(Structure, frozen=True):
    """The NodePool of karpenter.sh."""

    metadata: Metadata
    spec: NodePoolSpec = NodePoolSpec()
    status: NodePoolStatus = NodePoolStatus()
