"""GPU016: every node with the GPUs that a pod asks for has a taint that it does not tolerate."""

from collections.abc import Iterator

from gpufleet.lint.edits.edits import Append, Fix
from gpufleet.lint.objects.cluster import Cluster, ClusterNode, tolerations_on
from gpufleet.lint.objects.context import Context
from gpufleet.lint.objects.manifest import Manifest
from gpufleet.lint.objects.pods import PodTemplate
from gpufleet.lint.rule import CLUSTER_NEEDED, Rule, RuleFinding, Scope, Severity, Unjudged
from gpufleet.lint.source.nodes import Data
from gpufleet.model.taint import NO_SCHEDULE, Taint, untolerated

NODE_STATE = "node.kubernetes.io/"
"""The prefix of the taints by which Kubernetes marks nodes that are cordoned, not ready or under pressure."""


def check(manifest: Manifest, context: Context) -> Iterator[RuleFinding | Unjudged]:
    """Each template that no GPU node takes for its taints."""
    for template in manifest.templates:
        if not template.asks_for_gpu:
            continue
        if context.cluster is None or not context.cluster.knows("Node"):
            yield Unjudged(template.spec, CLUSTER_NEEDED)
            continue
        taint = _keeping_away(template, _meant(template, context.cluster))
        if taint is not None:
            yield _remark(template, taint)


def _meant(template: PodTemplate, cluster: Cluster) -> tuple[ClusterNode, ...]:
    """The nodes that the pod selects and that have its GPUs; all that have them where it selects no node."""
    selected = cluster.candidates(template)
    return selected or (() if cluster.taken(template) else cluster.nodes_for(template))


def _keeping_away(template: PodTemplate, nodes: tuple[ClusterNode, ...]) -> Taint | None:
    """The first node's taint that is not tolerated, where every node has such a one."""
    first = None
    for node in nodes:
        # That a node is cordoned or not ready is no matter of a pod's tolerations.
        taints = tuple(one for one in node.taints if not one.key.startswith(NODE_STATE))
        taint = untolerated(taints, tolerations_on(node, template))
        if taint is None:
            return None
        first = first or taint
    return first


def _remark(template: PodTemplate, taint: Taint) -> RuleFinding:
    says = f"every node with its GPUs is tainted, and it does not tolerate {taint}"
    fix = Fix(f"tolerate {taint}", (Append(template.spec.at("tolerations"), _toleration(taint)),))
    # What is to leave a node at once says so with NoExecute: a person decides against that.
    return RuleFinding(template.spec, says, f"tolerate {taint}", fix if taint.effect == NO_SCHEDULE else None)


def _toleration(taint: Taint) -> Data:
    value: dict[str, Data] = (
        {"operator": "Equal", "value": taint.value} if taint.value else {"operator": "Exists"}
    )
    return {"key": taint.key, **value, "effect": taint.effect}


RULE = Rule("GPU016", "Taint that is not tolerated", Severity.ERROR, check, Scope.CLUSTER, fixes=True)
