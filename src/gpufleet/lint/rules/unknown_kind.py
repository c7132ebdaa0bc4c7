"""GPU056: an object asks for GPUs, and where its pods stand is not known, so no rule judges them."""

from collections.abc import Iterator

from gpufleet.lint.objects.context import Context
from gpufleet.lint.objects.kinds import asked_gpus, is_of_kubernetes
from gpufleet.lint.objects.manifest import Manifest
from gpufleet.lint.objects.template_paths import KINDS_WITH_PODS
from gpufleet.lint.rule import Rule, RuleFinding, Severity


def _concerns(manifest: Manifest) -> bool:
    known = (manifest.group, manifest.kind) in KINDS_WITH_PODS
    return not known and not manifest.templates and not is_of_kubernetes(manifest.group, manifest.kind)


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
