"""No readable report tells which GPUs of the node are free."""

from gpufleet.engine.reasons.node_reason import Kind, NodeReason

BIT = 1 << 5

REASON = NodeReason(
    "gpu-unreported",
    BIT,
    height=5,
    kind=Kind.CHANGE,
    words="without a readable report of their GPUs (NodeDevices)",
    remedy="their agents reported their GPUs again",
)
