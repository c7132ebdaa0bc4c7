"""The node is closed to new pods by a cordon."""

from gpufleet.engine.reasons.node_reason import Kind, NodeReason

BIT = 1 << 0

REASON = NodeReason(
    "cordoned",
    BIT,
    height=5,
    kind=Kind.CHANGE,
    words="cordoned (unschedulable)",
    remedy="they were uncordoned",
)
