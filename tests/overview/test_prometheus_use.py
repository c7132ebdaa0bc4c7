"""Use from a Prometheus server: fresh samples count, and idleness has to be without a gap."""

import asyncio
from array import array
from collections.abc import Iterator

import pytest

from gpufleet.model.model_errors import WorldError
from gpufleet.overview.readings.prometheus_use import FRESH_S, PrometheusUse, quiet_since_s
from gpufleet.overview.rows.use import pod_use
from gpufleet.usage.agent_series import POD_ENERGY, POD_USED
from gpufleet.usage.prometheus.access import Access
from gpufleet.usage.prometheus.answer import Answer, Series
from gpufleet.usage.prometheus.window import Window

ACCESS = Access("http://prometheus")
LABELS = {
    "node": "n",
    "uuid": "A",
    "exported_namespace": "t",
    "exported_pod": "p",
    "namespace": "gpufleet-system",
}


class Server:
    """A server that knows one value for each query's beginning, or fails."""

    url = "http://prometheus"

    def __init__(self, **values: float) -> None:
        self.values = values
        self.asked: list[str] = []
        self.problem = ""

    def over(self, promql: str, window: Window, name: str) -> Iterator[Answer]:
        """One series for each query of one moment."""
        self.asked.append(promql)
        if self.problem:
            raise WorldError(self.problem)
        key = "before" if "offset" in promql else name
        if key in self.values and window.points == 1:
            series = Series(LABELS, array("q", [window.last_s]), array("d", [self.values[key]]))
            yield Answer((series,))


def test_use_and_power_of_a_pod_follow_from_fresh_samples() -> None:
    server = Server(**{POD_USED: 0.5, POD_ENERGY: 700.0, "before": 100.0})
    found = PrometheusUse(ACCESS, server)
    asyncio.run(found.read(with_past=False))
    use = pod_use(("t", "p"), found.use["n"], found.before["n"])
    assert (use.used_ratio, use.power_watts, found.problem) == (0.5, 10.0, "")
    assert all(f"[{FRESH_S}s]" in promql for promql in server.asked)


def test_a_server_that_fails_leaves_no_old_number_and_its_reason() -> None:
    server = Server(**{POD_USED: 0.5})
    found = PrometheusUse(ACCESS, server)
    asyncio.run(found.read(with_past=False))
    server.problem = "no answer"
    asyncio.run(found.read(with_past=True))
    assert (found.use, found.problem) == ({}, "no answer")


def test_a_server_that_knows_no_agents_is_said() -> None:
    found = PrometheusUse(ACCESS, Server())
    asyncio.run(found.read(with_past=False))
    assert found.problem == "http://prometheus has no metrics of gpufleet's agents"


@pytest.mark.parametrize(
    ("times", "values", "since"),
    [
        ([840, 900, 960, 1020], [0.9, 0.0, 0.01, 0.0], 900),
        ([900, 960, 1020], [0.0, 0.0, 0.5], None),
        # A gap is no idleness that was seen.
        ([600, 960, 1020], [0.0, 0.0, 0.0], 960),
        ([600, 660], [0.0, 0.0], None),
        ([], [], None),
    ],
)
def test_idle_since_is_without_a_gap_until_now(
    times: list[int], values: list[float], since: int | None
) -> None:
    assert quiet_since_s(Series({}, array("q", times), array("d", values)), 1020) == since
