"""GPU pods that the Pod Security level of their namespace refuses."""

from collections.abc import Iterator

from gpufleet.doctor.check import Check, Failure, Layer, Point, Remedy
from gpufleet.doctor.facts import Facts
from gpufleet.doctor.views.refusals import RefusalCause, refusals


def judge(facts: Facts) -> Iterator[Failure]:
    """Each workload with pods that are refused."""
    for one in refusals(facts, RefusalCause.POD_SECURITY):
        level = one.words["name"]
        yield Failure(
            f"{one.workload.title}: its pods violate Pod Security {level} of Namespace {one.namespace}",
            (one.workload.title,),
            (f"{one.maker.title}: {one.words['says']}",),
            (
                Remedy("set what the message names in the securityContext; GPU work needs no exception"),
                Remedy(
                    "see which level the namespace enforces",
                    f"kubectl get namespace {one.namespace} -o jsonpath='{{.metadata.labels}}'",
                ),
            ),
            one.affects,
        )


CHECK = Check(
    "pod-security-refuses",
    Point.SECURITY,
    Layer.ADMISSION,
    "Pod Security lets GPU pods be made",
    "A namespace refuses pods above its level; they are never made, and only their controller is told.",
    judge,
    written=True,
)
