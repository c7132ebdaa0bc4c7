"""Too little of a resource by name is free on the node: huge pages, network cards, MIG instances."""

from gpufleet.engine.reasons.node_reason import Kind, NodeReason

BIT = 1 << 18

REASON = NodeReason(
    "other-resource",
    BIT,
    height=1,
    kind=Kind.ROOM,
    words="short of another resource",
)
