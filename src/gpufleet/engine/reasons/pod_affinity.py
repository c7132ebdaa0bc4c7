"""No pod that the pod must be near runs in the node's domain."""

from gpufleet.engine.reasons.node_reason import Kind, NodeReason

BIT = 1 << 25

REASON = NodeReason(
    "pod-affinity",
    BIT,
    height=4,
    kind=Kind.UNMET,
    words="away from the pods that the pod must be near",
    remedy="it can run once a pod that it must be near runs where there is room",
)
