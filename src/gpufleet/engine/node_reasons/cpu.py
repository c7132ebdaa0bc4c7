"""Too little CPU is free on the node."""

from gpufleet.engine.node_reasons.amount_words import cores
from gpufleet.engine.node_reasons.case import Case, Finding
from gpufleet.engine.node_reasons.node_reason import Kind, NodeReason
from gpufleet.engine.node_reasons.room_words import host_room

BIT = 1 << 14


def finding(case: Case) -> Finding:
    """How much CPU is asked for and left."""
    return host_room(case, "cpu_milli", case.shape.resources.cpu_milli, cores)


REASON = NodeReason(
    "cpu",
    BIT,
    height=1,
    kind=Kind.ROOM,
    words="short of CPU",
    finding=finding,
)
