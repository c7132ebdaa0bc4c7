"""A volume of the pod cannot be used on the node."""

from gpufleet.engine.node_reasons.case import Case, Finding
from gpufleet.engine.node_reasons.node_reason import Kind, NodeReason
from gpufleet.model.labels import NodeAffinity
from gpufleet.model.phrases import harmless, listed

BIT = 1 << 3


def finding(case: Case) -> Finding:
    """Where the volumes of the pod's claims are."""
    sentences = []
    reached = None
    every = {node.name for node in case.nodes}
    for one in case.details.volumes(case.pod.uid):
        nodes = {node.name for node in case.nodes if one.reach.accepts(node.labels, node.name)}
        if nodes == every:
            continue
        reached = nodes if reached is None else reached & nodes
        claim, volume = harmless(one.claim), harmless(one.volume)
        sentences.append(f"claim {claim} is on volume {volume}, usable only where {_place(one.reach)}")
    why = "; ".join(dict.fromkeys(sentences)) or "its volumes cannot be used on any node that would do"
    if reached:
        barred = sorted({one for name in reached for one in case.by_node.get(name, ())[:1]})
        way = f"make room on {listed(sorted(reached))}, where the volume is ({', '.join(barred)})"
    else:
        way = "no node is where the volume is: add one there, or move the data to a new claim"
    return Finding(why, (way, f"{case.near_names} would do if the data were there"))


def _place(reach: NodeAffinity) -> str:
    terms = [
        " and ".join([*map(str, term.expressions), *(f"the node is {one.name}" for one in term.fields)])
        for term in reach.terms or ()
    ]
    return " or ".join(terms[:2])


REASON = NodeReason(
    "volume-affinity",
    BIT,
    height=8,
    kind=Kind.CHANGE,
    words="where the pod's volumes cannot be used",
    remedy="the pod's volumes could be used there",
    finding=finding,
)
