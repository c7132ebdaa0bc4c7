"""Alerts about GPUs: the way out is gpufleet's own where it is installed; its alerts count as such."""

import textwrap

from gpufleet.doctor.check import Failure, Good
from gpufleet.doctor.checks import missing_alerts
from tests.conventions.project import ROOT
from tests.doctor.facts_of_text import facts_of
from tests.doctor.test_waiting_pods import NODE, OURS

OWN_ALERTS = ROOT / "charts" / "gpufleet" / "monitoring" / "alerts.yaml"
ANOTHER = "groups: [{name: nodes, rules: [{alert: NodeDown, expr: up == 0}]}]"
SERVER = """\
---
apiVersion: monitoring.coreos.com/v1
kind: Prometheus
metadata: {name: main, namespace: monitoring}
spec: {ruleSelector: {matchLabels: {release: stack, example.com/role: main rules}}}
"""


def rule(spec: str) -> str:
    """A PrometheusRule with these groups."""
    head = "---\napiVersion: monitoring.coreos.com/v1\nkind: PrometheusRule\nmetadata: {name: rules}\n"
    return f"{head}spec:\n{textwrap.indent(spec, '  ')}\n"


def verdict(*texts: str) -> object:
    (said,) = missing_alerts.judge(facts_of(NODE + "".join(texts)))
    return said


def test_the_alerts_of_the_chart_are_alerts_about_gpus() -> None:
    assert isinstance(verdict(OURS, rule(OWN_ALERTS.read_text(encoding="utf-8"))), Good)


def test_where_gpufleet_is_installed_its_alerts_are_turned_on() -> None:
    said = verdict(OURS, rule(ANOTHER))
    assert isinstance(said, Failure)
    (mend,) = said.mends
    assert mend.command.endswith(
        "--namespace gpufleet-system --reuse-values --set prometheusRule.enabled=true"
    )
    assert "docs/alerts.md" in mend.does
    assert not mend.manifest


def test_rules_get_the_labels_by_which_prometheus_selects_them() -> None:
    said = verdict(OURS, SERVER, rule(ANOTHER))
    assert isinstance(said, Failure)
    (mend,) = said.mends
    assert "--set prometheusRule.additionalLabels.release=stack" in mend.command
    assert r"--set 'prometheusRule.additionalLabels.example\.com/role=main rules'" in mend.command


def test_elsewhere_a_rule_to_begin_with_is_shown() -> None:
    said = verdict(rule(ANOTHER))
    assert isinstance(said, Failure)
    (mend,) = said.mends
    assert not mend.command
    assert "DCGM_FI_DEV_ROW_REMAP_FAILURE" in mend.manifest


def test_the_number_of_the_last_xid_is_no_alert() -> None:
    """Most Xids are a program's fault, and the number stands until the next one."""
    assert "XID" not in missing_alerts._RULE
    assert "XID" not in OWN_ALERTS.read_text(encoding="utf-8")
