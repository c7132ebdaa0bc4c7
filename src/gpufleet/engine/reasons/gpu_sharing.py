"""The node's GPUs are not given out in the way that the pod asks for: whole, or in parts."""

from gpufleet.engine.reasons.node_reason import Kind, NodeReason

BIT = 1 << 8

REASON = NodeReason(
    "gpu-sharing",
    BIT,
    height=9,
    kind=Kind.CHANGE,
    words="whose GPUs do not serve this kind of request",
    remedy="their GPUs served this kind of request",
)
