"""The node has fewer GPUs than the pod asks for, free or in use."""

from gpufleet.engine.reasons.node_reason import Kind, NodeReason

BIT = 1 << 10

REASON = NodeReason(
    "gpu-count",
    BIT,
    height=20,
    kind=Kind.CHANGE,
    words="with fewer GPUs than asked for",
    remedy="the pod asked for fewer GPUs (several pods can be a gang)",
)
