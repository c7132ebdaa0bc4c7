"""GPU workloads whose image needs a newer driver, or other GPUs, than any node has that may take them."""

from collections.abc import Iterator

from gpufleet.doctor.check import Check, Failure, Layer, Mend, Point, listed
from gpufleet.doctor.facts import Facts
from gpufleet.doctor.views.images import Refusal, refusals_of


def judge(facts: Facts) -> Iterator[Failure]:
    """Each such container."""
    yield from (failure_of(one) for one in refusals_of(facts) if not one.others)


def failure_of(one: Refusal) -> Failure:
    """What is told of an image that nodes refuse."""
    where = "any node that may take it" if not one.others else listed(one.refusing)
    return Failure(
        f"{one.workload.title}: container {one.container} does not run on {where}: {one.check.reason}",
        (one.workload.title,),
        (
            f"image: {one.image}",
            f"{listed(one.refusing)}: refused; {one.others} nodes take it or are not known",
        ),
        (Mend("; or ".join(one.check.ways_out), "kubectl get nodes -L nvidia.com/cuda.driver-version.full"),),
        one.workload.affects,
    )


CHECK = Check(
    "image-runs-nowhere",
    Point.STACK,
    Layer.START,
    "Images run with the drivers and GPUs of their nodes",
    "A CUDA that the driver does not know, or that has no code for the GPU, ends at the first call.",
    judge,
    ("Node",),
)
