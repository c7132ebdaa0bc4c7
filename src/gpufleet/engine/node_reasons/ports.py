"""Another pod has a port of the host that the pod wants."""

from gpufleet.engine.node_reasons.case import Case, Finding
from gpufleet.engine.node_reasons.node_reason import Kind, NodeReason
from gpufleet.engine.node_reasons.other_pods import named
from gpufleet.model.phrases import counted, listed

BIT = 1 << 20


def finding(case: Case) -> Finding:
    """Which port is taken, and by which pods."""
    wanted = case.shape.relations.ports
    near = {node.name for node in case.near}
    holders = [
        other
        for other in case.placed
        if other.node in near
        and any(one.conflicts(taken) for one in wanted for taken in other.pod.shape.relations.ports)
    ]
    numbers = listed(str(one.port) for one in wanted)
    nodes = counted(len(case.near), "node")
    why = f"host port {numbers} is taken on the {nodes} that would do, by {named(holders)}"
    return Finding(why, ("leave hostPort out and use a Service", f"wait until {named(holders[:1])} ends"))


REASON = NodeReason(
    "ports",
    BIT,
    height=2,
    kind=Kind.OTHER_PODS,
    words="with a port taken that the pod wants",
    remedy="a port is taken",
    finding=finding,
)
