"""GPU044: a process of CUDA uses one MIG instance, however many it is given."""

from collections.abc import Iterator

from gpufleet.lint.objects.amounts import amount
from gpufleet.lint.objects.context import Context
from gpufleet.lint.objects.manifest import Manifest
from gpufleet.lint.rule import Rule, RuleFinding, Severity
from gpufleet.model.resource_names import is_mig_instance


def check(manifest: Manifest, _: Context) -> Iterator[RuleFinding]:
    """Each container with more than one instance."""
    for template in manifest.templates:
        for container in template.all_containers:
            fields = [field for name, field in container.limits.items() if is_mig_instance(name)]
            counts = [found.value() for field in fields if (found := amount(field.text)) is not None]
            if sum(counts) > 1:
                says = f"container {container.name} asks for {sum(counts)} MIG instances"
                yield RuleFinding(
                    fields[0], says, "ask for one instance of a larger profile, or for pods with one each"
                )


RULE = Rule("GPU044", "Several MIG instances for one container", Severity.WARNING, check)
