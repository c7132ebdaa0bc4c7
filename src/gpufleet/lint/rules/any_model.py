"""GPU018: in a cluster with several models of GPU, a pod takes whichever comes."""

from collections.abc import Iterator

from gpufleet.kube.meanings.node_labels import CARD_LABELS, PRODUCT_LABELS
from gpufleet.lint.objects.context import Context
from gpufleet.lint.objects.manifest import Manifest
from gpufleet.lint.rule import CLUSTER_NEEDED, Rule, RuleFinding, Scope, Severity, Unjudged


def check(manifest: Manifest, context: Context) -> Iterator[RuleFinding | Unjudged]:
    """Each template that several models would take."""
    for template in manifest.templates:
        if not template.asks_for_gpu:
            continue
        if context.cluster is None or not context.cluster.knows("Node"):
            yield Unjudged(template.spec, CLUSTER_NEEDED)
            continue
        terms = template.node_terms
        models = {
            node.labels.get(label)
            for node in context.cluster.nodes_for(template)
            for label in PRODUCT_LABELS
            if any(all(one.requirement.accepts(node.labels) for one in term) for term in terms)
        }
        models.discard(None)
        # A pod that names several models is meant to run on any of them.
        named = any(one.requirement.key in CARD_LABELS for term in terms for one in term)
        if len(models) > 1 and not named:
            words = ", ".join(sorted(str(one) for one in models))
            says = f"may land on any of {words}"
            yield RuleFinding(
                template.spec, says, "require nvidia.com/gpu.product or .memory by node affinity"
            )


RULE = Rule("GPU018", "Any model of GPU will do", Severity.WARNING, check, Scope.CLUSTER)
