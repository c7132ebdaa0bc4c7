"""Whether the images of workloads run with the drivers and the GPUs of the nodes that may take them."""

from collections.abc import Iterator
from dataclasses import dataclass

from gpufleet.cuda.answer import Answer, Check
from gpufleet.cuda.architecture import check_architecture
from gpufleet.cuda.image import ImageFacts
from gpufleet.cuda.node import NodeFacts
from gpufleet.cuda.requirement import check_requirement
from gpufleet.cuda.toolkit import check_toolkit
from gpufleet.doctor.facts import Facts
from gpufleet.doctor.views.workloads import Workload
from gpufleet.lint.objects.images_on_nodes import cuda_containers, image_facts
from gpufleet.lint.objects.node_facts import node_facts


@dataclass(frozen=True)
class Refusal:
    """An image that some nodes refuse. ``others`` is how many of its nodes do not."""

    workload: Workload
    container: str
    image: str
    refusing: tuple[str, ...]
    others: int
    check: Check


def refusals_of(facts: Facts) -> Iterator[Refusal]:
    """Each container of a workload whose image a node surely does not run."""
    # Workloads that may go to the same nodes are given the same tuple of them.
    known: dict[int, dict[NodeFacts, list[str]]] = {}
    for work in facts.gpu_workloads:
        for template in work.manifest.templates:
            nodes = facts.cluster.candidates(template)
            by_facts = known.setdefault(id(nodes), {})
            for node in () if by_facts else nodes:
                by_facts.setdefault(node_facts(node), []).append(node.name)
            for container in cuda_containers(template):
                image = image_facts(container)
                refused = [(names, no) for one, names in by_facts.items() if (no := _refused(image, one))]
                if refused:
                    names = tuple(name for some, _ in refused for name in some)
                    yield Refusal(
                        work, container.name, image.name, names, len(nodes) - len(names), refused[0][1]
                    )


def _refused(image: ImageFacts, node: NodeFacts) -> Check | None:
    """The first check that says no."""
    checks = [check_toolkit(image, node), check_requirement(image, node)]
    # Of an image that may be none of CUDA, no card can be said to be wrong.
    if image.toolkit() is not None:
        checks.append(check_architecture(image, node))
    return next((one for one in checks if one.answer is Answer.NO), None)
