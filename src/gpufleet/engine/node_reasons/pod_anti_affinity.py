"""A pod that the pod must keep away from runs in the node's domain."""

from gpufleet.engine.node_reasons.case import Case, Finding
from gpufleet.engine.node_reasons.node_reason import Kind, NodeReason
from gpufleet.engine.node_reasons.other_pods import named, selects, ways_apart
from gpufleet.model.phrases import listed

BIT = 1 << 26


def finding(case: Case) -> Finding:
    """Which pods it must keep away from."""
    terms = case.shape.relations.anti_affinity
    holders = [one for one in case.placed if any(selects(case, term, one.pod) for term in terms)]
    keys = listed(dict.fromkeys(term.topology_key for term in terms))
    why = f"it must not share {keys} with {named(holders)}, and those are wherever there is room"
    return Finding(why, ways_apart(holders))


REASON = NodeReason(
    "pod-anti-affinity",
    BIT,
    height=2,
    kind=Kind.OTHER_PODS,
    words="near pods that the pod must keep away from",
    remedy="pods run that this one must keep away from",
    finding=finding,
)
