"""Pods that gpufleet's scheduler holds back: something in them, or that they name, is not as it must be.

The scheduler's own words say what, as they stand in the pod's condition and in ``gpufleet explain``.
"""

from collections.abc import Iterator

from gpufleet.doctor.check import Check, Failure, Layer, Point, Remedy, listed
from gpufleet.doctor.facts import Facts
from gpufleet.doctor.objects.pods import PodView
from gpufleet.kube.codec.waits import WaitReason
from gpufleet.kube.keys import SCHEDULER_NAME

MALFORMED = "Malformed"
"""The reason of a pod with a field that cannot be understood."""

YOUNG_S = 30.0
"""What a pod names is often made with it, and is there by then."""

_OTHERS = (WaitReason.GATED, WaitReason.CLAIM_UNBOUND)
"""A gate is meant, and a volume that is being made is told of by another check once it takes too long."""

HELD = frozenset({MALFORMED, *(one.value for one in WaitReason if one not in _OTHERS)})
"""Reasons of the condition PodScheduled."""


def judge(facts: Facts) -> Iterator[Failure]:
    """The pods by what is said of them."""
    found: dict[str, list[PodView]] = {}
    for pod in facts.pods:
        told = pod.conditions.get("PodScheduled")
        held = told is not None and not told.is_true and told.reason in HELD
        if held and pod.waits and pod.scheduler == SCHEDULER_NAME and pod.age_s(facts.now) > YOUNG_S:
            found.setdefault(pod.verdict, []).append(pod)
    for says, pods in found.items():
        titles = tuple(one.title for one in pods)
        first = pods[0]
        yield Failure(
            f"{listed(titles)}: {says}",
            titles,
            (f"PodScheduled=False {first.conditions['PodScheduled'].reason}",),
            (Remedy("see what helps", f"gpufleet explain pod/{first.manifest.name} -n {first.namespace}"),),
            frozenset(titles) | facts.works_above(titles),
        )


CHECK = Check(
    "pods-held",
    Point.PLACING,
    Layer.START,
    "Pods are as their scheduler needs them",
    "A pod that is held back is not looked at, whatever is free, until what it names is there.",
    judge,
    ("Pod",),
)
