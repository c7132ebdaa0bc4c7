"""The node runs as many pods as it may."""

from gpufleet.engine.reasons.node_reason import Kind, NodeReason

BIT = 1 << 16

REASON = NodeReason(
    "pods",
    BIT,
    height=1,
    kind=Kind.ROOM,
    words="at their limit of pods",
)
