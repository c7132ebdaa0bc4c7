"""Workloads that tolerate no GPU node's taint: rule GPU016 of lint, asked about what runs."""

from collections import Counter

from gpufleet.doctor.by_rule import judged_by
from gpufleet.doctor.check import Check, Layer, Point
from gpufleet.doctor.facts import Facts
from gpufleet.doctor.views.workloads import Workload
from gpufleet.lint.objects.manifest import Manifest
from gpufleet.lint.rules.missing_toleration import RULE


def _is_not_placed(_: Facts, workload: Workload) -> bool:
    """What all of its pods tolerate may be written by the server, as many clusters have it."""
    return not workload.pods or any(one.waits for one in workload.pods)


def taints(facts: Facts, manifest: Manifest) -> tuple[str, ...]:
    """The taints of the nodes that have what the workload asks for, and how many have each."""
    nodes = {node.name: node for one in manifest.templates for node in facts.cluster.nodes_for(one)}
    counts = Counter(str(taint) for node in nodes.values() for taint in node.taints)
    return tuple(f"{taint}: on {count} of {len(nodes)} nodes" for taint, count in counts.most_common())


CHECK = Check(
    "taint-untolerated",
    Point.PLACING,
    Layer.PLACEMENT,
    "GPU work tolerates the taints of GPU nodes",
    "A taint keeps every pod away that does not tolerate it, also the one that the node is for.",
    judged_by(
        RULE,
        "every GPU workload tolerates the taints of some GPU node",
        only=_is_not_placed,
        seen=taints,
    ),
    ("Node",),
)
