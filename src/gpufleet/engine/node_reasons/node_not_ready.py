"""The node is not ready, or its kubelet cannot be reached: Kubernetes itself has tainted it."""

from gpufleet.engine.node_reasons.case import Case, Finding
from gpufleet.engine.node_reasons.node_reason import Kind, NodeReason
from gpufleet.model.phrases import listed
from gpufleet.model.taint import Taint

BIT = 1 << 19

NOT_READY = frozenset({"node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"})
"""The taints of a node that is not ready."""


def is_of_readiness(taint: Taint) -> bool:
    """True for a taint by which Kubernetes itself says that a node is not ready."""
    return taint.key in NOT_READY


def finding(case: Case) -> Finding:
    """Which nodes would do if they were ready."""
    names = [node.name for node in case.near]
    why = f"{listed(names)} would do, but {'is' if len(names) == 1 else 'are'} not ready"
    return Finding(why, (f"see why its kubelet does not report: kubectl describe node {names[0]}",))


REASON = NodeReason(
    "node-not-ready",
    BIT,
    height=6,
    kind=Kind.CHANGE,
    words="not ready",
    remedy="they were ready",
    finding=finding,
)
