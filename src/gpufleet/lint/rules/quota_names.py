"""GPU051: a quota that does not count GPUs, or a default that gives one to every pod."""

from collections.abc import Iterator

from gpufleet.kube.meanings.gpu_resources import is_gpu
from gpufleet.lint.context import Context
from gpufleet.lint.edits.edits import Edit, Fix, Remove, Rename, removal
from gpufleet.lint.objects.manifest import Manifest
from gpufleet.lint.rule import Remark, Rule, Severity, has_gpu_pods

_LIMITS, _REQUESTS = "limits.", "requests."
# A quota on these alone is meant for the namespace, and forgets its GPUs.
_HOST = frozenset({"cpu", "memory", "requests.cpu", "requests.memory", "limits.cpu", "limits.memory", "pods"})


def _is_guard(manifest: Manifest) -> bool:
    return manifest.group == "" and manifest.kind in {"ResourceQuota", "LimitRange"}


def check(manifest: Manifest, context: Context) -> Iterator[Remark]:
    """Each bound on GPUs that is not counted, each default, and a quota without GPUs beside GPU pods."""
    if manifest.kind == "LimitRange":
        yield from _defaults(manifest)
        return
    hard = manifest.root.at("spec", "hard")
    for name, field in hard.entries():
        resource = name.removeprefix(_LIMITS)
        if name.startswith(_LIMITS) and is_gpu(resource):
            right = _REQUESTS + resource
            edit: Edit = Remove(field) if hard.at(right).exists else Rename(field, right)
            says = f"bounds {name}, which Kubernetes does not count"
            yield Remark(field, says, f"bound {right}", Fix(f"bound {right}", (edit,)))
    names = {name for name, _ in hard.entries()}
    counts = any(is_gpu(name.removeprefix(_LIMITS).removeprefix(_REQUESTS)) for name in names)
    if names & _HOST and not counts:
        users = [
            one for kind in ("Deployment", "Job", "Pod") for one in context.of_kind(kind, beside=manifest)
        ]
        if any(map(has_gpu_pods, users)):
            says = (
                "bounds what pods take of the host and nothing of GPUs, which pods of this namespace ask for"
            )
            yield Remark(hard, says, "bound requests.nvidia.com/gpu")


def _defaults(manifest: Manifest) -> Iterator[Remark]:
    for limit in manifest.root.at("spec", "limits").items():
        for part in ("default", "defaultRequest"):
            for name, field in limit.at(part).entries():
                if is_gpu(name):
                    says = f"gives {field.text} of {name} to every container that asks for none"
                    fix = Fix(f"remove the default of {name}", (removal(field),))
                    yield Remark(field, says, "remove it; a pod that needs a GPU asks for it", fix)


RULE = Rule(
    "GPU051", "Quota that does not count GPUs", Severity.WARNING, check, concerns=_is_guard, fixes=True
)
