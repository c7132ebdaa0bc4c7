"""No volume for a claim of the pod is there, and none can be provisioned for the node."""

from gpufleet.engine.reasons.node_reason import Kind, NodeReason

BIT = 1 << 23

REASON = NodeReason(
    "volume-unbound",
    BIT,
    height=4,
    kind=Kind.UNMET,
    words="without a volume for the pod's claim, and where none can be provisioned",
    remedy="it can run once there is a volume for its claim where there is room",
)
