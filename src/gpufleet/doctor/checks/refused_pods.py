"""GPU pods that cannot be made for a reason that no other check knows: the words of the API server."""

from collections.abc import Iterator

from gpufleet.doctor.check import Check, Failure, Layer, Point, Remedy
from gpufleet.doctor.facts import Facts
from gpufleet.doctor.kubectl import get_command
from gpufleet.doctor.views.refusals import RefusalCause, refusals


def judge(facts: Facts) -> Iterator[Failure]:
    """Each workload with pods that are refused."""
    for one in refusals(facts, RefusalCause.OTHER):
        yield Failure(
            f"{one.workload.title}: its pods cannot be made",
            (one.workload.title,),
            (f"{one.maker.title}: {one.message}",),
            (
                Remedy(
                    "mend what the message names; the controller tries again by itself",
                    get_command(one.maker) + " -o yaml",
                ),
            ),
            one.affects,
        )


CHECK = Check(
    "pods-refused",
    Point.QUOTAS,
    Layer.ADMISSION,
    "GPU pods can be made",
    "What the API server refuses is never made: no pending pod is seen, and no scheduler hears of it.",
    judge,
)
