"""All that is asked of one image on one node, put together.

Lint asks the single checks (``check_toolkit``, ``check_requirement``, ``check_architecture``); the command
asks here.
"""

import msgspec

from gpufleet.cuda.answer import Check, CudaAnswer, together
from gpufleet.cuda.architecture import check_architecture, check_driver
from gpufleet.cuda.image import ImageFacts
from gpufleet.cuda.node import NodeFacts
from gpufleet.cuda.requirement import Runtime, check_requirement
from gpufleet.cuda.toolkit import check_toolkit


class Judgement(msgspec.Struct, frozen=True):
    """The answer for an image on a node, and each check behind it."""

    image: ImageFacts
    node: NodeFacts
    answer: CudaAnswer
    checks: tuple[Check, ...]


def judge(image: ImageFacts, node: NodeFacts, runtime: Runtime | None = None) -> Judgement:
    """Whether the image runs on the node."""
    checks = (
        check_toolkit(image, node),
        check_requirement(image, node, runtime),
        check_architecture(image, node),
        check_driver(node),
    )
    return Judgement(image, node, together(one.answer for one in checks), checks)
