"""Too little local storage is free on the node."""

from gpufleet.engine.node_reasons.amount_words import MISSING
from gpufleet.engine.node_reasons.case import Case, Finding
from gpufleet.engine.node_reasons.node_reason import Kind, NodeReason
from gpufleet.engine.node_reasons.room_words import host_room

BIT = 1 << 17


def finding(case: Case) -> Finding:
    """How much local storage is asked for and left."""
    asked, name = case.shape.resources.ephemeral_storage_bytes, "ephemeral_storage_bytes"
    return host_room(case, name, asked, MISSING[name])


REASON = NodeReason(
    "storage",
    BIT,
    height=1,
    kind=Kind.ROOM,
    words="short of local storage",
    finding=finding,
)
