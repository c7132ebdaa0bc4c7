"""Images of a pod's GPU containers, judged on every node that the pod may land on.

The rules about CUDA differ in the question only; it is a pure check of ``gpufleet.cuda``.
"""

from collections.abc import Callable, Iterator

from gpufleet.cuda.answer import Check, CudaAnswer
from gpufleet.cuda.image import ImageFacts
from gpufleet.cuda.node import NodeFacts
from gpufleet.kube import keys
from gpufleet.kube.meanings.node_labels import FULL_DRIVER, NVIDIA_PRODUCT
from gpufleet.lint.objects.cluster import ClusterNode
from gpufleet.lint.objects.containers import Container
from gpufleet.lint.objects.context import Context
from gpufleet.lint.objects.cuda_images import cuda_containers, image_facts
from gpufleet.lint.objects.manifest import Manifest
from gpufleet.lint.objects.node_facts import TELLING_LABELS, node_facts
from gpufleet.lint.rule import CLUSTER_NEEDED, RuleFinding, Severity, Unjudged

Question = Callable[[ImageFacts, NodeFacts], Check]
FACTS_NEEDED = (
    f"the CUDA of the image, by its tag or {keys.REQUIRE_CUDA}, and on every node that may take the pod"
    f" the labels {NVIDIA_PRODUCT} and {FULL_DRIVER}"
)
"""What is lacking where no node refuses an image and not all are known to take it."""


def judged(manifest: Manifest, context: Context, question: Question) -> Iterator[RuleFinding | Unjudged]:
    """The answer for each such container: refused if one node refuses it, unjudged unless all take it."""
    for template in manifest.templates:
        for container in cuda_containers(template):
            if context.cluster is None or not context.cluster.knows("Node"):
                yield Unjudged(container.field.at("image"), CLUSTER_NEEDED)
            else:
                nodes = context.cluster.sorts_of_candidates(template, TELLING_LABELS)
                yield from _on(container, nodes, question)


def _on(
    container: Container, nodes: tuple[ClusterNode, ...], question: Question
) -> Iterator[RuleFinding | Unjudged]:
    image, field = image_facts(container), container.field.at("image")
    # Of thousands of nodes a few differ.
    names: dict[NodeFacts, str] = {}
    for node in nodes:
        names.setdefault(node_facts(node), node.name)
    checks = [(name, question(image, facts)) for facts, name in names.items()]
    refused = [(name, one) for name, one in checks if one.answer is CudaAnswer.NO]
    if refused:
        name, check = refused[0]
        says = f"container {container.name} may land on node {name}: {check.reason}"
        # Where another node runs it, the pod may be placed there.
        severity = None if len(refused) == len(checks) else Severity.WARNING
        yield RuleFinding(field, says, "; or ".join(check.ways_out), severity=severity)
    elif not checks or any(one.answer is CudaAnswer.UNKNOWN for _, one in checks):
        yield Unjudged(field, FACTS_NEEDED)
