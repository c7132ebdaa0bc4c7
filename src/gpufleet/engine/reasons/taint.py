"""The node has a taint that the pod does not tolerate."""

from gpufleet.engine.reasons.node_reason import Kind, NodeReason

BIT = 1 << 1

REASON = NodeReason(
    "taint",
    BIT,
    height=6,
    kind=Kind.CHANGE,
    words="tainted, and the pod does not tolerate it",
    remedy="the pod tolerated their taint",
)
