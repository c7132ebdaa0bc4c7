"""Faults of simulated cards under real agents, scraped by a real Prometheus: each gives its alert alone.

Windows of the rules are a sixtieth as long as those that ship, and waits a hundred-and-twentieth, so that
what takes an hour takes a minute. What Alertmanager would not send beside a greater fault is left out, by the
rules that ship for it. Each alert fires within its wait, as short as it is here, and a minute. That minute is
not shortened, though scrapes and evaluations are a second apart here, and 15 s and 30 s as they ship.
"""

import copy
import json
import re
import time
import urllib.parse
import urllib.request
from collections.abc import Collection
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import msgspec

from gpufleet.agent.gpus.simulation_control import tell
from gpufleet.devices.simulated.orders import (
    AnyOrder,
    BreakDriver,
    FailRemap,
    Hang,
    Lose,
    RaiseXid,
    Release,
    SetReading,
)
from tests.agent.test_process import an_agent, fetched, lines
from tests.alerts.inhibition import sent
from tests.alerts.promtool import all_alerts, groups
from tests.usage.prometheus.server import prometheus
from tests.waiting import until

WINDOWS_SHORTER, WAITS_SHORTER = 60, 120
UNIT_S = {"s": 1, "m": 60, "h": 3600, "d": 86_400}
DURATION = re.compile(r"(?<=[\[ ])([0-9]+)([smhd])(?=[\]\s)]|$)")
WAIT_S = 240.0
"""An hour's wait takes half a minute; the machine may have other work."""

LATE_S = 60.0
"""An alert fires so long after its wait at the latest."""

BUILDS_UP_S = {
    "GPUPCIeNarrow": 60.0,
    "QueueStarved": 15.0,
    "GangStuck": 10.0,
    "ReservationOverdue": 7.5 + 25.0,
    "SchedulerWatchSilent": 75.0,
}
"""What some alerts tell of is a fault after this while alone, as short as all else here: a narrow link after
an hour, a queue and a gang after half an hour and twenty minutes, a reservation a quarter of an hour after
its start was due (the work before it has said that it takes 25 s), a watch after more silence than one that
is well keeps.
"""

FIRST: dict[str, tuple[AnyOrder, str]] = {
    "0": (RaiseXid("0", 79), "GPUGone"),
    "1": (RaiseXid("1", 95), "GPUNeedsReset"),
    "2": (Lose("2"), "GPUGone"),
    "3": (Hang("3"), "GPUReadingsOld"),
    "4": (FailRemap("4"), "GPURowRemapFailed"),
    "5": (SetReading("5", "celsius", 95), "GPUHot"),
    "6": (SetReading("6", "uncorrected-errors", 1), "GPUUncorrectableECC"),
    "7": (SetReading("7", "nvlink-replay", 5), "GPULinkErrors"),
}
"""Faults of the first node's cards, and the alert of each."""
SECOND: dict[str, tuple[AnyOrder, str | None]] = {
    "0": (SetReading("0", "throttle-hw-thermal", 80), "GPUThermalThrottleSevere"),
    "1": (SetReading("1", "throttle-hw-thermal", 30), "GPUThermalThrottle"),
    "2": (SetReading("2", "throttle-hw-power-brake", 50), "GPUPowerBrake"),
    "3": (SetReading("3", "remap-pending", 1), "GPURowRemapPending"),
    "4": (SetReading("4", "pcie-replays", 100), "GPUPCIeReplays"),
    "5": (SetReading("5", "pcie-width", 4), "GPUPCIeNarrow"),
    "6": (RaiseXid("6", 13), None),
    "7": (SetReading("7", "throttle-power-cap", 100), None),
}
"""Those of the second's; a program's Xid and a power limit are no faults."""
DRIVER = BreakDriver("Driver/library version mismatch")

GPUS = 24

Alert = tuple[str, str, str]
"""Name, node and index of the card; empty for one of the whole node."""


STAYS: set[Alert] = {("GPUUnhealthy", "node-1", gpu) for gpu in ("0", "1", "2")}
"""An Xid is told for ten minutes; that its card is out of service is told on."""
COMES_FIRST: set[Alert] = {("GPUNeedsReset", "node-1", "4"), ("GPUThermalThrottle", "node-2", "0")}
"""The Xid of a row that cannot be replaced, and a tenth of the time before half of it."""


def shorter(expression: str, by: int) -> str:
    """An expression, or a wait, with all durations divided."""

    def divided(match: re.Match[str]) -> str:
        return f"{int(match[1]) * UNIT_S[match[2]] * 1000 // by}ms"

    return DURATION.sub(divided, expression)


def rules() -> bytes:
    """The rules that ship, in a hurry."""
    # A copy: every test reads the same rules.
    found = copy.deepcopy(groups())
    for group in found:
        group["interval"] = "1s"
        for rule in group["rules"]:
            rule["expr"] = shorter(rule["expr"], WINDOWS_SHORTER)
            if "for" in rule:
                rule["for"] = shorter(f" {rule['for']}", WAITS_SHORTER).strip()
    return msgspec.yaml.encode({"groups": found})


def firing(address: str, unless: Collection[str]) -> list[dict[str, str]]:
    """The labels of all alerts that fire, but for those of these names."""
    with urllib.request.urlopen(f"{address}/api/v1/alerts") as answer:  # noqa: S310  our own
        alerts: list[dict[str, Any]] = json.load(answer)["data"]["alerts"]
    return [
        one["labels"]
        for one in alerts
        if one["state"] == "firing" and one["labels"]["alertname"] not in unless
    ]


def told(address: str) -> set[Alert]:
    """What a person is told; there is no scheduler here."""
    return {
        (labels["alertname"], labels.get("node", ""), labels.get("gpu", ""))
        for labels in sent(firing(address, unless={"Heartbeat", "SchedulerNoLeader"}))
    }


def port_of(folder: Path) -> int:
    """Where the agent serves its metrics."""
    fetched(folder, "/healthz")
    return int(
        str(next(line["port"] for line in lines(folder) if line["message"] == "serving metrics and health"))
    )


def config(folder: Path, agents: list[Path]) -> str:
    """Scrapes these agents each second, and evaluates the rules as often."""
    file = folder / "rules.yaml"
    file.write_bytes(rules())
    targets = ", ".join(f'"127.0.0.1:{port_of(agent)}"' for agent in agents)
    return f"""
global: {{scrape_interval: 1s, evaluation_interval: 1s}}
rule_files: [{file}]
scrape_configs:
  - job_name: agent
    static_configs: [{{targets: [{targets}]}}]
"""


def told_until(address: str, wanted: set[Alert]) -> set[Alert]:
    """All that is told until each of these alerts was; fails where one is not."""
    limit_s, ever = time.monotonic() + WAIT_S, told(address)
    while not wanted <= ever:
        assert time.monotonic() < limit_s, f"missing: {wanted - ever}, told: {ever}"
        time.sleep(0.5)
        ever |= told(address)
    return ever


def shortened_wait_s(alert: str) -> float:
    """How long the alert waits here, the longest of those of its name."""
    waits = [re.fullmatch(r"([0-9]+)([smhd])", rule.get("for", "0s")) for rule in named(alert)]
    return max(int(one[1]) * UNIT_S[one[2]] for one in waits if one is not None) / WAITS_SHORTER


def named(alert: str) -> list[dict[str, Any]]:
    """The rules of this name."""
    return [rule for rule in all_alerts() if rule["alert"] == alert]


def fired_at_s(address: str, alert: str, **labels: str) -> float | None:
    """When Prometheus had the alert fire first, in seconds since 1970; None until that is stored."""
    chosen = "".join(f',{label}="{value}"' for label, value in labels.items() if value)
    series = f'ALERTS{{alertstate="firing",alertname="{alert}"{chosen}}}'
    query = urllib.parse.urlencode({"query": f"min(min_over_time(timestamp({series})[1h:1s]))"})
    with urllib.request.urlopen(f"{address}/api/v1/query?{query}") as answer:  # noqa: S310  our own
        result = json.load(answer)["data"]["result"]
    return float(result[0]["value"][1]) if result else None


def is_late(address: str, alert: str, fault_at_s: float, **labels: str) -> bool:
    """Whether the alert came later after its fault than it may."""
    may_take_s = BUILDS_UP_S.get(alert, 0.0) + shortened_wait_s(alert) + LATE_S
    until(lambda: fired_at_s(address, alert, **labels) is not None)
    return (fired_at_s(address, alert, **labels) or 0.0) - fault_at_s > may_take_s


def test_each_fault_gives_its_alert_and_no_other(tmp_path: Path) -> None:
    first, second, third = folders = [tmp_path / f"node-{number}" for number in (1, 2, 3)]
    with ExitStack() as stack:
        for folder in folders:
            folder.mkdir()
            stack.enter_context(an_agent(folder, f"--node-name={folder.name}", "--sample-every-s=1"))
        address = stack.enter_context(prometheus(tmp_path, config=config(tmp_path, folders)))
        until(lambda: count(address, "gpufleet_gpu_temperature_celsius") == GPUS)
        assert told(address) == set()
        broken_at_s = time.time()
        for folder, orders in ((first, FIRST), (second, SECOND)):
            for order, _ in orders.values():
                tell(folder / "state", order)
        tell(third / "state", DRIVER)
        wanted = {(alert, "node-1", gpu) for gpu, (_, alert) in FIRST.items()}
        wanted |= {(alert, "node-2", gpu) for gpu, (_, alert) in SECOND.items() if alert is not None}
        wanted.add(("AgentProblems", "node-3", ""))
        assert told_until(address, wanted) - STAYS - COMES_FIRST == wanted
        late = [one for one in wanted if is_late(address, one[0], broken_at_s, node=one[1], gpu=one[2])]
        assert late == []
        tell(first / "state", Release("3"))
        until(lambda: ("GPUReadingsOld", "node-1", "3") not in told(address))


def count(address: str, metric: str) -> int:
    """How many series of a metric have been scraped."""
    with urllib.request.urlopen(f"{address}/api/v1/query?query=count({metric})") as answer:  # noqa: S310  our own
        result = json.load(answer)["data"]["result"]
    return int(result[0]["value"][1]) if result else 0
