"""Autoscalers that may ask for more GPUs than the namespace's quota or the whole cluster has."""

from collections.abc import Iterator

from gpufleet.doctor.check import Check, Failure, Grade, Layer, Point, Remedy
from gpufleet.doctor.facts import Facts
from gpufleet.doctor.kubectl import get_command
from gpufleet.doctor.views.growth import may_grow
from gpufleet.doctor.views.scalers import Scaler, gpu_scalers
from gpufleet.lint.objects.amounts import amount
from gpufleet.model.phrases import counted


def judge(facts: Facts) -> Iterator[Failure]:
    """Each autoscaler, by the nearest bound that it can run into."""
    has_bounds = not may_grow(facts)
    for scaler in gpu_scalers(facts):
        spec = scaler.manifest.root.at("spec")
        most = spec.at("maxReplicas").integer or spec.at("maxReplicaCount").integer
        if scaler.workload is None or most is None:
            continue
        template = scaler.workload.manifest.templates[0]
        for resource, each in template.asked_devices.items():
            room = _cluster(facts, scaler, resource) if has_bounds else ()
            bounds = [*_quotas(facts, scaler, resource), *room]
            bound = min(bounds, default=None)
            if bound is not None and most * each > bound[0]:
                yield _failure(scaler, most, f"{counted(most, 'pod')} of {each} {resource} each", bound)


def _quotas(facts: Facts, scaler: Scaler, resource: str) -> Iterator[tuple[int, str]]:
    for quota in facts.of_kind("ResourceQuota"):
        hard = amount(quota.root.text_at("spec", "hard", f"requests.{resource}"))
        if quota.namespace == scaler.manifest.namespace and hard is not None:
            yield hard.value(), f"{quota.title} allows {hard}"


def _cluster(facts: Facts, scaler: Scaler, resource: str) -> Iterator[tuple[int, str]]:
    """What all nodes have that the pods select."""
    if scaler.workload is not None:
        nodes = facts.cluster.candidates(scaler.workload.manifest.templates[0])
        total = sum(one.gpus[resource] for one in nodes)
        if total:
            yield total, f"the nodes that they select have {total}"


def _failure(scaler: Scaler, most: int, asked: str, bound: tuple[int, str]) -> Failure:
    return Failure(
        f"{scaler.title}: may grow to {asked}, and {bound[1]}",
        (scaler.title,),
        (f"at most {counted(most, 'pod')}", bound[1]),
        (
            Remedy(
                "lower what it may grow to, or raise the other",
                get_command(scaler.manifest).replace("kubectl get", "kubectl edit", 1),
            ),
        ),
    )


CHECK = Check(
    "scaled-beyond-room",
    Point.SCALING,
    Layer.PRACTICE,
    "Autoscalers stay within quota and cluster",
    "Pods beyond it wait or are refused just when the load is highest.",
    judge,
    ("HorizontalPodAutoscaler", "ResourceQuota", "Node"),
    Grade.RISK,
)
