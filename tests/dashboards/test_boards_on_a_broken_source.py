"""Boards whose data source knows nothing: no panel shows a figure, and none says that all is well."""

import time
from pathlib import Path

from tests.alerts.test_faults_on_a_real_agent import rules
from tests.dashboards.asking import Answer, Shown, asked
from tests.dashboards.test_boards_on_a_real_prometheus import all_answers, all_panels
from tests.usage.prometheus.server import free_port, prometheus
from tests.waiting import until

SHOWN_S = 60.0
"""The time that the boards show; there is nothing in more of it either."""
OF_ALERTS = {"Critical alerts", "Warnings", "Alerts that fire"}
"""Panels that ask for alerts, which rules make without any scrape too."""
LEADER = 'ALERTS{alertname="SchedulerNoLeader",alertstate="firing"}'


def answered(address: str) -> dict[str, tuple[Answer, ...]]:
    """Panels that show something, by title."""
    now_s = time.time()
    found = all_answers(address, Shown(now_s - SHOWN_S, now_s))
    return {
        title: answers for (_, title), answers in found.items() if any(answer.series for answer in answers)
    }


def test_a_prometheus_that_scrapes_nothing_is_shown_as_unknown(tmp_path: Path) -> None:
    with prometheus(tmp_path) as address:
        assert answered(address) == {}
    for _, panel in all_panels():
        words = panel.words_without_answer
        assert words in {"No data", "not known"} or ", or " in words, panel.title


def test_targets_that_are_all_away_are_alerts_and_no_noughts(tmp_path: Path) -> None:
    (tmp_path / "rules.yaml").write_bytes(rules())
    config = (
        "global: {scrape_interval: 1s, evaluation_interval: 1s}\n"
        f"rule_files: [{tmp_path / 'rules.yaml'}]\n"
        f"scrape_configs: [{{job_name: all, static_configs: [{{targets: ['127.0.0.1:{free_port()}']}}]}}]\n"
    )
    with prometheus(tmp_path, config=config) as address:
        until(lambda: bool(asked(address, "query", query=LEADER)))
        found = answered(address)
        assert found.keys() <= OF_ALERTS
        (critical,) = found["Critical alerts"]
        assert critical.series[0].last >= 1
