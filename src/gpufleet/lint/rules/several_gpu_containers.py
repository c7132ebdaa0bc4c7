"""GPU045: GPUs in several containers of one pod add up, which is seldom meant."""

from collections.abc import Iterator

from gpufleet.lint.objects.context import Context
from gpufleet.lint.objects.manifest import Manifest
from gpufleet.lint.rule import Rule, RuleFinding, Severity


def check(manifest: Manifest, _: Context) -> Iterator[RuleFinding]:
    """Each pod with GPUs in more than one container."""
    for template in manifest.templates:
        holders = [one for one in template.all_containers if one.device_count]
        if len(holders) < 2 or template.is_gpu_infrastructure:
            continue
        names = ", ".join(one.name for one in holders)
        if sum(not one.is_init for one in holders) > 1:
            says = (
                f"containers {names} ask for GPUs of their own: {template.device_count} together, not shared"
            )
        else:
            says = (
                f"containers {names} ask for GPUs: the pod needs the larger of both counts from start to end"
            )
        yield RuleFinding(holders[1].field, says, "give the GPUs to one container, or split the pod")


RULE = Rule("GPU045", "GPUs in several containers of a pod", Severity.WARNING, check)
