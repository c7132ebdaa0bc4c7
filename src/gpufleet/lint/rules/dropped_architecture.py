"""GPU014: an image's CUDA makes no code for the GPU of a node any more."""

from collections.abc import Iterator

from gpufleet.cuda.answer import Check, CudaAnswer, Question
from gpufleet.cuda.architecture import check_architecture
from gpufleet.cuda.image import ImageFacts
from gpufleet.cuda.node import NodeFacts
from gpufleet.lint.images_on_nodes import judged
from gpufleet.lint.objects.context import Context
from gpufleet.lint.objects.manifest import Manifest
from gpufleet.lint.rule import Rule, RuleFinding, Scope, Severity, Unjudged


def _question(image: ImageFacts, node: NodeFacts) -> Check:
    # Of an image that may be none of CUDA, no card can be said to be wrong.
    if image.toolkit() is None:
        return Check(Question.ARCHITECTURE, CudaAnswer.UNKNOWN, "nothing tells which CUDA the image is of")
    return check_architecture(image, node)


def check(manifest: Manifest, context: Context) -> Iterator[RuleFinding | Unjudged]:
    """Each image of a GPU container without code for the GPU of a node that may take it."""
    yield from judged(manifest, context, _question)


RULE = Rule("GPU014", "CUDA without code for the GPU", Severity.ERROR, check, Scope.CLUSTER)
