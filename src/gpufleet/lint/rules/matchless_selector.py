"""GPU019: a GPU pod selects nodes by labels that no node has."""

from collections.abc import Iterator
from dataclasses import replace

from gpufleet.lint.objects.cluster import Cluster
from gpufleet.lint.objects.context import Context
from gpufleet.lint.objects.manifest import Manifest, has_gpu_pods
from gpufleet.lint.objects.node_selection import NodeConditionFact
from gpufleet.lint.rule import CLUSTER_NEEDED, Rule, RuleFinding, Scope, Severity, Unjudged
from gpufleet.model.label_advice import advise


def _concerns(manifest: Manifest) -> bool:
    return has_gpu_pods(manifest) and any(any(one.node_terms) for one in manifest.templates)


def check(manifest: Manifest, context: Context) -> Iterator[RuleFinding | Unjudged]:
    """Each template that selects no node, at the first condition that nothing meets."""
    for template in manifest.templates:
        terms = template.node_terms
        if not template.uses_gpu or not any(terms):
            continue
        cluster = context.cluster
        if cluster is None or not cluster.knows("Node"):
            yield Unjudged(template.spec, CLUSTER_NEEDED)
        elif not any(_meets(cluster, term) for term in terms):
            conditions = [one for term in terms for one in term]
            alone = [one for one in conditions if not _meets(cluster, (one,))]
            worst = (alone or conditions)[0]
            found = _remark(cluster, worst) if alone else _together(worst)
            # A cloud may add such a node for the pod.
            yield replace(found, severity=Severity.WARNING if cluster.may_grow else None)


def _meets(cluster: Cluster, conditions: tuple[NodeConditionFact, ...]) -> bool:
    return bool(cluster.meeting(one.requirement for one in conditions))


def _remark(cluster: Cluster, condition: NodeConditionFact) -> RuleFinding:
    (advice,) = advise([condition.requirement], cluster.values_by_label)
    near = advice.nearest_value or advice.nearest_key
    way = f"did you mean {near}?" if near else "kubectl get nodes --show-labels shows what there is"
    return RuleFinding(condition.field, f"no node has {condition.requirement}", way)


def _together(condition: NodeConditionFact) -> RuleFinding:
    says = "no node meets all conditions of its selection at once"
    return RuleFinding(condition.field, says, "kubectl get nodes --show-labels shows what goes together")


RULE = Rule("GPU019", "Selector that matches no node", Severity.ERROR, check, Scope.CLUSTER, _concerns)
