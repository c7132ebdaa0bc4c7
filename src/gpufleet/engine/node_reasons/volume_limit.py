"""The node has as many volumes attached as it can."""

from gpufleet.engine.node_reasons.case import Case, Finding
from gpufleet.engine.node_reasons.node_reason import Kind, NodeReason
from gpufleet.model.phrases import listed

BIT = 1 << 22


def finding(case: Case) -> Finding:
    """How many volumes of the pod's drivers the nodes can attach."""
    drivers = {one.driver for one in case.shape.relations.volumes.attachments}
    limits = [
        f"{node.name}: {limit} of {driver}"
        for node in case.near
        for driver, limit in node.volume_limits
        if driver in drivers
    ]
    why = f"the nodes that would do have as many volumes attached as they can ({listed(limits)})"
    return Finding(why, ("wait until a pod with a volume there ends", "add a node"))


REASON = NodeReason(
    "volume-limit",
    BIT,
    height=2,
    kind=Kind.OTHER_PODS,
    words="that cannot attach more volumes",
    remedy="no more volumes can be attached",
    finding=finding,
)
