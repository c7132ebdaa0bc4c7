"""The pod would break its topology spread on the node."""

from gpufleet.engine.node_reasons.case import Case, Finding
from gpufleet.engine.node_reasons.node_reason import Kind, NodeReason
from gpufleet.model.label_advice import nearest
from gpufleet.model.phrases import harmless, listed

BIT = 1 << 24


def finding(case: Case) -> Finding:
    """Over which domains the pods must be spread."""
    required = [one for one in case.shape.relations.spread if one.required]
    words = [f"{one.topology_key} with maxSkew {one.max_skew}" for one in required]
    known = {key for node in case.nodes for key in node.labels}
    unknown = [one.topology_key for one in required if one.topology_key not in known]
    if unknown:
        meant = nearest(unknown[0], known)
        way = f"did you mean the label {harmless(meant)}?" if meant else "label the nodes with it"
        return Finding(f"no node has the label {listed(unknown)} by which it must be spread", (way,))
    evenly = f"it must be spread evenly over {listed(words)}"
    why = f"{evenly}, and the domains with room have too many such pods already"
    ways = ("make room in a domain that has fewer of these pods", "allow a larger maxSkew or ScheduleAnyway")
    return Finding(why, ways)


REASON = NodeReason(
    "spread",
    BIT,
    height=2,
    kind=Kind.OTHER_PODS,
    words="where the pod would break its topology spread",
    remedy="the pods would be spread too unevenly",
    finding=finding,
)
