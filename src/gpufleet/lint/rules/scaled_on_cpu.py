"""GPU027: a GPU server is scaled by the use of a CPU that has little to do."""

from collections.abc import Iterator

from gpufleet.lint.objects.context import Context
from gpufleet.lint.objects.manifest import Manifest
from gpufleet.lint.objects.scale_targets import NO_TARGET, is_autoscaler, scales_gpus
from gpufleet.lint.rule import Rule, RuleFinding, Severity, Unjudged
from gpufleet.lint.source.fields import Field

# A model server computes on the GPU: these hardly follow its load.
_HOST = frozenset({"cpu", "memory"})


def _metrics(manifest: Manifest) -> list[tuple[Field, str]]:
    """The signals it scales on, each with its name."""
    spec = manifest.root.at("spec")
    if manifest.kind == "ScaledObject":
        return [(one, one.at("type").text or "") for one in spec.at("triggers").items()]
    old = spec.at("targetCPUUtilizationPercentage")
    found = [(old, "cpu")] if old.exists else []
    for one in spec.at("metrics").items():
        resource = one.at("resource", "name").text or one.at("containerResource", "name").text
        found.append((one, resource or one.at("type").text or ""))
    return found


def _concerns(manifest: Manifest) -> bool:
    if not is_autoscaler(manifest):
        return False
    names = [name for _, name in _metrics(manifest)]
    return bool(names) and all(name in _HOST for name in names)


def check(manifest: Manifest, context: Context) -> Iterator[RuleFinding | Unjudged]:
    """An autoscaler that looks at CPU or memory alone."""
    known = scales_gpus(manifest, context)
    field, name = _metrics(manifest)[0]
    if known is None:
        yield Unjudged(field, NO_TARGET)
    elif known:
        says = f"scales GPU pods by {name} alone"
        yield RuleFinding(
            field, says, "scale on what waits: queue length, KV cache in use, requests in flight"
        )


RULE = Rule("GPU027", "GPU server scaled by CPU", Severity.WARNING, check, concerns=_concerns)
