"""Another pod has a port of the host that the pod wants."""

from gpufleet.engine.reasons.node_reason import Kind, NodeReason

BIT = 1 << 20

REASON = NodeReason(
    "ports",
    BIT,
    height=2,
    kind=Kind.OTHER_PODS,
    words="with a port taken that the pod wants",
    remedy="a port is taken",
)
