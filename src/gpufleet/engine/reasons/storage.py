"""Too little local storage is free on the node."""

from gpufleet.engine.reasons.node_reason import Kind, NodeReason

BIT = 1 << 17

REASON = NodeReason(
    "storage",
    BIT,
    height=1,
    kind=Kind.ROOM,
    words="short of local storage",
)
