"""GPU047: a model server is killed by its liveness probe while it still loads."""

from collections.abc import Iterator

from gpufleet.lint.edits.edits import Fix, Insert
from gpufleet.lint.objects.containers import Container
from gpufleet.lint.objects.context import Context
from gpufleet.lint.objects.manifest import Manifest
from gpufleet.lint.objects.servers import serves_language_model
from gpufleet.lint.rule import Rule, RuleFinding, Severity
from gpufleet.lint.source.fields import Field
from gpufleet.lint.source.nodes import Data, data_of

BUDGET_S = 300
"""What a server of a language model is given to load: the least that is not found."""

# Of the proposed probe: ten minutes in all.
_FIXED = {"periodSeconds": 10, "failureThreshold": 60}
# Ways in which a probe may ask; the proposed one asks as the liveness probe does.
_HANDLERS = ("httpGet", "tcpSocket", "grpc", "exec")
# Kubernetes' own, where a probe does not say.
_PERIOD_S, _FAILURES = 10, 3


def check(manifest: Manifest, _: Context) -> Iterator[RuleFinding]:
    """Each server of language models with probes that end it within minutes of its start."""
    for template in manifest.templates:
        for container in template.containers:
            liveness, startup = container.field.at("livenessProbe"), container.field.at("startupProbe")
            if not (container.has_gpu and serves_language_model(container) and liveness.exists):
                continue
            probe = startup if startup.exists else liveness
            budget_s = _budget_s(probe)
            if budget_s < BUDGET_S:
                says = (
                    f"container {container.name} is killed if its model takes more than {budget_s} s to load"
                )
                advice = "give it a startupProbe: periodSeconds times failureThreshold is the time it has"
                fix = None if startup.exists else _fix(container, liveness)
                yield RuleFinding(probe, says, advice, fix)


def _budget_s(probe: Field) -> int:
    def number(name: str, otherwise: int) -> int:
        found = probe.at(name).integer
        return otherwise if found is None else found

    waits_s = number("periodSeconds", _PERIOD_S) * number("failureThreshold", _FAILURES)
    return number("initialDelaySeconds", 0) + waits_s


def _fix(container: Container, liveness: Field) -> Fix | None:
    handler = next((liveness.at(name) for name in _HANDLERS if liveness.at(name).exists), None)
    if handler is None or handler.node is None:
        return None
    probe: dict[str, Data] = {str(handler.key): data_of(handler.node), **_FIXED}
    return Fix("add a startupProbe of ten minutes", (Insert(container.field, "startupProbe", probe),))


RULE = Rule("GPU047", "Probes shorter than the load of a model", Severity.WARNING, check, fixes=True)
