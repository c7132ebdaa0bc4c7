"""GPU workloads with an image that needs a newer driver, or other GPUs, than nodes have that may take them.

One check is for images that no such node runs, one for images that some of them run.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from gpufleet.cuda import answer as cuda
from gpufleet.cuda.architecture import check_architecture
from gpufleet.cuda.image import ImageFacts
from gpufleet.cuda.node import NodeFacts
from gpufleet.cuda.requirement import check_requirement
from gpufleet.cuda.toolkit import check_toolkit
from gpufleet.doctor.check import Check, Failure, Grade, Layer, Point, Remedy, listed
from gpufleet.doctor.facts import Facts
from gpufleet.doctor.objects.workloads import Workload
from gpufleet.lint.objects.cuda_images import cuda_containers, image_facts
from gpufleet.lint.objects.node_facts import node_facts
from gpufleet.model.phrases import subject, verb


@dataclass(frozen=True)
class ImageRefusal:
    """An image that some nodes refuse. ``others`` is how many of its nodes do not."""

    workload: Workload
    container: str
    image: str
    refusing: tuple[str, ...]
    others: int
    check: cuda.Check


def _refusals(facts: Facts) -> tuple[ImageRefusal, ...]:
    return tuple(_refusals_of(facts))


def _refusals_of(facts: Facts) -> Iterator[ImageRefusal]:
    """Each container of a workload with an image that a node surely does not run."""
    # Workloads that may go to the same nodes are given the same tuple of them, and thousands run few images.
    known: dict[int, dict[NodeFacts, list[str]]] = {}
    judged: dict[tuple[int, str, frozenset[tuple[str, str]]], list[tuple[list[str], cuda.Check]]] = {}
    for work in facts.gpu_workloads:
        for template in work.manifest.templates:
            nodes = facts.cluster.candidates(template)
            by_facts = known.setdefault(id(nodes), {})
            for node in () if by_facts else nodes:
                by_facts.setdefault(node_facts(node), []).append(node.name)
            for container in cuda_containers(template):
                image = image_facts(container)
                key = (id(nodes), image.name, frozenset(image.environment.items()))
                if key not in judged:
                    judged[key] = [
                        (names, no) for one, names in by_facts.items() if (no := _refused(image, one))
                    ]
                refused = judged[key]
                if refused:
                    names = tuple(name for some, _ in refused for name in some)
                    yield ImageRefusal(
                        work, container.name, image.name, names, len(nodes) - len(names), refused[0][1]
                    )


def _refused(image: ImageFacts, node: NodeFacts) -> cuda.Check | None:
    """The first check that says no."""
    checks = [check_toolkit(image, node), check_requirement(image, node)]
    # Of an image that may be none of CUDA, no card can be said to be wrong.
    if image.toolkit() is not None:
        checks.append(check_architecture(image, node))
    return next((one for one in checks if one.answer is cuda.CudaAnswer.NO), None)


def nowhere(facts: Facts) -> Iterator[Failure]:
    """Each container with an image that no node runs that may take it."""
    yield from (_failure(one) for one in facts.once(_refusals) if not one.others)


def somewhere(facts: Facts) -> Iterator[Failure]:
    """Each container with an image that some of these nodes run, and others do not."""
    yield from (_failure(one) for one in facts.once(_refusals) if one.others)


def _failure(one: ImageRefusal) -> Failure:
    where = "any node that may take it" if not one.others else listed(one.refusing)
    return Failure(
        f"{one.workload.title}: container {one.container} does not run on {where}: {one.check.reason}",
        (one.workload.title,),
        (
            f"image: {one.image}",
            f"{listed(one.refusing)}: refused; {_other_nodes(one.others)}",
        ),
        (
            Remedy(
                "; or ".join(one.check.ways_out), "kubectl get nodes -L nvidia.com/cuda.driver-version.full"
            ),
        ),
        one.workload.affects,
    )


CHECKS = (
    Check(
        "image-runs-nowhere",
        Point.STACK,
        Layer.START,
        "Images run with the drivers and GPUs of their nodes",
        "A CUDA that the driver does not know, or that has no code for the GPU, ends at the first call.",
        nowhere,
        ("Node",),
    ),
    Check(
        "image-runs-somewhere",
        Point.STACK,
        Layer.START,
        "Images run on every node that may take them",
        "Whether such a pod works is decided by where it lands.",
        somewhere,
        ("Node",),
        Grade.RISK,
    ),
)


def _other_nodes(count: int) -> str:
    return f"{subject(count, 'node', 'take')} it or {verb(count, 'are')} not known"
