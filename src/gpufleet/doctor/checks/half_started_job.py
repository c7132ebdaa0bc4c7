"""Distributed work that was placed in part: it holds GPUs and waits for the rest, because it is no gang."""

import re
from collections.abc import Iterator

from gpufleet.doctor.check import Check, Failure, Good, Layer, Point, Remedy
from gpufleet.doctor.facts import Facts
from gpufleet.doctor.kubectl import get_command
from gpufleet.doctor.objects.workloads import Workload
from gpufleet.kube import keys
from gpufleet.lint.objects.manifest import Manifest
from gpufleet.lint.rule import RuleFinding
from gpufleet.lint.rules.gang import RULE
from gpufleet.model.phrases import counted, none_of, subject, verb

_PATIENCE_S = 300.0
"""Pods that come together are placed within minutes; those that still wait have no place."""

_LAUNCHER = re.compile(
    r"\b(torchrun|torch\.distributed|mpirun|mpiexec|deepspeed|accelerate launch|horovodrun)\b"
)
_WORLD = re.compile(r"MASTER_ADDR|WORLD_SIZE|NNODES|NCCL_.*|JAX_COORDINATOR_ADDRESS")


def judge(facts: Facts) -> Iterator[Failure | Good]:
    """Each distributed workload that was placed in part, once the rest had time to come."""
    distributed = [one for one in facts.gpu_workloads if RULE.concerns(one.manifest) and _talks(one.manifest)]
    bad = 0
    for one in distributed:
        placed = [pod for pod in one.pods if pod.node and pod.asks_for_gpu]
        waiting = [pod for pod in one.pods if pod.waits and pod.age_s(facts.now) > _PATIENCE_S]
        # With a gang the scheduler takes the placed part back by itself.
        if placed and waiting and _has_no_gang(facts, one):
            bad += 1
            gpus = sum(pod.template.device_count for pod in placed)
            yield Failure(
                f"{one.title}: {subject(len(placed), 'pod', 'hold')} {counted(gpus, 'GPU')} "
                f"and {verb(len(placed), 'wait')} for {len(waiting)}"
                " that have no node",
                (one.title,),
                tuple(f"{pod.title}: {pod.verdict or 'no node'}" for pod in waiting),
                (
                    Remedy(
                        "let its pods start together or not at all: write on the pod template, for"
                        f" schedulerName gpufleet, the annotation {keys.GANG}, or use Kueue, Volcano or KAI"
                    ),
                    Remedy(
                        "free what it holds until then",
                        get_command(one.manifest).replace("kubectl get", "kubectl delete", 1),
                    ),
                ),
                frozenset(pod.title for pod in one.pods),
            )
    if distributed and not bad:
        yield Good(f"{none_of(len(distributed), 'distributed job')} holds GPUs for pods that have no node")


def _talks(manifest: Manifest) -> bool:
    """Whether its pods need each other; those of a Job with an index may be a piece of work each."""
    if (manifest.group, manifest.kind) != ("batch", "Job"):
        return True
    return any(
        template.spec.at("subdomain").exists
        or _LAUNCHER.search(" ".join(container.words))
        or any(_WORLD.fullmatch(one.name) for one in container.env)
        for template in manifest.templates
        for container in template.containers
    )


def _has_no_gang(facts: Facts, workload: Workload) -> bool:
    return any(isinstance(one, RuleFinding) for one in RULE.check(workload.manifest, facts.context))


CHECK = Check(
    "gang-half-started",
    Point.GANGS,
    Layer.START,
    "Distributed work has all of its pods or none",
    "Two jobs of which each has half wait for each other for ever, and all their GPUs are idle.",
    judge,
    ("Pod",),
)
