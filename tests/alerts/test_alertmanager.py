"""The rules of inhibition in a real Alertmanager: what is told of alerts that fire together.

Each case is a cluster of its own, so one Alertmanager has them all at once.
"""

from typing import NamedTuple

import pytest

from tests.alerts.alertmanager import alertmanager, not_inhibited, send
from tests.alerts.inhibition import inhibit_rules, inhibits, sent
from tests.alerts.promtool import Labels, all_alerts

SEVERITY = {rule["alert"]: rule["labels"]["severity"] for rule in all_alerts()}


def alert(name: str, /, **labels: str) -> Labels:
    """An alert with the severity that it ships with; that of a node that is not ready is the mixin's."""
    return {"alertname": name, "severity": SEVERITY.get(name, "critical"), **labels}


def card(name: str, gpu: int = 0, node: str = "n1") -> Labels:
    """An alert of a card."""
    return alert(name, node=node, gpu=str(gpu), uuid=f"GPU-{node}-{gpu}")


def node(name: str, of: str = "n1") -> Labels:
    """An alert of a node."""
    return alert(name, node=of)


def queue(name: str) -> Labels:
    """An alert of a queue."""
    return alert(name, queue="ml")


def burning(window: str, severity: str, name: str = "SchedulerDecisionsSlow") -> Labels:
    """A service level that is missed, seen over a window."""
    return {"alertname": name, "window": window, "severity": severity}


class Together(NamedTuple):
    """Alerts that fire together: those that are told, and those that are not beside them."""

    words: str
    told: tuple[Labels, ...]
    silenced: tuple[Labels, ...] = ()


CASES = (
    Together("heat", (card("GPUThermalThrottleSevere"),), (card("GPUThermalThrottle"),)),
    Together("heat of two cards", (card("GPUThermalThrottleSevere"), card("GPUThermalThrottle", 1))),
    Together(
        "a pod that idles for hours",
        (alert("GPUIdleHeldLong", node="n1", uuid="a", namespace="ml", pod="p"),),
        (alert("GPUIdleHeld", node="n1", uuid="a", namespace="ml", pod="p"),),
    ),
    Together(
        "another pod that idles",
        (
            alert("GPUIdleHeldLong", node="n1", uuid="a", namespace="ml", pod="p"),
            alert("GPUIdleHeld", node="n1", uuid="a", namespace="ml", pod="q"),
        ),
    ),
    Together(
        "a credential",
        (alert("CredentialEndsSoon", instance="a", credential="token"),),
        (alert("CredentialEnds", instance="a", credential="token"),),
    ),
    Together("a service level", (burning("1h", "critical"),), (burning("1d", "warning"),)),
    Together(
        "two service levels",
        (burning("1h", "critical"), burning("1d", "warning", "SchedulerBindingsFail")),
    ),
    Together("two critical windows", (burning("1h", "critical"), burning("6h", "critical"))),
    Together(
        "admission", (alert("AdmissionWebhookDown"),), (alert("AdmissionUnjudged", name="deny.gpufleet.io"),)
    ),
    Together(
        "a node that is down",
        (node("KubeNodeNotReady"), card("GPUGone", node="n2")),
        (node("AgentSilent"), node("AgentProblems"), card("GPUMissing"), card("GPUGone")),
    ),
    Together("a silent agent", (node("AgentSilent"), node("AgentProblems")), (card("GPUReadingsOld"),)),
    Together(
        "many silent agents",
        (alert("AgentsSilent"),),
        (node("AgentSilent"), node("AgentSilent", "n2"), burning("1h", "critical", "AgentsStale")),
    ),
    Together(
        "a node that is cordoned",
        (node("NodeCordoned"), card("GPUGone"), card("GPUUnhealthy", node="n2")),
        (card("GPUHot"), node("AgentProblems")),
    ),
    Together(
        "a silent agent of a node that is cordoned",
        (node("NodeCordoned"), card("GPUGone")),
        (node("AgentSilent"), card("GPUReadingsOld")),
    ),
    Together(
        "a card that is lost",
        (card("GPUGone"), card("GPUHot"), card("GPUMissing", 1)),
        (card("GPUNeedsReset"), card("GPUUnhealthy"), card("GPUMissing"), card("GPUReadingsOld")),
    ),
    Together("a card that is missing", (card("GPUMissing"),), (card("GPUReadingsOld"), card("GPUUnhealthy"))),
    Together(
        "a row that cannot be replaced",
        (card("GPURowRemapFailed"),),
        (card("GPUNeedsReset"), card("GPUUnhealthy"), card("GPUUnhealthyInUse")),
    ),
    Together("a card out of service", (card("GPUUnhealthyInUse"),), (card("GPUReadingsOld"),)),
    Together("a broken driver", (node("AgentProblems"),), (card("GPUMissing"), card("GPUReadingsOld", 1))),
    Together(
        "no leader",
        (alert("SchedulerNoLeader"), queue("PodNeverFits")),
        (queue("QueueStarved"), queue("GangStuck"), queue("ScaleUpWedged"), alert("SchedulerStalled")),
    ),
    # Both match both sides of the rule, and neither may silence the other.
    Together(
        "two stalled", (alert("SchedulerStalled", instance="a"), alert("SchedulerStalled", instance="b"))
    ),
)


def in_cluster(labels: Labels, cluster: int) -> Labels:
    """The alert in a cluster of its own."""
    return {**labels, "cluster": f"cluster-{cluster}"}


def sorted_alerts(alerts: list[Labels]) -> list[list[tuple[str, str]]]:
    """In an order that does not depend on how they came."""
    return sorted(sorted(labels.items()) for labels in alerts)


@pytest.fixture(scope="module")
def asked(tmp_path_factory: pytest.TempPathFactory) -> list[Labels]:
    """What a real Alertmanager sends on of all cases at once."""
    firing = [
        in_cluster(one, number) for number, case in enumerate(CASES) for one in (*case.told, *case.silenced)
    ]
    with alertmanager(tmp_path_factory.mktemp("alertmanager")) as address:
        send(address, firing)
        return not_inhibited(address)


@pytest.mark.parametrize("number", range(len(CASES)), ids=lambda number: CASES[number].words)
def test_what_follows_from_a_greater_fault_is_not_told_beside_it(asked: list[Labels], number: int) -> None:
    told = [one for one in asked if one["cluster"] == f"cluster-{number}"]
    case = CASES[number]
    assert sorted_alerts(told) == sorted_alerts([in_cluster(one, number) for one in case.told])


def test_other_tests_ask_a_model_that_says_the_same() -> None:
    for case in CASES:
        assert sorted_alerts(sent([*case.told, *case.silenced])) == sorted_alerts(list(case.told)), case.words


def test_every_rule_is_tried() -> None:
    for rule in inhibit_rules():
        assert any(
            inhibits(rule, source, target)
            for case in CASES
            for source in case.told
            for target in case.silenced
        ), rule
