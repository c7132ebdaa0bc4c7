"""GPU012: an image brings a CUDA that the driver of a node does not run."""

from collections.abc import Iterator

from gpufleet.cuda.toolkit import check_toolkit
from gpufleet.lint.images_on_nodes import judged
from gpufleet.lint.objects.context import Context
from gpufleet.lint.objects.manifest import Manifest
from gpufleet.lint.rule import Rule, RuleFinding, Scope, Severity, Unjudged


def check(manifest: Manifest, context: Context) -> Iterator[RuleFinding | Unjudged]:
    """Each image of a GPU container that a node's driver surely does not run."""
    yield from judged(manifest, context, check_toolkit)


RULE = Rule("GPU012", "CUDA that the driver does not run", Severity.ERROR, check, Scope.CLUSTER)
