"""Use from a Prometheus server: fresh samples count, and idleness has to be without a gap."""

import asyncio
from array import array
from collections.abc import Iterator

import pytest

from gpufleet.model.model_errors import WorldError
from gpufleet.overview.readings.prometheus_use import FRESH_S, PrometheusUse, quiet_since_s
from gpufleet.overview.rows.use import pod_use
from gpufleet.usage.agent_series import POD_ENERGY, POD_USED, SAMPLE_AGE
from gpufleet.usage.prometheus.access import Access
from gpufleet.usage.prometheus.answer import PrometheusAnswer, Series
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

    def over(self, promql: str, window: Window, name: str) -> Iterator[PrometheusAnswer]:
        """One series for each query of one moment."""
        self.asked.append(promql)
        if self.problem:
            raise WorldError(self.problem)
        key = "before" if "offset" in promql else name
        if key in self.values and window.points == 1:
            series = Series(LABELS, array("q", [window.last_s]), array("d", [self.values[key]]))
            yield PrometheusAnswer((series,))


def test_use_and_power_of_a_pod_follow_from_fresh_samples() -> None:
    server = Server(**{POD_USED: 0.5, POD_ENERGY: 700.0, "before": 100.0})
    found = PrometheusUse(ACCESS, server)
    asyncio.run(found.read(with_past=False))
    use = pod_use(("t", "p"), found.use["n"], found.before["n"])
    assert (use.used_ratio, use.power_watts, found.problem) == (0.5, 10.0, "")
    fresh = [promql for promql in server.asked if SAMPLE_AGE not in promql]
    assert len(fresh) == len(server.asked) - 1
    assert all(f"[{FRESH_S}s]" in promql for promql in fresh)


def test_how_old_a_measurement_is_counts_from_when_the_agent_made_it() -> None:
    server = Server(**{SAMPLE_AGE: 12.0})
    found = PrometheusUse(ACCESS, server)
    asyncio.run(found.read(with_past=False))
    (promql,) = (one for one in server.asked if SAMPLE_AGE in one)
    assert promql == f"{SAMPLE_AGE} + (time() - timestamp({SAMPLE_AGE}))"
    use = found.use["n"]
    assert use.age_s("A", use.at_s + 3) == 15.0
    assert use.age_s("B", use.at_s) is None


def test_for_one_node_no_other_is_asked_for_and_its_name_is_no_pattern() -> None:
    server = Server(**{POD_USED: 0.5})
    asyncio.run(PrometheusUse(ACCESS, server).read(["gpu-1.example", "x`} or up"], with_past=False))
    selectors = ("{node=~`gpu\\-1\\.example`}", "{exported_node=~`gpu\\-1\\.example`}")
    assert all(one in promql for promql in server.asked for one in selectors)
    assert not any("up" in promql.split(" or ") for promql in server.asked)


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
