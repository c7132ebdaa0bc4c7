"""GPU010: a pod names a RuntimeClass that the cluster does not have, and is refused."""

from collections.abc import Iterator

from gpufleet.lint.objects.context import Context
from gpufleet.lint.objects.manifest import Manifest
from gpufleet.lint.rule import Rule, RuleFinding, Scope, Severity, Unjudged, cluster_needed
from gpufleet.model.label_advice import nearest

FIELD = "runtimeClassName"


def _concerns(manifest: Manifest) -> bool:
    return any(one.spec.at(FIELD).exists for one in manifest.templates)


def check(manifest: Manifest, context: Context) -> Iterator[RuleFinding | Unjudged]:
    """Each RuntimeClass that a pod names and neither the cluster nor these manifests have."""
    here = {one.name for one in context.of_kind("RuntimeClass")}
    for template in manifest.templates:
        field = template.spec.at(FIELD)
        name = field.text
        if name is None or name in here:
            continue
        if context.cluster is None or not context.cluster.knows("RuntimeClass"):
            yield Unjudged(field, cluster_needed("runtimeclasses"))
        elif name not in (known := context.cluster.names("RuntimeClass")):
            meant = nearest(name, sorted(known))
            advice = f"did you mean {meant}?" if meant else "create it, or leave the field out"
            yield RuleFinding(
                field, f"names the RuntimeClass {name}, which the cluster does not have", advice
            )


RULE = Rule("GPU010", "Missing RuntimeClass", Severity.ERROR, check, Scope.CLUSTER, _concerns)
