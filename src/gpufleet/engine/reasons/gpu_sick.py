"""The node has too few healthy GPUs."""

from gpufleet.engine.reasons.node_reason import Kind, NodeReason

BIT = 1 << 9

REASON = NodeReason(
    "gpu-sick",
    BIT,
    height=6,
    kind=Kind.CHANGE,
    words="with too few healthy GPUs",
    remedy="enough of their GPUs were healthy",
)
