"""No agent runs on the node, so its GPUs are given out whole only."""

from gpufleet.engine.node_reasons.case import Case, Finding
from gpufleet.engine.node_reasons.node_reason import Kind, NodeReason

BIT = 1 << 33


def finding(case: Case) -> Finding:
    """Which nodes have no agent, and that only an agent gives out parts of GPUs."""
    runs = "has no agent" if len(case.near) == 1 else "have no agent"
    why = f"it asks for parts of GPUs, which gpufleet's agent gives out, and {case.near_names} {runs}"
    report = case.details.names.reports
    seen = f": there is no report of its GPUs ({report})" if report else ""
    ways = ("run gpufleet's agent there", "ask for whole GPUs")
    return Finding(why + seen, ways)


REASON = NodeReason(
    "no-agent",
    BIT,
    height=9,
    kind=Kind.CHANGE,
    words="without gpufleet's agent, which gives out parts of GPUs",
    remedy="gpufleet's agent ran there",
    finding=finding,
)
