"""Too little memory is free on the node."""

from gpufleet.engine.node_reasons.amount_words import MISSING
from gpufleet.engine.node_reasons.case import Case, Finding
from gpufleet.engine.node_reasons.node_reason import Kind, NodeReason
from gpufleet.engine.node_reasons.room_words import host_room

BIT = 1 << 15


def finding(case: Case) -> Finding:
    """How much memory is asked for and left."""
    return host_room(case, "memory_bytes", case.shape.resources.memory_bytes, MISSING["memory_bytes"])


REASON = NodeReason(
    "memory",
    BIT,
    height=1,
    kind=Kind.ROOM,
    words="short of memory",
    finding=finding,
)
