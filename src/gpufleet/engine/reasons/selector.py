"""The pod's node selector or node affinity does not select the node."""

from gpufleet.engine.reasons.node_reason import Kind, NodeReason

BIT = 1 << 2

REASON = NodeReason(
    "selector",
    BIT,
    height=7,
    kind=Kind.CHANGE,
    words="not selected by the pod's node selector or affinity",
    remedy="the pod's node selector or affinity selected them",
)
