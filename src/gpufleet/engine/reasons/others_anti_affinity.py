"""A pod that keeps this pod away runs in the node's domain."""

from gpufleet.engine.reasons.node_reason import Kind, NodeReason

BIT = 1 << 27

REASON = NodeReason(
    "others-anti-affinity",
    BIT,
    height=2,
    kind=Kind.OTHER_PODS,
    words="near pods that keep this pod away",
    remedy="pods run that keep this one away",
)
