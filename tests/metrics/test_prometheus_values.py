"""Values from Prometheus: as old as their scrape, and unknown where the server hangs, lies or refuses."""

import asyncio
import threading
from array import array
from collections.abc import Iterator

import pytest

from gpufleet.metrics.reading import ObjectKey, why_not_served
from gpufleet.metrics.served_values import FoundValues
from gpufleet.metrics.sources import prometheus_values
from gpufleet.metrics.sources.prometheus_values import PrometheusValues
from gpufleet.model.model_errors import WorldError
from gpufleet.usage.prometheus.answer import PrometheusAnswer, Series
from gpufleet.usage.prometheus.window import Window
from tests.metrics.values_at_hand import NOW_S

WAITING = "vllm:num_requests_waiting"
LABELS = {"namespace": "default", "pod": "one", "model_name": "a", "job": "vllm", "instance": "10.0.0.1:8000"}


class Server:
    """A server with one series; it scraped it so long ago."""

    url = "http://prometheus.example.com"

    def __init__(self, labels: dict[str, str] = LABELS, age_s: float | None = 12.0) -> None:
        self.labels, self.age_s = labels, age_s
        self.value: float | None = 3.0
        self.asked: list[str] = []
        self.problem: Exception | None = None
        self.hangs = threading.Event()

    def over(self, promql: str, window: Window, name: str) -> Iterator[PrometheusAnswer]:
        """The value, or the time of its scrape where that is asked for."""
        self.asked.append(promql)
        assert name
        if self.problem is not None:
            raise self.problem
        if self.hangs.is_set():
            threading.Event().wait(0.5)
        age_s = self.age_s
        answer = (None if age_s is None else NOW_S - age_s) if "timestamp(" in promql else self.value
        if answer is not None:
            point = array("q", [window.first_s]), array("d", [answer])
            yield PrometheusAnswer((Series(self.labels, *point),))


def told(server: Server) -> FoundValues:
    return asyncio.run(PrometheusValues(server, lambda: NOW_S).all_of(WAITING, "default"))


def test_a_value_is_as_old_as_its_scrape() -> None:
    (reading,) = told(Server()).readings
    assert (reading.amount, NOW_S - reading.at_s) == (3, 12)
    assert reading.labels == {"namespace": "default", "pod": "one", "model_name": "a"}


def test_the_query_is_about_the_namespace_under_either_name() -> None:
    server = Server()
    told(server)
    assert server.asked[0] == (
        f'{{__name__="{WAITING}",namespace="default",exported_namespace=""}} or '
        f'{{__name__="{WAITING}",exported_namespace="default"}}'
    )


def test_a_pod_is_the_one_that_the_series_names() -> None:
    scraped = {**LABELS, "namespace": "monitoring", "pod": "exporter"}
    server = Server({**scraped, "exported_namespace": "default", "exported_pod": "one"})
    keys = [ObjectKey("pods", "default", name) for name in ("one", "exporter")]
    found = asyncio.run(PrometheusValues(server, lambda: NOW_S).of_pods(WAITING, "default", keys))
    assert list(found) == keys[:1]


def test_a_series_without_a_time_is_not_served() -> None:
    """It is not left out either: the sum over the others would be too small."""
    (reading,) = told(Server(age_s=None)).readings
    assert why_not_served(reading, NOW_S, 25.0) == "its value has no time"


def test_a_series_that_is_no_number_is_not_served() -> None:
    """Prometheus answers NaN, which is no point of the decoded answer, and the time of the scrape."""
    server = Server()
    server.value = None
    (reading,) = told(server).readings
    assert why_not_served(reading, NOW_S, 25.0) == "its value is no number"


def test_a_refusal_is_told() -> None:
    server = Server()
    server.problem = WorldError("http://prometheus.example.com answers 503")
    assert told(server).problem == "Prometheus cannot be asked: http://prometheus.example.com answers 503"


def test_a_server_that_hangs_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prometheus_values, "ANSWER_S", 0.05)
    server = Server()
    server.hangs.set()
    assert "does not answer within" in told(server).problem
    # What the server says after that is heard by no question, and breaks no thread.
    for thread in threading.enumerate():
        if thread.name == "prometheus":
            thread.join(20)
