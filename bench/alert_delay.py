"""How soon an alert fires after its fault, beyond the time that it waits on purpose.

A real Prometheus scrapes a real agent as often as the chart asks it to, and evaluates the rules that ship as
often as kube-prometheus-stack does. Faults come to simulated cards at other moments of these periods. Alerts
that wait longer than a minute are left out: ``tests/alerts`` tries those in a hurry. ``bench.see`` publishes
the figure.
"""

import contextlib
import random
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from bench.figures import Figure, figure
from gpufleet.agent.gpus.simulation_control import tell
from gpufleet.devices.simulated.orders import AnyOrder, FailRemap, Lose, RaiseXid, SetReading
from tests.agent.test_process import an_agent
from tests.alerts.promtool import RULES, all_alerts
from tests.alerts.test_faults_on_a_real_agent import UNIT_S, count, firing, port_of
from tests.usage.prometheus.server import prometheus
from tests.waiting import until

FAULTS: dict[str, tuple[AnyOrder, str]] = {
    "0": (RaiseXid("0", 79), "GPUGone"),
    "1": (RaiseXid("1", 95), "GPUNeedsReset"),
    "2": (Lose("2"), "GPUGone"),
    "4": (FailRemap("4"), "GPURowRemapFailed"),
    "6": (SetReading("6", "uncorrected-errors", 1), "GPUUncorrectableECC"),
}
"""Faults by the card that has each, and the alert of each."""

GPUS = 8
LATE_S = 60.0
"""Target: an alert fires within so much beyond its wait."""

BETWEEN_S = 7.0
"""Faults come so far apart at most: at other moments of each period."""

WAIT_S = 300.0
"""Long enough for what goes wrong to be a figure, and no end without one."""

POLL_EVERY_S = 0.2


@contextlib.contextmanager
def started() -> Iterator[Callable[[], list[Figure]]]:
    """The agent and its Prometheus run; what is given measures."""
    with tempfile.TemporaryDirectory(prefix="gpufleet-alerts-") as name:
        folder = Path(name)
        with an_agent(folder), prometheus(folder, None, _config(port_of(folder))) as address:
            until(lambda: count(address, "gpufleet_gpu_temperature_celsius") == GPUS)
            yield lambda: _figures(folder, address)


def _config(port: int) -> str:
    return (
        f"global: {{scrape_interval: 15s, evaluation_interval: 30s}}\nrule_files: [{RULES}]\n"
        f'scrape_configs: [{{job_name: agent, static_configs: [{{targets: ["127.0.0.1:{port}"]}}]}}]\n'
    )


def _figures(folder: Path, address: str) -> list[Figure]:
    """The latest alert."""
    chance = random.Random(1)
    began_s: dict[tuple[str, str], float] = {}
    late_s: dict[tuple[str, str], float] = {}
    for gpu, (order, alert) in FAULTS.items():
        time.sleep(chance.uniform(0, BETWEEN_S))
        tell(folder / "state", order)
        began_s[alert, gpu] = time.monotonic()
    until_s = time.monotonic() + WAIT_S
    while began_s.keys() > late_s.keys():
        now_s = time.monotonic()
        if now_s > until_s:
            raise AssertionError(f"no alert of {sorted(began_s.keys() - late_s.keys())}")
        for labels in firing(address, unless={"Heartbeat"}):
            about = labels["alertname"], labels.get("gpu", "")
            if about in began_s and about not in late_s:
                late_s[about] = now_s - began_s[about] - _wait_s(about[0])
        time.sleep(POLL_EVERY_S)
    name = f"alerts: fault to alert beyond the alert's wait, worst of {len(late_s)}"
    return [figure(name, max(late_s.values()), "s", "lower", LATE_S)]


def _wait_s(alert: str) -> float:
    """How long a rule waits on purpose."""
    text = next(rule.get("for", "0s") for rule in all_alerts() if rule["alert"] == alert)
    return float(int(text[:-1]) * UNIT_S[text[-1]])
