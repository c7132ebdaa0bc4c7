"""Autoscalers of a target that is not there."""

from collections.abc import Iterator

from gpufleet.doctor.check import Check, Failure, Layer, Point, Remedy, listed
from gpufleet.doctor.facts import Facts
from gpufleet.doctor.kubectl import get_command
from gpufleet.doctor.views.scalers import gpu_scalers
from gpufleet.model.label_advice import nearest


def judge(facts: Facts) -> Iterator[Failure]:
    """Each autoscaler without its target, of those that are about GPUs or beside GPU work."""
    for one in gpu_scalers(facts):
        if one.target_exists is not False:
            continue
        names = sorted(
            each.name for each in facts.of_kind(one.target_kind) if each.namespace == one.manifest.namespace
        )
        near = nearest(one.target_name, names)
        hint = f" (did you mean {near}?)" if near else ""
        there = f"there are {listed(names, 6)}" if names else f"the namespace has no {one.target_kind}"
        yield Failure(
            f"{one.title}: there is no {one.target_kind} {one.target_name} for it to scale",
            (one.title,),
            (f"scaleTargetRef: {one.target_kind} {one.target_name}", there),
            (
                Remedy(
                    f"name what it is to scale{hint}",
                    get_command(one.manifest).replace("kubectl get", "kubectl edit", 1),
                ),
            ),
            one.affects,
        )


CHECK = Check(
    "scale-target-missing",
    Point.SCALING,
    Layer.SCALING,
    "What autoscalers scale is there",
    "An autoscaler whose target has another name scales nothing, and is no error anywhere else.",
    judge,
    ("HorizontalPodAutoscaler", "Deployment", "StatefulSet"),
)
