"""A pod that the pod must keep away from runs in the node's domain."""

from gpufleet.engine.reasons.node_reason import Kind, NodeReason

BIT = 1 << 26

REASON = NodeReason(
    "pod-anti-affinity",
    BIT,
    height=2,
    kind=Kind.OTHER_PODS,
    words="near pods that the pod must keep away from",
    remedy="pods run that this one must keep away from",
)
