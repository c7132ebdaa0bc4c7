"""GPU008: a GPU pod shares the processes or the memory of its node."""

from collections.abc import Iterator

from gpufleet.lint.edits.edits import Fix, Remove
from gpufleet.lint.objects.context import Context
from gpufleet.lint.objects.manifest import Manifest
from gpufleet.lint.objects.pods import PodTemplate
from gpufleet.lint.rule import Rule, RuleFinding, Severity

MPS = "CUDA_MPS_PIPE_DIRECTORY"


def check(manifest: Manifest, _: Context) -> Iterator[RuleFinding]:
    """Each namespace of the host that a GPU pod shares."""
    for template in manifest.templates:
        if not template.uses_gpu or template.is_gpu_infrastructure:
            continue
        for name in ("hostPID", "hostIPC"):
            field = template.spec.at(name)
            # Clients of MPS talk to its daemon through shared memory of the node, by design.
            if field.is_true and not (name == "hostIPC" and _uses_mps(template)):
                yield RuleFinding(
                    field,
                    f"{name} shows the pod what other pods of its node run",
                    "remove it; shared memory within the pod is a volume at /dev/shm",
                    Fix(f"remove {name}", (Remove(field),)),
                )


def _uses_mps(template: PodTemplate) -> bool:
    return any(one.variable(MPS) for one in template.all_containers)


RULE = Rule("GPU008", "Host namespaces on a GPU pod", Severity.WARNING, check, fixes=True)
