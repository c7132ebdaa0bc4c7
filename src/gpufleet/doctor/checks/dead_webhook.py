"""Admission webhooks without a server that answers, and that refuse pods while that is so."""

from collections.abc import Iterator
from dataclasses import dataclass

from gpufleet.doctor.check import Check, Failure, Good, Layer, Point, Remedy, listed
from gpufleet.doctor.facts import Facts
from gpufleet.doctor.kubectl import get_command
from gpufleet.doctor.views.refusals import PodRefusal, RefusalCause, refusals
from gpufleet.doctor.views.services import silence
from gpufleet.lint.objects.manifest import Manifest
from gpufleet.lint.source.fields import Field
from gpufleet.model.phrases import each_of

_CONFIGURATIONS = ("MutatingWebhookConfiguration", "ValidatingWebhookConfiguration")
# A webhook on these is asked before a pod exists: on the pod, or on its controller.
_MAKES_PODS = frozenset({"*", "*/*", "pods", "replicasets", "jobs", "deployments", "statefulsets"})
_CREATES = frozenset({"*", "CREATE"})


@dataclass(frozen=True)
class Webhook:
    """A webhook that must answer before a pod is accepted."""

    configuration: Manifest
    field: Field

    @property
    def name(self) -> str:
        """The webhook's name, as messages have it."""
        return self.field.text_at("name") or ""

    @property
    def service(self) -> tuple[str, str]:
        """Namespace and name of the Service that answers; empty where it is an address."""
        found = self.field.at("clientConfig", "service")
        return found.text_at("namespace") or "", found.text_at("name") or ""


def judge(facts: Facts) -> Iterator[Failure | Good]:
    """Each webhook that is asked about pods and does not answer."""
    webhooks = [
        Webhook(configuration, field)
        for configuration in facts.of_kind(*_CONFIGURATIONS)
        for field in configuration.root.at("webhooks").items()
        if _is_needed(field)
    ]
    failing: dict[str, list[PodRefusal]] = {}
    for one in refusals(facts, RefusalCause.WEBHOOK_DOWN):
        failing.setdefault(one.words["name"], []).append(one)
    dead = 0
    for webhook in webhooks:
        namespace, name = webhook.service
        suffering = failing.get(webhook.name, [])
        why = silence(facts, namespace, name) if name else ""
        if why or suffering:
            dead += 1
            yield _failure(webhook, why, suffering)
    if webhooks and not dead:
        yield Good(f"{each_of(len(webhooks), 'webhook')} on which pods depend has a server that answers")


def _is_needed(field: Field) -> bool:
    if field.text_at("failurePolicy") == "Ignore":
        return False
    return any(
        {one.text for one in rule.at("resources").items()} & _MAKES_PODS
        and {one.text for one in rule.at("operations").items()} & _CREATES
        for rule in field.at("rules").items()
    )


def _failure(webhook: Webhook, why: str, suffering: list[PodRefusal]) -> Failure:
    titles = list(dict.fromkeys(one.workload.title for one in suffering))
    whom = f", so the pods of {listed(titles)} are refused" if titles else ""
    namespace, name = webhook.service
    look = f"kubectl get service,endpointslices,pods -n {namespace}" if name else ""
    return Failure(
        f"{webhook.configuration.title}: no server answers for webhook {webhook.name}{whom}",
        (webhook.configuration.title, *titles),
        (
            f"failurePolicy: {webhook.field.text_at('failurePolicy') or 'Fail'}",
            *((why,) if why else ()),
            *(f"{one.maker.title}: {one.message}" for one in suffering),
        ),
        (
            Remedy("bring back its server: the pods, the Service, the certificate", look),
            Remedy(
                "or, where what it belongs to is gone, delete its configuration",
                get_command(webhook.configuration).replace("kubectl get", "kubectl delete", 1),
            ),
        ),
        frozenset[str]().union(*(one.affects for one in suffering)),
    )


CHECK = Check(
    "webhook-dead",
    Point.QUOTAS,
    Layer.ADMISSION,
    "Webhooks on which pods depend answer",
    "A webhook with the failure policy Fail refuses everything it is asked about while no server answers.",
    judge,
    _CONFIGURATIONS,
)
