"""The kubelet of the node turned several pods away lately, and nothing new is placed there for a while."""

from gpufleet.engine.reasons.node_reason import Kind, NodeReason

BIT = 1 << 29

REASON = NodeReason(
    "rejects-pods",
    BIT,
    height=3,
    kind=Kind.CHANGE,
    words="with a kubelet that turned pods away lately",
    remedy="the pause were over that follows rejected pods",
)
