"""Another pod uses a claim that is for one pod at a time (ReadWriteOncePod)."""

from gpufleet.engine.reasons.node_reason import Kind, NodeReason

BIT = 1 << 21

REASON = NodeReason(
    "volume-in-use",
    BIT,
    height=2,
    kind=Kind.OTHER_PODS,
    words="ruled out because another pod uses a claim that is for one pod at a time",
    remedy="another pod uses the claim",
)
