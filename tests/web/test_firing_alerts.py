"""The alerts that fire: those of the chart, with since when, and nothing where Prometheus does not answer."""

import asyncio
import re
from array import array
from collections.abc import Iterator

from gpufleet.model.model_errors import WorldError
from gpufleet.usage.prometheus.answer import PrometheusAnswer, Series
from gpufleet.usage.prometheus.window import Window
from gpufleet.web.firing_alerts import FIRING, NAMES, RUNBOOKS, FiringAlerts
from tests.conventions.project import ROOT

RULES = (ROOT / "charts" / "gpufleet" / "monitoring" / "alerts.yaml").read_text(encoding="utf-8")


def series(value: float, **labels: str) -> Series:
    return Series(labels, array("q", [0]), array("d", [value]))


class Server:
    """A Prometheus that answers each query with these series."""

    url = "http://prometheus"

    def __init__(self, firing: tuple[Series, ...], since: tuple[Series, ...]) -> None:
        self.firing, self.since = firing, since

    def over(self, promql: str, window: Window, name: str) -> Iterator[PrometheusAnswer]:
        """The series of a query."""
        assert window.first_s == window.last_s
        assert name == promql
        yield PrometheusAnswer(self.firing if promql == FIRING else self.since)


class Away:
    """A Prometheus that does not answer."""

    url = "http://prometheus"

    def over(self, promql: str, window: Window, name: str) -> Iterator[PrometheusAnswer]:
        """Nothing."""
        raise WorldError(f"no answer to {name} {promql} {window}")


def test_the_alerts_are_those_of_the_chart_but_for_the_heartbeat() -> None:
    assert set(re.findall(r"- alert: (\w+)", RULES)) - {"Heartbeat"} == set(NAMES)


def test_each_runbook_is_that_of_the_chart() -> None:
    for name in NAMES:
        assert f"{RUNBOOKS}#{name.lower()}" in RULES


def test_alerts_that_fire_come_with_since_when_the_most_severe_first() -> None:
    hot = {"alertname": "GPUHot", "severity": "warning", "node": "n"}
    gone = {"alertname": "GPUGone", "severity": "critical", "node": "n", "gpu": "0"}
    firing = tuple(
        series(1, alertstate="firing", **one) for one in (hot, gone, {"alertname": "Watchdog", "node": "n"})
    )
    server = Server(firing, (series(1_772_366_400.0, **gone),))
    rows, unknown = asyncio.run(FiringAlerts(server).now())
    assert [(row.name, row.since) for row in rows] == [("GPUGone", "2026-03-01T12:00:00Z"), ("GPUHot", "")]
    assert rows[0].labels == {"gpu": "0", "node": "n"}
    assert unknown == ""


def test_a_server_that_does_not_answer_leaves_a_sentence_and_no_alert() -> None:
    rows, unknown = asyncio.run(FiringAlerts(Away()).now())
    assert rows == ()
    assert unknown.startswith("which alerts fire is not known: ")
