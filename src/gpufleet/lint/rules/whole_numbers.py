"""GPU002: a part of a GPU is asked for as a fraction of an extended resource, which is whole."""

from collections.abc import Iterator

from gpufleet.kube.meanings.gpu_resources import is_gpu
from gpufleet.lint.objects.amounts import amount
from gpufleet.lint.objects.context import Context
from gpufleet.lint.objects.manifest import Manifest
from gpufleet.lint.objects.placeholders import is_placeholder
from gpufleet.lint.rule import Rule, RuleFinding, Severity, Unjudged

ADVICE = (
    "ask for a MIG profile (nvidia.com/mig-1g.10gb: 1), a shared GPU (nvidia.com/gpu.shared: 1), or a "
    "fraction in the annotation gpufleet.io/gpu-fraction"
)


def check(manifest: Manifest, _: Context) -> Iterator[RuleFinding | Unjudged]:
    """Each limit and request of a GPU that is no whole number."""
    for template in manifest.templates:
        for container in template.all_containers:
            for name, field in (*container.limits.items(), *container.requests.items()):
                if not is_gpu(name):
                    continue
                if not field.exists:
                    says = f"container {container.name} names {name} without an amount, and gets none"
                    # Who leaves the amount out may have a script that puts it in.
                    advice = "write a whole number, such as 1"
                    yield RuleFinding(field, says, advice, severity=Severity.WARNING)
                    continue
                found = amount(field.text)
                if is_placeholder(field.text or ""):
                    yield Unjudged(field, f"the value that is put in for {field.text}")
                elif found is None:
                    says = f"{name}: {field.text!r} is no quantity"
                    yield RuleFinding(field, says, "write a whole number, such as 1")
                elif not found.is_whole():
                    says = f"container {container.name} asks for {field.text} of {name}, which is whole"
                    yield RuleFinding(field, says, ADVICE)
                elif found.nano < 0:
                    yield RuleFinding(
                        field, f"{name}: {field.text} is negative", "write a whole number, such as 1"
                    )


RULE = Rule("GPU002", "Fraction of a GPU as a resource", Severity.ERROR, check)
