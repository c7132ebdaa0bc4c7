"""The node is outside of the topology domain that the pods of a gang have to share."""

from gpufleet.engine.reasons.node_reason import Kind, NodeReason

BIT = 1 << 19

REASON = NodeReason(
    "domain",
    BIT,
    height=8,
    kind=Kind.CHANGE,
    words="outside of the gang's topology domain",
    remedy="the gang's topology domain held them",
)
