"""GPU workloads whose image runs on some of the nodes that may take them, and not on others."""

from collections.abc import Iterator

from gpufleet.doctor.check import Check, Failure, Grade, Layer, Point
from gpufleet.doctor.checks.image_runs_nowhere import failure_of
from gpufleet.doctor.facts import Facts
from gpufleet.doctor.views.images import refusals_of


def judge(facts: Facts) -> Iterator[Failure]:
    """Each such container."""
    yield from (failure_of(one) for one in refusals_of(facts) if one.others)


CHECK = Check(
    "image-runs-somewhere",
    Point.STACK,
    Layer.START,
    "Images run on every node that may take them",
    "Whether such a pod works is decided by where it lands.",
    judge,
    ("Node",),
    Grade.RISK,
)
