"""GPU030: a GPU server is scaled to zero without terms for coming back."""

from collections.abc import Iterator

from gpufleet.lint.objects.context import Context
from gpufleet.lint.objects.manifest import Manifest
from gpufleet.lint.objects.scale_targets import NO_TARGET, scales_gpus
from gpufleet.lint.rule import Rule, RuleFinding, Severity, Unjudged

_COOLDOWN_LEAST_S = 300
"""KEDA's own, where none is written."""


def _concerns(manifest: Manifest) -> bool:
    spec = manifest.root.at("spec")
    least, idle = spec.at("minReplicaCount"), spec.at("idleReplicaCount")
    ends = least.integer == 0 or not least.exists or idle.integer == 0
    return manifest.kind == "ScaledObject" and ends


def check(manifest: Manifest, context: Context) -> Iterator[RuleFinding | Unjudged]:
    """What lacks of the terms: activation of each trigger, and a cooldown longer than a load."""
    spec = manifest.root.at("spec")
    known = scales_gpus(manifest, context)
    if known is None:
        yield Unjudged(spec, NO_TARGET)
    if not known:
        return
    for trigger in spec.at("triggers").items():
        if (
            trigger.at("type").text == "prometheus"
            and not trigger.at("metadata", "activationThreshold").exists
        ):
            says = "scales to zero, and this trigger has no activationThreshold"
            yield RuleFinding(trigger, says, "set activationThreshold, so that noise starts no GPU")
    cooldown = spec.at("cooldownPeriod")
    if cooldown.integer is not None and cooldown.integer < _COOLDOWN_LEAST_S:
        says = f"scales to zero after a cooldownPeriod of {cooldown.integer} s"
        advice = f"set it well above the minutes that the model loads, at least {_COOLDOWN_LEAST_S}"
        yield RuleFinding(cooldown, says, advice)


RULE = Rule("GPU030", "Scaling to zero without terms", Severity.WARNING, check, concerns=_concerns)
