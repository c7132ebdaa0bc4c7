"""A resource claim of the pod has devices that cannot be used from the node."""

from gpufleet.engine.node_reasons.case import Case, Finding
from gpufleet.engine.node_reasons.node_reason import Kind, NodeReason
from gpufleet.model.phrases import listed

BIT = 1 << 36


def finding(case: Case) -> Finding:
    """Which claims the pod has, of which some are tied to other nodes."""
    names = listed(one.partition("/")[2] for one in case.shape.relations.device_claims)
    why = f"of its resource claims ({names}) some have devices that {case.near_names} cannot use"
    return Finding(why, ("make room on the nodes that can use these devices",))


REASON = NodeReason(
    "claim-elsewhere",
    BIT,
    height=5,
    kind=Kind.UNMET,
    words="out of reach of devices that the pod's resource claims have",
    remedy="it can run once there is room where the devices of its resource claims are",
    finding=finding,
)
