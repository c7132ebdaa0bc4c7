"""The node does not declare a feature that the pod's spec needs."""

from gpufleet.engine.reasons.node_reason import Kind, NodeReason

BIT = 1 << 4

REASON = NodeReason(
    "feature",
    BIT,
    height=12,
    kind=Kind.CHANGE,
    words="without a feature that the pod needs",
    remedy="they had the feature that the pod needs",
)
