"""The cause by which a pod fits nowhere, and the rows about its nodes.

Among the reasons of the nodes that come nearest (``Verdict.hurdle``) the hardest is the cause; what has
to change besides it is added to the way out.
"""

from collections import Counter

from gpufleet.engine.reasons.table import TABLE
from gpufleet.explain import (
    locality_causes,
    neighbour_causes,
    node_causes,
    report_causes,
    room_causes,
)
from gpufleet.explain.answer import Finding, ReasonRow
from gpufleet.explain.case import Case, Explain
from gpufleet.explain.node_causes import repelling
from gpufleet.model.phrases import counted, listed

# The engine's reasons, each with the function that puts it in words.
CAUSES: dict[str, Explain] = {
    **node_causes.CAUSES,
    **report_causes.CAUSES,
    **room_causes.CAUSES,
    **locality_causes.CAUSES,
    **neighbour_causes.CAUSES,
}
NO_NODES = Finding(
    "no-nodes",
    "the cluster has no nodes",
    ("add a node; on your own machine `gpufleet up --nodes 20` makes simulated ones",),
)


def find_cause(case: Case) -> Finding:
    """The cause that matters and the ways out, the nearest first."""
    if not case.nodes:
        return _unreadable(case) or NO_NODES
    findings = [CAUSES[name](case) for name in case.hurdle]
    if not findings:
        return Finding("unknown", "no node refuses it now")
    first, *others = findings
    also = [f"besides, {other.why}" for other in others]
    ways = [*first.way_out, *(way for other in others for way in other.way_out[:1])]
    return Finding(first.cause, "; ".join([first.why, *also]), tuple(ways))


def _unreadable(case: Case) -> Finding | None:
    problems = sorted(case.facts.unreadable_nodes().values())
    if not problems:
        return None
    why = f"{counted(len(problems), 'node')} cannot be read, and there is no other: {problems[0]}"
    return Finding("node-unreadable", why, ("correct that field; a report of devices is the node agent's",))


def reason_rows(case: Case) -> tuple[ReasonRow, ...]:
    """All reasons with their nodes, those of the nodes that come nearest before the others."""
    firsts = Counter(reasons[0] for reasons in case.by_node.values() if reasons)
    nodes: dict[str, list[str]] = {}
    for name, reasons in sorted(case.by_node.items()):
        for reason in reasons:
            nodes.setdefault(reason, []).append(name)

    def rank(reason: str) -> tuple[bool, int, int]:
        place = case.hurdle.index(reason) if reason in case.hurdle else 0
        return (reason not in case.hurdle, place, -firsts[reason])

    return tuple(
        ReasonRow(
            reason,
            TABLE.by_name[reason].words,
            firsts[reason],
            len(nodes[reason]),
            tuple(nodes[reason]),
            _detail(case, reason),
        )
        for reason in sorted(nodes, key=rank)
    )


def _detail(case: Case, reason: str) -> str:
    """What people ask next when they read of a reason."""
    if reason != "taint":
        return ""
    barred = [node for node in case.nodes if reason in case.by_node.get(node.name, ())]
    taints = Counter(str(taint) for node in barred for taint in repelling(case, node))
    return listed(f"{taint} on {count}" for taint, count in taints.most_common())
