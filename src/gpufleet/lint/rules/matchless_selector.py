"""GPU019: a GPU pod selects nodes by labels that no node has."""

from collections.abc import Iterator

from gpufleet.lint.objects.cluster import Cluster, NodeConditionFact, node_terms
from gpufleet.lint.objects.context import Context
from gpufleet.lint.objects.manifest import Manifest, has_gpu_pods
from gpufleet.lint.rule import CLUSTER_NEEDED, Rule, RuleFinding, Scope, Severity, Unjudged
from gpufleet.model.label_advice import advise


def _concerns(manifest: Manifest) -> bool:
    return has_gpu_pods(manifest) and any(any(node_terms(one)) for one in manifest.templates)


def check(manifest: Manifest, context: Context) -> Iterator[RuleFinding | Unjudged]:
    """Each template that selects no node, at the first condition that nothing meets."""
    for template in manifest.templates:
        terms = node_terms(template)
        if not template.uses_gpu or not any(terms):
            continue
        cluster = context.cluster
        if cluster is None or not cluster.knows("Node"):
            yield Unjudged(template.spec, CLUSTER_NEEDED)
        elif not any(_meets(cluster, term) for term in terms):
            conditions = [one for term in terms for one in term]
            alone = [one for one in conditions if not _meets(cluster, (one,))]
            worst = (alone or conditions)[0]
            yield _remark(cluster, worst) if alone else _together(worst)


def _meets(cluster: Cluster, conditions: tuple[NodeConditionFact, ...]) -> bool:
    return any(all(one.requirement.accepts(node.labels) for one in conditions) for node in cluster.nodes)


def _remark(cluster: Cluster, condition: NodeConditionFact) -> RuleFinding:
    known: dict[str, set[str | None]] = {}
    for node in cluster.nodes:
        for key, value in node.labels.items():
            known.setdefault(key, set()).add(value)
    (advice,) = advise([condition.requirement], known)
    near = advice.nearest_value or advice.nearest_key
    way = f"did you mean {near}?" if near else "kubectl get nodes --show-labels shows what there is"
    return RuleFinding(condition.field, f"no node has {condition.requirement}", way)


def _together(condition: NodeConditionFact) -> RuleFinding:
    says = "no node meets all conditions of its selection at once"
    return RuleFinding(condition.field, says, "kubectl get nodes --show-labels shows what goes together")


RULE = Rule("GPU019", "Selector that matches no node", Severity.ERROR, check, Scope.CLUSTER, _concerns)
