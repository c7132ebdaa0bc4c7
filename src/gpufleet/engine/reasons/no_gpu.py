"""The node has no GPU."""

from gpufleet.engine.reasons.node_reason import Kind, NodeReason

BIT = 1 << 6

REASON = NodeReason(
    "no-gpu",
    BIT,
    height=60,
    kind=Kind.CHANGE,
    words="without GPUs",
    remedy="they had GPUs",
)
