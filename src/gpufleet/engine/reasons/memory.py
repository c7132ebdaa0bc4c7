"""Too little memory is free on the node."""

from gpufleet.engine.reasons.node_reason import Kind, NodeReason

BIT = 1 << 15

REASON = NodeReason(
    "memory",
    BIT,
    height=1,
    kind=Kind.ROOM,
    words="short of memory",
)
