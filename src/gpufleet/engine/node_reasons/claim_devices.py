"""The node has no devices for a resource claim of the pod, or the claim has some that another holds too."""

from gpufleet.engine.node_reasons.case import Case, Finding
from gpufleet.engine.node_reasons.node_reason import Kind, NodeReason
from gpufleet.model.phrases import listed

BIT = 1 << 35


def finding(case: Case) -> Finding:
    """Which claims find no devices."""
    names = listed(one.partition("/")[2] for one in case.shape.relations.device_claims)
    why = f"no free devices on {case.near_names} serve its resource claims ({names})"
    return Finding(why, ("wait until other claims give devices back", "ask for fewer or other devices"))


REASON = NodeReason(
    "claim-devices",
    BIT,
    height=4,
    kind=Kind.UNMET,
    words="without free devices for the pod's resource claims",
    remedy="it can run once there are free devices for its resource claims where there is room",
    finding=finding,
)
