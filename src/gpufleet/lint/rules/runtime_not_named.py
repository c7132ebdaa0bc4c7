"""GPU009: a GPU pod names no RuntimeClass where NVIDIA's runtime is not the one that nodes use."""

from collections.abc import Iterator

from gpufleet.lint.edits.edits import Fix, Insert
from gpufleet.lint.objects.context import Context
from gpufleet.lint.objects.cuda_images import cuda_containers
from gpufleet.lint.objects.manifest import Manifest
from gpufleet.lint.rule import Rule, RuleFinding, Scope, Severity, Unjudged, cluster_needed

FIELD = "runtimeClassName"
_POLICY = "ClusterPolicy"
_POLICY_NEEDED = f"the GPU operator's settings: {cluster_needed('clusterpolicies')}"
_SETTINGS_NEEDED = "cdi.enabled and CONTAINERD_SET_AS_DEFAULT, which the ClusterPolicy leaves to its operator"
_NODES_NEEDED = "which runtime the nodes use by default, which no object says without the GPU operator"
_CLASS_VARIABLE = "CONTAINERD_RUNTIME_CLASS"
_DEFAULT_VARIABLE = "CONTAINERD_SET_AS_DEFAULT"
_NO = frozenset({"false", "0"})


def check(manifest: Manifest, context: Context) -> Iterator[RuleFinding | Unjudged]:
    """Each template with GPUs that names none, unless the operator makes that right."""
    cluster = context.cluster
    policies = [one for one in (cluster.manifests if cluster else ()) if one.kind == _POLICY]
    for template in manifest.templates:
        if template.spec.at(FIELD).exists or not any(cuda_containers(template)):
            continue
        if not policies:
            known = cluster is not None and cluster.knows(_POLICY)
            yield Unjudged(template.spec, _NODES_NEEDED if known else _POLICY_NEEDED)
            continue
        needed = needed_class(policies[0])
        if needed is None:
            yield Unjudged(template.spec, _SETTINGS_NEEDED)
        elif needed:
            says = f"names no RuntimeClass, and only pods of the class {needed} get to their GPUs"
            fix = Fix(f"name the RuntimeClass {needed}", (Insert(template.spec, FIELD, needed),))
            yield RuleFinding(template.spec, says, f"set {FIELD}: {needed}", fix)


def needed_class(policy: Manifest) -> str | None:
    """The class that pods must name, empty if none; None where the policy leaves it to its version."""
    spec = policy.root.at("spec")
    variables = {one.at("name").text: one.at("value").text or "" for one in spec.at("toolkit", "env").items()}
    if spec.at("cdi", "enabled").is_true:
        return ""
    if variables.get(_DEFAULT_VARIABLE, "").lower() not in _NO:
        return "" if spec.at("toolkit", "enabled").is_true else None
    if not spec.at("cdi", "enabled").exists:
        return None
    return variables.get(_CLASS_VARIABLE) or spec.at("operator", "runtimeClass").text or "nvidia"


RULE = Rule("GPU009", "RuntimeClass that is not named", Severity.WARNING, check, Scope.CLUSTER, fixes=True)
