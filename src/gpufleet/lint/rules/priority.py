"""GPU036: without a priority, serving and batch are worth the same when GPUs run short."""

from collections.abc import Iterator

from gpufleet.lint.objects.context import Context
from gpufleet.lint.objects.manifest import Manifest
from gpufleet.lint.rule import Rule, RuleFinding, Severity

_WORKLOAD_PRIORITY = "kueue.x-k8s.io/priority-class"
_KAI_PRIORITY = "priorityClassName"
"""KAI reads it as a label too."""

_OF_THE_JOB = (("priorityClassName",), ("runPolicy", "schedulingPolicy", "priorityClass"))
"""Where jobs of Volcano and of Kubeflow name the class for all their pods."""


def check(manifest: Manifest, _: Context) -> Iterator[RuleFinding]:
    """Each template that asks for GPUs and names no class; one finding for an object is enough."""
    if manifest.root.at("metadata", "labels", _WORKLOAD_PRIORITY).exists:
        return
    if any(manifest.root.at("spec", *path).exists for path in _OF_THE_JOB):
        return
    for template in manifest.templates:
        spec = template.spec
        labels = (template.metadata.at("labels"), manifest.root.at("metadata", "labels"))
        if any(one.at(_KAI_PRIORITY).exists for one in labels):
            continue
        if template.asks_for_gpu and not (spec.at("priorityClassName").exists or spec.at("priority").exists):
            yield RuleFinding(
                spec, "asks for GPUs and has no priorityClassName", "name the class of its kind of work"
            )
            return


RULE = Rule("GPU036", "GPU workload without a priority", Severity.INFO, check)
