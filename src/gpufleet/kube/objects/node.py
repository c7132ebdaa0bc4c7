"""A node as far as scheduling reads it.

A node that is not ready is tainted by the node controller, so conditions tell people only.
"""

import msgspec

from gpufleet.kube.keys import BACKFILL_UNTIL
from gpufleet.kube.objects.metadata import Metadata
from gpufleet.kube.objects.structure import Structure
from gpufleet.mig.periods import PERIODS_ANNOTATION
from gpufleet.mig.wanted import DEMAND_ANNOTATION, LAYOUTS_ANNOTATION, STATES_ANNOTATION

READY = "Ready"
GPU_HEALTHY = "gpufleet.io/GPUHealthy"
"""The condition that the node's agent keeps: where it stands, an agent reports the GPUs."""

PODS_REJECTED = "gpufleet.io/PodsRejected"
"""The condition that the scheduler keeps: its kubelet turned pods away, and until when it is left alone."""

PLACES_KEPT = "gpufleet.io/PlacesKept"
"""The condition that the scheduler keeps: for which pods that are moved it keeps places there."""

READ_BACK = frozenset({PODS_REJECTED, PLACES_KEPT})
"""Conditions whose message the next leader reads."""

AGENT_LABELS_MANAGER = "gpufleet-agent-labels"
"""The manager of the labels that agents write on nodes, by which the API server remembers them."""

KEPT = frozenset({READY, GPU_HEALTHY, PODS_REJECTED, PLACES_KEPT})
"""Conditions that decisions read; the others change every few minutes and only cost memory."""


ANNOTATIONS = frozenset(
    {DEMAND_ANNOTATION, LAYOUTS_ANNOTATION, PERIODS_ANNOTATION, STATES_ANNOTATION, BACKFILL_UNTIL}
)
"""Annotations that are read: the MIG layouts of the node's cards, and until when its drain waits."""


class Taint(Structure, frozen=True):
    """A taint; since when it is there is not the scheduler's business."""

    key: str
    effect: str
    value: str = ""


class NodeSpec(Structure, frozen=True):
    """What people set on a node."""

    taints: tuple[Taint, ...] = ()
    unschedulable: bool = False


class NodeCondition(Structure, frozen=True):
    """A condition of a node; of most the message is for people only, and dropped."""

    type: str
    status: str
    reason: str = ""
    message: str = ""

    def __post_init__(self) -> None:
        if self.message and self.type not in READ_BACK:
            msgspec.structs.force_setattr(self, "message", "")


class NodeStatus(Structure, frozen=True):
    """What the kubelet reports; of the conditions whether the node is ready, and ours."""

    allocatable: dict[str, str] = msgspec.field(default_factory=dict)
    declared_features: tuple[str, ...] = ()
    conditions: tuple[NodeCondition, ...] = ()

    def __post_init__(self) -> None:
        if self.conditions:
            kept = tuple(condition for condition in self.conditions if condition.type in KEPT)
            msgspec.structs.force_setattr(self, "conditions", kept)


class NodeMetadata(Metadata, frozen=True):
    """A node's metadata, with only those annotations that are read: others grow large."""

    def __post_init__(self) -> None:
        if self.annotations:
            kept = {key: text for key, text in self.annotations.items() if key in ANNOTATIONS}
            msgspec.structs.force_setattr(self, "annotations", kept)


class Node(Structure, frozen=True):
    """A node."""

    metadata: NodeMetadata
    spec: NodeSpec = NodeSpec()
    status: NodeStatus = NodeStatus()
