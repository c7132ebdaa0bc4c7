"""A pod that keeps this pod away runs in the node's domain."""

from gpufleet.engine.node_reasons.case import Case, Finding
from gpufleet.engine.node_reasons.node_reason import Kind, NodeReason
from gpufleet.engine.node_reasons.other_pods import named, selects, ways_apart

BIT = 1 << 27


def finding(case: Case) -> Finding:
    """Which pods keep it away."""
    holders = [
        one
        for one in case.placed
        if any(selects(case, term, case.pod) for term in one.pod.shape.relations.anti_affinity)
    ]
    why = f"{named(holders)} must not share a node or domain with it, and those are wherever there is room"
    return Finding(why, ways_apart(holders))


REASON = NodeReason(
    "others-anti-affinity",
    BIT,
    height=2,
    kind=Kind.OTHER_PODS,
    words="near pods that keep this pod away",
    remedy="pods run that keep this one away",
    finding=finding,
)
