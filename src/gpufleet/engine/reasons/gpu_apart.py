"""The node never has so many GPUs near each other, free or in use."""

from gpufleet.engine.reasons.node_reason import Kind, NodeReason

BIT = 1 << 28

REASON = NodeReason(
    "gpu-apart",
    BIT,
    height=10,
    kind=Kind.CHANGE,
    words="without so many GPUs near each other",
    remedy="the pod took GPUs that are apart, or fewer of them",
)
