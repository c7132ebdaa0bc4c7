"""Too little CPU is free on the node."""

from gpufleet.engine.reasons.node_reason import Kind, NodeReason

BIT = 1 << 14

REASON = NodeReason(
    "cpu",
    BIT,
    height=1,
    kind=Kind.ROOM,
    words="short of CPU",
)
