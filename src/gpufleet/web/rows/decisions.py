"""Rows of the view of decisions: what was decided about each pod last, as its conditions tell it."""

from collections.abc import Iterable

from gpufleet.kube.objects.pod import DISRUPTION_TARGET, POD_SCHEDULED
from gpufleet.overview.rows.pod_facts import PodFact
from gpufleet.web.documents import DecisionKind, DecisionRow
from gpufleet.web.rights import Rights
from gpufleet.web.rows.work import key_of

DECISIONS_MAX = 200
"""The newest are shown."""


def decision_row(fact: PodFact) -> DecisionRow | None:
    """The newest decision about a pod that tells when it was; None where there is none."""
    pod = fact.pod
    key = key_of("pod", pod.metadata.namespace, pod.metadata.name)
    condition = pod.condition(POD_SCHEDULED)
    ended = pod.condition(DISRUPTION_TARGET)
    if ended is not None and ended.status == "True" and ended.last_transition_time:
        text = ended.message or ended.reason
        return DecisionRow(
            key, ended.last_transition_time, DecisionKind.EVICTED, fact.queue, pod.spec.node_name, text
        )
    if condition is None or not condition.last_transition_time:
        return None
    if condition.status == "True":
        text = f"placed on {pod.spec.node_name}"
        return DecisionRow(
            key, condition.last_transition_time, DecisionKind.PLACED, fact.queue, pod.spec.node_name, text
        )
    text = condition.message or condition.reason
    return DecisionRow(key, condition.last_transition_time, DecisionKind.WAITS, fact.queue, text=text)


def newest(facts: Iterable[PodFact], rights: Rights) -> list[DecisionRow]:
    """The newest decisions about pods that the person may see."""
    found = [
        row
        for fact in facts
        if rights.sees(fact.pod.metadata.namespace) and (row := decision_row(fact)) is not None
    ]
    return sorted(found, key=lambda row: (row.at, row.key), reverse=True)[:DECISIONS_MAX]
