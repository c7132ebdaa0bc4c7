"""Queries of guides asked of a real Prometheus that scrapes the agent's page: each answers with the readings.

One card is held by a pod and hardly used, another is free and hot.
"""

import json
import urllib.parse
import urllib.request
from collections.abc import Iterator
from typing import Any

import pytest

from tests.agent.exporter.builders import Node, holds, memory, node_of, pod, sample
from tests.conventions.project import ROOT
from tests.guides.guide_files import FOLDER, objects
from tests.usage.prometheus.server import prometheus
from tests.usage.prometheus.test_scraping import serving
from tests.waiting import until

NAMES = ROOT / "charts" / "gpufleet" / "monitoring" / "dcgm-names.yaml"
HELD: dict[str, Any] = {
    "gpu_busy_pct": 7,
    "memory_busy_pct": 3,
    "memory": memory(3000, 1000),
    "power_w": 150.0,
    "gpu_celsius": 61,
    "sm_clock_mhz": 1980,
}
FREE: dict[str, Any] = {
    "gpu_busy_pct": 0,
    "memory_busy_pct": 0,
    "memory": memory(0, 4000),
    "power_w": 50.0,
    "gpu_celsius": 90,
    "sm_clock_mhz": 210,
}
USED_OF_ALL = 3000 / 4000
RESERVED_MIB = 512
FILE_ANSWERS: tuple[list[float], ...] = (
    [7],
    [0, USED_OF_ALL],
    [100],
    [3],
    [210, 1980],
    [90],
)
"""What each line of queries.promql answers, in its order."""
OTHER_ANSWERS: dict[str, list[float]] = {
    "avg by (pod) (DCGM_FI_DEV_GPU_UTIL)": [0, 7],
    "sum(DCGM_FI_DEV_FB_USED) by (pod)": [0, 3000],
    "count(DCGM_FI_DEV_GPU_UTIL)": [2],
    "avg_over_time(DCGM_FI_DEV_GPU_UTIL{gpu='0'}[1m])": [7],
    "DCGM_FI_DEV_GPU_TEMP > 85": [90],
    "avg by (pod) (dcgm_gpu_utilization)": [0, 7],
    "dcgm_fb_used_bytes / dcgm_fb_total_bytes": [0, 3000 / (4000 + RESERVED_MIB)],
    "avg by (instance) (dcgm_power_usage_watts)": [100],
}
"""Further queries of guides, those under the names of dcgm-exporter's first releases among them."""


def page() -> str:
    """What the agent tells of both cards."""
    node = Node(node_of("model: H100-80GB", "model: H100-80GB"))
    node.has(pod("train"))
    node.gave(holds("train", node.card()))
    node.reads(0, sample(**HELD))
    node.reads(1, sample(**FREE))
    return node.scrape().text


def lines() -> list[str]:
    """The queries of the file."""
    text = (FOLDER / "queries.promql").read_text(encoding="utf-8")
    return [line for line in text.splitlines() if not line.startswith("#")]


def asked(address: str, query: str) -> list[float]:
    """The values of all series, the least first."""
    path = f"{address}/api/v1/query?query={urllib.parse.quote(query)}"
    with urllib.request.urlopen(path) as answer:  # noqa: S310  our own
        result = json.load(answer)["data"]["result"]
    return sorted(float(one["value"][1]) for one in result)


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A Prometheus that has scraped the page and recorded the older names."""
    folder = tmp_path_factory.mktemp("queries")
    with serving(page()) as port:
        config = f"""
global: {{scrape_interval: 1s, evaluation_interval: 1s}}
rule_files: [{NAMES}]
scrape_configs:
  - job_name: agent
    static_configs: [{{targets: ["127.0.0.1:{port}"]}}]
"""
        with prometheus(folder, None, config) as started:
            until(lambda: len(asked(started, "dcgm_power_usage_watts")) == 2)
            yield started


@pytest.mark.parametrize(("query", "values"), list(zip(lines(), FILE_ANSWERS, strict=True)))
def test_each_query_of_the_file_answers_with_the_readings(
    address: str, query: str, values: list[float]
) -> None:
    assert asked(address, query) == pytest.approx(values)


@pytest.mark.parametrize("query", OTHER_ANSWERS)
def test_queries_of_other_spellings_answer_too(address: str, query: str) -> None:
    assert asked(address, query) == pytest.approx(OTHER_ANSWERS[query])


def test_the_alert_of_guides_finds_the_pod_that_hardly_uses_its_gpu_and_no_free_card(
    address: str,
) -> None:
    (alert,) = objects("alert-underutilised.yaml")
    (rule,) = alert["spec"]["groups"][0]["rules"]
    assert rule["for"] == "30m"
    assert asked(address, rule["expr"]) == [7]
