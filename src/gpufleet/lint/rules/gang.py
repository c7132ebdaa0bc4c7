"""GPU023: pods that only work together are not placed together."""

import re
from collections.abc import Iterator

from gpufleet.kube import keys
from gpufleet.kube.meanings.group_names import GROUP_NAMES
from gpufleet.lint.objects.context import Context
from gpufleet.lint.objects.manifest import Manifest
from gpufleet.lint.objects.pods import PodTemplate
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
_MEET = re.compile(
    r"torchrun|torch\.distributed|--?nnodes|--?rdzv|--?num[-_]machines|--?node[-_]rank|--?dist[-_]init[-_]addr"
    r"|--?master[-_](addr|port)|mpirun|mpiexec|deepspeed|horovodrun|jax\.distributed|--?coordinator[-_]address"
    r"|ray start"
)
"""Words of a command whose processes wait for those of other pods."""
_MEETING_PLACES = re.compile(
    r"MASTER_ADDR|MASTER_PORT|WORLD_SIZE|NNODES|NUM_NODES|NODE_RANK|PET_.*|TF_CONFIG|TPU_WORKER_HOSTNAMES"
    r"|(JAX_)?COORDINATOR_ADDR(ESS)?|RDZV_.*|NCCL_.*|MEGASCALE_.*"
)
"""Variables that tell processes where they meet those of other pods."""


def _is_distributed(manifest: Manifest) -> bool:
    members = sum(one.replicas or 0 for one in manifest.templates if one.asks_for_gpu)
    if manifest.kind == "Job" and manifest.group == "batch":
        # Pods of a Job without an index cannot know each other: a queue of work, not a gang.
        return members > 1 and _is_indexed_together(manifest)
    return manifest.kind in _TRAINING and members > 1 and not _starts_alone(manifest)


def _is_indexed_together(job: Manifest) -> bool:
    """Whether pods of an indexed Job know each other, or each works at its own part of the data."""
    spec = job.root.at("spec")
    if spec.at("completionMode").text != "Indexed" or spec.at("backoffLimitPerIndex").exists:
        return False
    completions, parallelism = spec.at("completions").integer, spec.at("parallelism").integer
    if completions is not None and parallelism is not None and completions > parallelism:
        # Later indexes run when earlier ones have ended.
        return False
    return any(_meets_others(one) for one in job.templates if one.asks_for_gpu)


def _meets_others(template: PodTemplate) -> bool:
    """Whether pods find each other by a subdomain, a variable or an option of their command."""
    if template.spec.at("subdomain").exists:
        return True
    return any(
        _MEET.search(" ".join(container.words)) is not None
        or any(_MEETING_PLACES.fullmatch(variable.name) for variable in container.env)
        for container in template.containers
    )


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
