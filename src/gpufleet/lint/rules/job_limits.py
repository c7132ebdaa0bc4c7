"""GPU037: a Job that nothing ends holds its GPUs for ever."""

from collections.abc import Iterator

from gpufleet.kube.keys import KUEUE_RUN_TIME_MAX
from gpufleet.lint.objects.context import Context
from gpufleet.lint.objects.manifest import Manifest, has_gpu_pods
from gpufleet.lint.rule import Rule, RuleFinding, Severity
from gpufleet.lint.source.fields import Field

# How long, how long it is kept, and how often it may fail.
_BOUNDS = ("activeDeadlineSeconds", "ttlSecondsAfterFinished", "backoffLimit")


def _spec(manifest: Manifest) -> Field | None:
    spec = manifest.root.at("spec")
    if manifest.group == "batch":
        return {"Job": spec, "CronJob": spec.at("jobTemplate", "spec")}.get(manifest.kind)
    if manifest.group == "kubeflow.org" and manifest.kind != "Notebook":
        return spec.at("runPolicy")
    return None


def _concerns(manifest: Manifest) -> bool:
    return _spec(manifest) is not None and has_gpu_pods(manifest)


def check(manifest: Manifest, _: Context) -> Iterator[RuleFinding]:
    """The Job, with the bounds that it lacks."""
    spec = _spec(manifest)
    if spec is None:
        return
    given = {name for name in _BOUNDS if spec.at(name).exists}
    if manifest.kind == "CronJob":
        # It keeps few of its Jobs by itself.
        given.add("ttlSecondsAfterFinished")
    if manifest.root.at("metadata", "labels", KUEUE_RUN_TIME_MAX).exists:
        given.add("activeDeadlineSeconds")
    bounds = [name for name in _BOUNDS if name not in given]
    if bounds:
        advice = "say how long it may run, how often it may fail, and when it is removed"
        yield RuleFinding(spec, f"has no {', no '.join(bounds)}", advice)


RULE = Rule("GPU037", "Job without an end", Severity.WARNING, check, concerns=_concerns)
