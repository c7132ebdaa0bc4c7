"""The node runs as many pods as it may."""

from gpufleet.engine.node_reasons.case import Case, Finding
from gpufleet.engine.node_reasons.node_reason import Kind, NodeReason
from gpufleet.model.phrases import counted

BIT = 1 << 16


def finding(case: Case) -> Finding:
    """How many pods the nodes run."""
    most = max(room.node.allocatable.pods for room in case.near_rooms)
    why = f"the {counted(len(case.near), 'node')} that would do run as many pods as they may (at most {most})"
    return Finding(why, ("wait until a pod there ends", "raise the kubelets' maxPods"))


REASON = NodeReason(
    "pods",
    BIT,
    height=1,
    kind=Kind.ROOM,
    words="at their limit of pods",
    finding=finding,
)
