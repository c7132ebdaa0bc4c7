"""GPU032: a disruption budget that allows no disruption blocks drains and driver upgrades."""

from collections.abc import Iterator

from gpufleet.lint.edits.edits import Edit, Fix, Rename, Replace
from gpufleet.lint.objects.context import Context
from gpufleet.lint.objects.manifest import Manifest
from gpufleet.lint.objects.selectors import selects
from gpufleet.lint.rule import Rule, RuleFinding, Severity
from gpufleet.lint.source.fields import Field
from gpufleet.model.phrases import counted


def _is_budget(manifest: Manifest) -> bool:
    return manifest.kind == "PodDisruptionBudget"


def check(manifest: Manifest, context: Context) -> Iterator[RuleFinding]:
    """The budget, if it allows nothing of a GPU workload among these manifests."""
    spec = manifest.root.at("spec")
    for other in context.of_kind("Deployment", "StatefulSet", beside=manifest):
        template = next((one for one in other.templates if one.uses_gpu), None)
        if template is None or not selects(spec.at("selector"), template):
            continue
        least, most = spec.at("minAvailable"), spec.at("maxUnavailable")
        if _is_all(least, template.replicas or 0):
            says = f"wants all of {counted(template.replicas or 0, 'pod')} of {other.title} available"
            edits: tuple[Edit, ...] = (Replace(least, 1), Rename(least, "maxUnavailable"))
            yield _remark(least, says, edits)
        elif most.text in {"0", "0%"}:
            yield _remark(most, f"lets no pod of {other.title} be unavailable", (Replace(most, 1),))


def _is_all(field: Field, replicas: int) -> bool:
    return field.text == "100%" or (field.integer is not None and field.integer >= replicas > 0)


def _remark(field: Field, says: str, edits: tuple[Edit, ...]) -> RuleFinding:
    advice = "set maxUnavailable: 1, so that nodes can be drained one by one"
    return RuleFinding(field, says, advice, Fix("allow one pod to be unavailable", edits))


RULE = Rule(
    "GPU032", "Budget that blocks every drain", Severity.WARNING, check, concerns=_is_budget, fixes=True
)
