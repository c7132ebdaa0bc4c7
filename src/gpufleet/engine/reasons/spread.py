"""The pod would break its topology spread on the node."""

from gpufleet.engine.reasons.node_reason import Kind, NodeReason

BIT = 1 << 24

REASON = NodeReason(
    "spread",
    BIT,
    height=2,
    kind=Kind.OTHER_PODS,
    words="where the pod would break its topology spread",
    remedy="the pods would be spread too unevenly",
)
