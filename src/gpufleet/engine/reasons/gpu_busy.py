"""Too few GPUs of the node are free."""

from gpufleet.engine.reasons.node_reason import Kind, NodeReason

BIT = 1 << 11

REASON = NodeReason(
    "gpu-busy",
    BIT,
    height=1,
    kind=Kind.ROOM,
    words="with their GPUs in use",
)
