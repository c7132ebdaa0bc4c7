"""The node has as many volumes attached as it can."""

from gpufleet.engine.reasons.node_reason import Kind, NodeReason

BIT = 1 << 22

REASON = NodeReason(
    "volume-limit",
    BIT,
    height=2,
    kind=Kind.OTHER_PODS,
    words="that cannot attach more volumes",
    remedy="no more volumes can be attached",
)
