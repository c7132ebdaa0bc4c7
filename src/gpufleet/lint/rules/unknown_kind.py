"""GPU056: an object asks for GPUs, and where its pods stand is not known, so no rule judges them."""

from collections.abc import Iterator

from gpufleet.lint.objects.context import Context
from gpufleet.lint.objects.kinds import asked_gpus
from gpufleet.lint.objects.manifest import Manifest
from gpufleet.lint.objects.template_paths import is_known
from gpufleet.lint.rule import Rule, RuleFinding, Severity


def _concerns(manifest: Manifest) -> bool:
    return not is_known(manifest.group, manifest.kind) and not manifest.templates


def check(manifest: Manifest, _: Context) -> Iterator[RuleFinding]:
    """The first field by which it asks for a GPU."""
    field = next(asked_gpus(manifest.root), None)
    if field is not None:
        kind = f"{manifest.kind} of {manifest.group or 'the core API'}"
        yield RuleFinding(
            field,
            f"is not judged: a controller makes its pods, and lint does not know {kind}",
            "judge the pods that are made: kubectl get pods -o yaml | gpufleet lint -",
        )


RULE = Rule("GPU056", "Kind that is not judged", Severity.INFO, check, concerns=_concerns)
