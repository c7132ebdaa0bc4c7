"""The node has too few GPUs of a model that the pod accepts."""

from gpufleet.engine.reasons.node_reason import Kind, NodeReason

BIT = 1 << 7

REASON = NodeReason(
    "gpu-model",
    BIT,
    height=14,
    kind=Kind.CHANGE,
    words="without the GPU model asked for",
    remedy="the pod accepted their model of GPU",
)
