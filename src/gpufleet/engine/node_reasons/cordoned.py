"""The node is closed to new pods by a cordon."""

from gpufleet.engine.node_reasons.case import Case, Finding
from gpufleet.engine.node_reasons.node_reason import Kind, NodeReason
from gpufleet.model.phrases import harmless, listed

BIT = 1 << 0


def finding(case: Case) -> Finding:
    """Which nodes would do but for their cordon."""
    names = [node.name for node in case.near]
    why = f"{listed(names)} would do, but {'is' if len(names) == 1 else 'are'} cordoned"
    drained = [node.name for node in case.near if node.draining_until_us is not None]
    if not drained:
        return Finding(why, (f"kubectl uncordon {harmless(names[0])}",))
    verb = "is" if len(drained) == 1 else "are"
    why += f"; {listed(drained)} {verb} drained: what ends before the work there that is waited for may start"
    return Finding(why, ("say how long it runs (gpufleet.io/run-time)", "wait for the end of the drain"))


REASON = NodeReason(
    "cordoned",
    BIT,
    height=5,
    kind=Kind.CHANGE,
    words="cordoned (unschedulable)",
    remedy="they were uncordoned",
    finding=finding,
)
