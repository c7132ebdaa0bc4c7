"""GPU023: pods that only work together are not placed together."""

from collections.abc import Iterator

from gpufleet.kube import keys
from gpufleet.kube.meanings.group_names import GROUP_NAMES
from gpufleet.lint.objects.context import Context
from gpufleet.lint.objects.manifest import Manifest
from gpufleet.lint.rule import Rule, RuleFinding, Severity

# Kinds whose pods compute together: one alone waits for the others and holds its GPUs.
_TRAINING = frozenset({"PyTorchJob", "TFJob", "MPIJob", "XGBoostJob", "PaddleJob", "JAXJob", "JobSet"})
# Any of these hands the pods to a scheduler that starts them together.
_MARKS = (
    *keys.QUEUE_KEYS,
    *(key for way in GROUP_NAMES if way.parts for key in way.keys),
    keys.GANG_MIN_MEMBERS,
)
_GANG_SCHEDULERS = frozenset({"volcano", "kai-scheduler", "gpufleet"})
"""Schedulers that see by the owner that pods of a training job belong together."""


def _is_distributed(manifest: Manifest) -> bool:
    members = sum(one.replicas or 0 for one in manifest.templates if one.asks_for_gpu)
    if manifest.kind == "Job" and manifest.group == "batch":
        # Pods of a Job without an index cannot know each other: a queue of work, not a gang.
        return members > 1 and manifest.root.at("spec", "completionMode").text == "Indexed"
    return manifest.kind in _TRAINING and members > 1 and not _starts_alone(manifest)


def _starts_alone(manifest: Manifest) -> bool:
    """Whether it is elastic down to one worker, which then waits for no other."""
    return manifest.root.at("spec", "elasticPolicy", "minReplicas").integer == 1


def check(manifest: Manifest, _: Context) -> Iterator[RuleFinding]:
    """The object, if nothing of it or of its pods names a gang or a queue."""
    places = [manifest.root.at("metadata"), *(one.metadata for one in manifest.templates)]
    marked = any(
        place.at(part, mark).exists
        for place in places
        for part in ("labels", "annotations")
        for mark in _MARKS
    )
    scheduled = any(one.spec.at("schedulerName").text in _GANG_SCHEDULERS for one in manifest.templates)
    native = any(
        one.spec.at(name).exists for one in manifest.templates for name in ("workloadRef", "schedulingGroup")
    )
    operator = manifest.root.at("spec", "runPolicy", "schedulingPolicy").exists
    if not (marked or scheduled or native or operator):
        says = "its pods start only together, and nothing places them together"
        advice = f"name a queue ({keys.QUEUE}) or a gang ({keys.GANG}), or a scheduler that places gangs"
        yield RuleFinding(manifest.root.at("spec"), says, advice)


RULE = Rule("GPU023", "Distributed job without a gang", Severity.ERROR, check, concerns=_is_distributed)
