"""The kubelet of the node turned several pods away lately, and nothing new is placed there for a while."""

from gpufleet.engine.node_reasons.case import Case, Finding
from gpufleet.engine.node_reasons.node_reason import Kind, NodeReason
from gpufleet.model.phrases import harmless

BIT = 1 << 29


def finding(case: Case) -> Finding:
    """Which nodes are left alone, and until when."""
    names = [node.name for node in case.near]
    until = min(filter(None, map(case.details.left_alone_until, names)), default="")
    when = f" until {until}" if until else ""
    why = f"the kubelet of {case.near_names} turned several pods away, so nothing new is placed there{when}"
    first = harmless(names[0])
    ways = (
        f"see why in the Events of the pods that it turned away: kubectl get events -A | grep {first}",
        "nothing is to be done where the cause is gone: the node is tried again then",
    )
    return Finding(why, ways)


REASON = NodeReason(
    "rejects-pods",
    BIT,
    height=3,
    kind=Kind.CHANGE,
    words="with a kubelet that turned pods away lately",
    remedy="the pause were over that follows rejected pods",
    finding=finding,
)
