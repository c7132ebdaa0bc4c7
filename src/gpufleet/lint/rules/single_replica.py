"""GPU031: a service with one replica ends whenever its node is drained."""

from collections.abc import Iterator

from gpufleet.lint.objects.context import Context
from gpufleet.lint.objects.manifest import Manifest
from gpufleet.lint.objects.scale_targets import AUTOSCALERS, target
from gpufleet.lint.objects.selectors import selects
from gpufleet.lint.objects.servers import serves
from gpufleet.lint.rule import Rule, RuleFinding, Severity

# Kinds that keep serving; a Job ends anyway.
_KINDS = frozenset({"Deployment", "StatefulSet"})


def _concerns(manifest: Manifest) -> bool:
    return manifest.kind in _KINDS and any(one.asks_for_gpu and serves(one) for one in manifest.templates)


def check(manifest: Manifest, context: Context) -> Iterator[RuleFinding]:
    """The object, unless something keeps more than one replica or a budget guards the one."""
    replicas = manifest.root.at("spec", "replicas")
    if replicas.exists and replicas.integer != 1:
        return
    scaled = [
        one for one in context.of_kind(*AUTOSCALERS, beside=manifest) if target(one, context) is manifest
    ]
    if any((one.root.at("spec", "minReplicas").integer or 0) > 1 for one in scaled):
        return
    budgets = context.of_kind("PodDisruptionBudget", beside=manifest)
    if any(selects(one.root.at("spec", "selector"), manifest.templates[0]) for one in budgets):
        return
    advice = "run two, or guard the one with a PodDisruptionBudget and a plan for drains"
    yield RuleFinding(
        replicas if replicas.exists else manifest.root.at("spec"),
        "serves with one replica and no budget",
        advice,
    )


RULE = Rule("GPU031", "One replica and no disruption budget", Severity.WARNING, check, concerns=_concerns)
