"""The node is closed to new pods by a cordon."""

from gpufleet.engine.node_reasons.case import Case, Finding
from gpufleet.engine.node_reasons.node_reason import Kind, NodeReason
from gpufleet.model.phrases import harmless, listed

BIT = 1 << 0


def finding(case: Case) -> Finding:
    """Which nodes would do but for their cordon."""
    names = [node.name for node in case.near]
    why = f"{listed(names)} would do, but {'is' if len(names) == 1 else 'are'} cordoned"
    return Finding(why, (f"kubectl uncordon {harmless(names[0])}",))


REASON = NodeReason(
    "cordoned",
    BIT,
    height=5,
    kind=Kind.CHANGE,
    words="cordoned (unschedulable)",
    remedy="they were uncordoned",
    finding=finding,
)
