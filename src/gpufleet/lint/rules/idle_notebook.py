"""GPU038: a notebook keeps its GPU for as long as it is open somewhere."""

from collections.abc import Iterator

from gpufleet.lint.objects.context import Context
from gpufleet.lint.objects.manifest import Manifest, has_gpu_pods
from gpufleet.lint.rule import Rule, RuleFinding, Scope, Severity, Unjudged

SETTING = "ENABLE_CULLING"
_NEEDED = (
    f"the notebook controller's {SETTING}: its Deployment (--live, or in --cluster FILE), or the ConfigMap"
    " that has it, which --live does not read (in --cluster FILE, or among the manifests)"
)


def check(manifest: Manifest, context: Context) -> Iterator[RuleFinding | Unjudged]:
    """A notebook of Kubeflow, unless its controller stops those that are idle."""
    known = context.cluster.manifests if context.cluster is not None else ()
    told = [text for one in (*known, *context.manifests) for text in _settings(one)]
    if not told:
        yield Unjudged(manifest.root.at("spec"), _NEEDED)
    elif not any(text.lower() == "true" for text in told):
        says = f"keeps its GPU while it is not used: {SETTING} is {told[0] or 'empty'}"
        advice = f"set {SETTING}=true and CULL_IDLE_TIME (minutes) for the notebook controller"
        yield RuleFinding(manifest.root.at("spec"), says, advice)


def _settings(manifest: Manifest) -> Iterator[str]:
    """What an object says of culling: the controller's settings, or its variables."""
    if manifest.kind == "ConfigMap":
        field = manifest.root.at("data", SETTING)
        if field.exists:
            yield field.text or ""
    elif manifest.kind == "Deployment":
        for template in manifest.templates:
            for container in template.containers:
                variable = container.variable(SETTING)
                if variable is not None and variable.value is not None:
                    yield variable.value


RULE = Rule(
    "GPU038",
    "Notebook that is never stopped",
    Severity.WARNING,
    check,
    Scope.CLUSTER,
    concerns=lambda manifest: manifest.kind == "Notebook" and has_gpu_pods(manifest),
)
