"""How long a scrape of the agent takes, and how long one that has the GPUs read anew first.

The agent runs as a process of its own on eight simulated H100, each cut into seven instances. ``bench.see``
publishes the figures.
"""

import contextlib
import http.client
import tempfile
import time
from pathlib import Path

from bench.agent.trials import percentile
from bench.figures import Figure, figure
from tests.agent.test_process import an_agent, fetched
from tests.alerts.test_faults_on_a_real_agent import port_of
from tests.waiting import until

INSTANCES = ", ".join(f"{{profile: 1g.10gb, start: {start}}}" for start in range(7))
MACHINE = f"gpus: [{{model: H100-80GB, count: 8, numaNodes: 2, mig: [{INSTANCES}]}}]\n"
SCRAPES = 500
SCRAPE_MS = 20.0
"""Target: the bound of ``bench.agent``."""

RENEWED = 5
OLD_AFTER_S = 5.5
"""Readings are then older than those that nobody needs to read anew."""


def figures() -> list[Figure]:
    """The slowest hundredth, and the slowest of those that wait for new readings."""
    with tempfile.TemporaryDirectory(prefix="gpufleet-agent-") as name:
        folder = Path(name)
        (folder / "cut.yaml").write_text(MACHINE, encoding="utf-8")
        with an_agent(folder, f"--simulated={folder / 'cut.yaml'}"):
            until(lambda: 'gpu="7"' in fetched(folder, "/metrics")[1])
            address = "127.0.0.1", port_of(folder)
            with contextlib.closing(http.client.HTTPConnection(*address, timeout=10)) as connection:
                told = [_scrape(connection, "/metrics", 0.02) for _ in range(SCRAPES)]
                renewed = [_scrape(connection, "/metrics?newest", OLD_AFTER_S) for _ in range(RENEWED)]
    size_kib = told[-1][0] / 1024
    slow_ms = percentile([taken_ms for _, taken_ms in told], 0.99)
    slowest_ms = max(taken_ms for _, taken_ms in renewed)
    return [
        figure("agent: page of metrics, 8 x 7 instances", size_kib, "KiB", "lower"),
        figure("agent: scrape p99", slow_ms, "ms", "lower", SCRAPE_MS),
        figure("agent: page with readings read anew", slowest_ms, "ms", "lower"),
    ]


def _scrape(connection: http.client.HTTPConnection, path: str, pause_s: float) -> tuple[int, float]:
    """Bytes and milliseconds of one page, asked for after a pause."""
    time.sleep(pause_s)
    began_s = time.perf_counter()
    connection.request("GET", path)
    answer = connection.getresponse()
    size = len(answer.read())
    if answer.status != 200:
        raise AssertionError(f"{path} said {answer.status}")
    return size, 1000 * (time.perf_counter() - began_s)
