"""GPU022: a volume in memory that is not bounded, or by more than the container may hold."""

from collections.abc import Iterator

from gpufleet.lint.edits.edits import Fix, setting
from gpufleet.lint.objects.amounts import amount
from gpufleet.lint.objects.containers import Container
from gpufleet.lint.objects.context import Context
from gpufleet.lint.objects.manifest import Manifest
from gpufleet.lint.objects.pods import PodTemplate, Volume
from gpufleet.lint.objects.shared_memory import fitting_size
from gpufleet.lint.rule import Rule, RuleFinding, Severity


def check(manifest: Manifest, _: Context) -> Iterator[RuleFinding]:
    """Each volume in memory of a GPU pod without a fitting size."""
    for template in manifest.templates:
        if not template.uses_gpu:
            continue
        for volume in template.volumes:
            if volume.is_memory:
                yield from _judged(template, volume)


def _judged(template: PodTemplate, volume: Volume) -> Iterator[RuleFinding]:
    users = [
        one for one in template.all_containers if any(mount.volume == volume.name for mount in one.mounts)
    ]
    size = volume.empty_dir.at("sizeLimit")
    fitting = fitting_size(users)
    fix = Fix(f"limit volume {volume.name} to {fitting}", (setting(volume.empty_dir, "sizeLimit", fitting),))
    found = amount(size.text)
    if found is None:
        says = f"volume {volume.name} is in memory and has no sizeLimit"
        yield RuleFinding(
            volume.field,
            says,
            "set a sizeLimit below the memory limit of its containers",
            fix,
        )
        return
    small = _least(users)
    if small is not None and found.value() > (small.memory_limit_bytes or 0):
        says = (
            f"volume {volume.name} may take {size.text} of memory, more than the limit "
            f"{small.limits['memory'].text} of container {small.name}"
        )
        yield RuleFinding(
            size, says, "what is written to it counts to the container: lower it, or raise the limit", fix
        )


def _least(users: list[Container]) -> Container | None:
    limited = [one for one in users if one.memory_limit_bytes is not None]
    return min(limited, key=lambda one: one.memory_limit_bytes or 0, default=None)


RULE = Rule("GPU022", "Memory volume without a fitting size", Severity.WARNING, check, fixes=True)
