"""What nodes have against a pod, in words: the engine's findings, and rows about its nodes."""

from gpufleet.cluster.facts import Facts
from gpufleet.engine.explanations.causes import GANG_FIT
from gpufleet.engine.explanations.explanation import Explanation
from gpufleet.explain.answer import Finding, NearRow, ReasonRow
from gpufleet.kube.codec.field_path import harmless
from gpufleet.model.gang import Gang
from gpufleet.model.phrases import counted

ADD_A_NODE = "add a node; on your own machine `gpufleet up --nodes 20` makes simulated ones"


def find_cause(said: Explanation) -> Finding:
    """The reasons of the nodes that come nearest, the hardest first, and the ways out."""
    if not said.findings:
        return Finding(said.cause, "nodes have room for it, and others come first", ("wait for its turn",))
    first, *others = said.findings
    also = [f"besides, {other.why}" for other in others]
    ways = [*first.way_out, *(way for other in others for way in other.way_out[:1])]
    return Finding(said.cause, "; ".join([first.why, *also]), tuple(ways))


def no_nodes(facts: Facts, said: Explanation) -> Finding:
    """The cluster has no node, or none that can be read."""
    problems = sorted(facts.unreadable_nodes().values())
    if not problems:
        return Finding(said.cause, "the cluster has no nodes", (ADD_A_NODE,))
    why = f"{counted(len(problems), 'node')} cannot be read, and there is no other: {problems[0]}"
    return Finding(said.cause, why, ("correct that field; a report of devices is the node agent's",))


def not_together(gang: Gang | None) -> Finding:
    """Room for the gang's next member is there, but not where its others must be."""
    if gang is None or gang.required_level is None:
        why = "nodes have room for it, but not together with as many others as must start at once"
        return Finding(GANG_FIT, why, ("wait until more is free", "let fewer members start at once"))
    level = harmless(gang.required_level)
    why = f"all members must share one value of {level}, and the nodes of none have room for it too"
    return Finding(GANG_FIT, why, (f"wait until more of one {level} is free", "allow a wider level"))


def reason_rows(said: Explanation) -> tuple[ReasonRow, ...]:
    """All reasons with their nodes, those of the nodes that come nearest before the others."""
    return tuple(
        ReasonRow(one.reason, one.words, one.first, one.all, one.nodes, one.detail) for one in said.counts
    )


def near_rows(said: Explanation) -> tuple[NearRow, ...]:
    """The nodes that come nearest."""
    return tuple(
        NearRow(one.node, one.reasons, one.short, tuple(holder.name for holder in one.holders))
        for one in said.nearest
    )
