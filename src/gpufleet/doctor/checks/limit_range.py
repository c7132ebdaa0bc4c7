"""Limit ranges that refuse GPU pods: more, or less, than one pod or container may have."""

from collections.abc import Iterator

from gpufleet.doctor.check import Check, Failure, Layer, Point, Remedy
from gpufleet.doctor.facts import Facts
from gpufleet.doctor.views.refusals import RefusalCause, refusals


def judge(facts: Facts) -> Iterator[Failure]:
    """Each workload that asks for what it may not have."""
    for one in refusals(facts, RefusalCause.LIMIT_RANGE):
        ranges = [each for each in facts.of_kind("LimitRange") if each.namespace == one.namespace]
        yield Failure(
            f"{one.workload.title}: a LimitRange of the namespace refuses its pods: {one.words['says']}",
            (one.workload.title, *(each.title for each in ranges)),
            (f"{one.maker.title}: {one.message}",),
            (
                Remedy(
                    "ask for what a pod may have here, or change the LimitRange",
                    f"kubectl get limitrange -n {one.namespace} -o yaml",
                ),
            ),
            one.affects,
        )


CHECK = Check(
    "limit-range-refuses",
    Point.QUOTAS,
    Layer.ADMISSION,
    "Limit ranges let GPU pods be made",
    "A LimitRange bounds pods and containers; a pod that asks for more is refused, however much is free.",
    judge,
    ("LimitRange",),
    written=True,
)
