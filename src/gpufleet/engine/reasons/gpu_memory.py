"""Too little memory is free on the node's GPUs."""

from gpufleet.engine.reasons.node_reason import Kind, NodeReason

BIT = 1 << 13

REASON = NodeReason(
    "gpu-memory",
    BIT,
    height=1,
    kind=Kind.ROOM,
    words="short of GPU memory",
)
