"""GPU006: a privileged container on a GPU node sees every device, whatever it was given."""

from collections.abc import Iterator

from gpufleet.lint.edits.edits import Fix, removal
from gpufleet.lint.objects.context import Context
from gpufleet.lint.objects.manifest import Manifest
from gpufleet.lint.rule import Rule, RuleFinding, Severity


def check(manifest: Manifest, _: Context) -> Iterator[RuleFinding]:
    """Each privileged container of a pod that uses GPUs."""
    for template in manifest.templates:
        if not template.uses_gpu or template.is_gpu_infrastructure:
            continue
        for container in template.all_containers:
            field = container.field.at("securityContext", "privileged")
            if field.is_true:
                says = f"container {container.name} of a GPU workload is privileged"
                advice = (
                    "drop it; what needs more than the default gets that one capability (IPC_LOCK for RDMA)"
                )
                does = f"make container {container.name} unprivileged"
                yield RuleFinding(field, says, advice, Fix(does, (removal(field),)))


RULE = Rule("GPU006", "Privileged GPU workload", Severity.ERROR, check, fixes=True)
