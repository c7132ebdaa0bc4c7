"""GPU055: the kind is a slip for one that the API group has, such as Deploment, or is of another group."""

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
        yield RuleFinding(
            field,
            f"{_named(manifest)} has no kind {manifest.kind}, so the server refuses the object",
            f"write {meant}",
            Fix(f"write {meant} instead of {manifest.kind}", (Replace(field, meant),)),
            # Of another controller there may be a kind that is not known here.
            None if manifest.group in KINDS else Severity.WARNING,
        )
    elif "." not in manifest.group:
        yield from _in_another_group(manifest)


def _named(manifest: Manifest) -> str:
    return manifest.group or "the core API"


def _in_another_group(manifest: Manifest) -> Iterator[RuleFinding]:
    """The group, where Kubernetes has the kind in another: groups of other controllers have a dot."""
    groups = [group for group, kinds in KINDS.items() if manifest.kind in kinds]
    if groups:
        yield RuleFinding(
            manifest.root.at("apiVersion"),
            f"{_named(manifest)} has no kind {manifest.kind}, so the server refuses the object",
            f"write {groups[0]}/v1" if groups[0] else "write v1",
        )


RULE = Rule(
    "GPU055", "Misspelt kind", Severity.ERROR, check, concerns=_concerns, fixes=True, judges_pods=False
)
