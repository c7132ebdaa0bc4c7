"""A volume of the pod cannot be used on the node."""

from gpufleet.engine.reasons.node_reason import Kind, NodeReason

BIT = 1 << 3

REASON = NodeReason(
    "volume-affinity",
    BIT,
    height=8,
    kind=Kind.CHANGE,
    words="where the pod's volumes cannot be used",
    remedy="the pod's volumes could be used there",
)
