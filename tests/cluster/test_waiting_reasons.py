"""Autoscalers buy nodes for work that nodes would start, and for no other work that waits."""

import pytest

from gpufleet.cluster.verdict_words import GANG_MALFORMED
from gpufleet.cluster.waiting_reasons import as_shown, waiting_reason
from gpufleet.engine.explanations.causes import BESIDE_NODES, all_causes
from gpufleet.kube.objects.pod import Pod
from tests.kube.wire_objects import decoded

NO_PURCHASE_HELPS = {
    "queue-unknown": "WaitingForQueue",
    "queue-inner": "WaitingForQueue",
    "queue-closed": "WaitingForQueue",
    "queue-broken": "WaitingForQueue",
    "queue-not-admitted": "WaitingForQueue",
    "queue-budget": "WaitingForBudget",
    "queue-quota": "WaitingForQuota",
    "queue-quota-protected": "WaitingForQuota",
    "queue-outside": "WaitingForQuota",
    "gang-short": "WaitingForGang",
    "gang-unknown": "WaitingForGang",
    "gang-malformed": "WaitingForGang",
    "behind-others": "WaitingForTurn",
    "backoff": "WaitingForTurn",
    "about-to-run": "WaitingForTurn",
}
NODES_HELP = {"reserved", "reservation", "no-nodes", "gang-fit", "nominated"}
"""Causes beside the reasons of nodes against which nodes help."""


@pytest.mark.parametrize(("cause", "reason"), NO_PURCHASE_HELPS.items())
def test_work_that_no_node_would_start_has_a_word_of_its_own(cause: str, reason: str) -> None:
    assert waiting_reason(cause, never_fits=False) == reason


def test_all_other_work_is_unschedulable_as_autoscalers_spell_it() -> None:
    known = {cause.name for cause in all_causes()} | {GANG_MALFORMED}
    helped = {cause for cause in known if waiting_reason(cause, never_fits=False) == "Unschedulable"}
    assert helped == known - NO_PURCHASE_HELPS.keys()
    assert helped & {cause.name for cause in BESIDE_NODES} == NODES_HELP


def test_what_a_queue_can_never_give_never_fits() -> None:
    assert waiting_reason("queue-quota", never_fits=True) == "NeverFits"


def test_nodes_that_are_not_there_yet_may_fit() -> None:
    """No node of today has such GPUs; an autoscaler may know a kind of node that has them."""
    assert waiting_reason("gpu-model", never_fits=True) == "Unschedulable"
    assert waiting_reason("no-nodes", never_fits=True) == "Unschedulable"


def test_work_that_is_postponed_asks_for_no_node_until_its_time_is_over() -> None:
    """12:00 on the 1st of March 2026 and five minutes more."""
    words = "nodes that can be bought now start other work; none is asked for until 2026-03-01T12:05:00Z"
    said = {"type": "gpufleet.io/NodesChosen", "status": "False", "reason": "Postponed", "message": words}
    body = {"metadata": {"name": "p"}, "spec": {"containers": []}, "status": {"conditions": [said]}}
    pod, until_us = decoded(body, Pod), 1_772_366_700_000_000
    assert as_shown("Unschedulable", pod, until_us - 1) == "WaitingForTurn"
    assert as_shown("Unschedulable", pod, until_us) == "Unschedulable"
    assert as_shown("WaitingForQuota", pod, until_us - 1) == "WaitingForQuota"
