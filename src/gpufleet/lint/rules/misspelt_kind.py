"""GPU055: the kind of an object is a slip for one that the API group has, such as Deploment."""

from collections.abc import Iterator

from gpufleet.lint.edits.edits import Fix, Replace
from gpufleet.lint.objects.context import Context
from gpufleet.lint.objects.kinds import KINDS, asked_gpus
from gpufleet.lint.objects.manifest import Manifest, has_gpu_pods
from gpufleet.lint.objects.template_paths import KINDS_WITH_PODS, is_known
from gpufleet.lint.rule import Rule, RuleFinding, Severity
from gpufleet.model.label_advice import nearest


def _concerns(manifest: Manifest) -> bool:
    # The kind first: objects are many, and only those of kinds that are not known are looked through.
    if is_known(manifest.group, manifest.kind):
        return False
    return has_gpu_pods(manifest) or any(asked_gpus(manifest.root))


def check(manifest: Manifest, _: Context) -> Iterator[RuleFinding]:
    """The kind, where the group has none of this name and one that is near."""
    kinds = {kind for group, kind in KINDS_WITH_PODS if group == manifest.group}
    kinds |= KINDS.get(manifest.group, frozenset())
    meant = nearest(manifest.kind, kinds) if manifest.kind else None
    if meant is not None:
        field = manifest.root.at("kind")
        group = manifest.group or "the core API"
        yield RuleFinding(
            field,
            f"{group} has no kind {manifest.kind}, so the server refuses the object",
            f"write {meant}",
            Fix(f"write {meant} instead of {manifest.kind}", (Replace(field, meant),)),
        )


RULE = Rule("GPU055", "Misspelt kind", Severity.ERROR, check, concerns=_concerns, fixes=True)
