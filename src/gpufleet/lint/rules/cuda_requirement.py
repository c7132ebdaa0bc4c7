"""GPU013: what an image requires of the driver does not hold on a node, or is not looked at."""

from collections.abc import Iterator

from gpufleet.cuda.requirement import DISABLE, check_requirement, is_disabled
from gpufleet.lint.images_on_nodes import judged
from gpufleet.lint.objects.context import Context
from gpufleet.lint.objects.cuda_images import cuda_containers, image_facts
from gpufleet.lint.objects.manifest import Manifest
from gpufleet.lint.rule import Rule, RuleFinding, Scope, Severity, Unjudged


def check(manifest: Manifest, context: Context) -> Iterator[RuleFinding | Unjudged]:
    """Each container that switches the check off, else each with a requirement that a node refuses."""
    off = [
        one
        for template in manifest.templates
        for one in cuda_containers(template)
        if is_disabled(image_facts(one).environment)
    ]
    for container in off:
        variable = container.variable(DISABLE)
        if variable is not None:
            says = f"container {container.name} switches the check of its driver off with {DISABLE}"
            advice = "leave it out: a driver that is too old then shows at the start, and not in the middle"
            yield RuleFinding(variable.field, says, advice)
    if not off:
        yield from judged(manifest, context, check_requirement)


RULE = Rule(
    "GPU013", "Requirement on the driver unmet or switched off", Severity.WARNING, check, Scope.CLUSTER
)
