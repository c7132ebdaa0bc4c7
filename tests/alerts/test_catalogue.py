"""What holds of all alerts: each is tried, explained, and asks only for metrics and labels that there are."""

import re
from pathlib import Path
from typing import Any

import msgspec
import promql_parser as promql
import pytest

from gpufleet.cluster.waiting_reasons import UNSCHEDULABLE, waiting_reason
from gpufleet.engine.explanations.causes import all_causes
from gpufleet.metrics.catalogue import BY_NAME
from tests.alerts import admission, cards, expander, fleet, inventory, ledger, scheduler
from tests.alerts.breaks import HAS_LONGER_RANGE, said_of_the_end
from tests.alerts.inhibition import inhibit_rules, parts
from tests.alerts.promtool import RECORD_NAME, RULES, Case, Trial, all_alerts, cases_of, groups, said_of
from tests.alerts.queries import KNOWN, TYPES, base_name, below, selectors
from tests.chart.rendering import rendered
from tests.conventions.project import ROOT

TRIALS = [
    *admission.TRIALS,
    *cards.TRIALS,
    *expander.TRIALS,
    *fleet.TRIALS,
    *ledger.TRIALS,
    *scheduler.TRIALS,
]
SPECIAL = [
    *admission.SPECIAL,
    *cards.SPECIAL,
    *expander.SPECIAL,
    *fleet.SPECIAL,
    *ledger.SPECIAL,
    *scheduler.SPECIAL,
]
CASES_MIN = 6
UNTRIED = {"Heartbeat"}
"""Fires whatever is scraped, so there is no health to try; it has cases of its own."""
PAGE = (ROOT / "docs" / "alerts.md").read_text(encoding="utf-8")


def rules() -> list[dict[str, Any]]:
    """All rules, alerts and records."""
    return [rule for group in groups() for rule in group["rules"]]


RECORDS = {rule["record"] for rule in rules() if "record" in rule}
WAITING = {(rule["alert"], rule["labels"].get("window", "")) for rule in all_alerts() if "for" in rule}


def waits(trial: Trial) -> bool:
    """Whether the alert of a trial waits before it fires."""
    return (trial.alert, trial.labels.get("window", "")) in WAITING


EXPRESSIONS = [pytest.param(rule["expr"], id=rule.get("alert") or rule["record"]) for rule in rules()]


@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_every_metric_and_label_that_is_asked_for_exists(expression: str) -> None:
    for one in selectors(expression):
        if one.name in RECORDS:
            continue
        labels = KNOWN[base_name(one.name)] | ({"le"} if one.name.endswith("_bucket") else set())
        assert {matcher.name for matcher in one.matchers.matchers} <= labels


@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_clusters_are_not_mixed(expression: str) -> None:
    for part in below(promql.parse(expression)):
        modifier = getattr(part, "modifier", None)
        labels = modifier if isinstance(part, promql.AggregateExpr) else getattr(modifier, "matching", None)
        if isinstance(part, promql.AggregateExpr):
            assert labels is not None, f"nothing is kept by {part}"
        if labels is not None:
            assert "cluster" in labels.labels, f"clusters are mixed by {part}"


@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_what_only_grows_is_compared_by_its_growth(expression: str) -> None:
    for part in below(promql.parse(expression)):
        name = (part.name or "") if isinstance(part, promql.VectorSelector) else ""
        if TYPES.get(name) == "counter":
            growing = rf"(increase|rate)\({re.escape(name)}(\{{[^}}]*\}})?\["
            assert len(re.findall(growing, expression)) == expression.count(name)


def test_a_record_is_worked_out_of_what_is_scraped_and_of_records_before_it() -> None:
    """Rules of a group are evaluated in their order, so a record of a later one would be old."""
    for group in groups():
        before: set[str] = set()
        for rule in group["rules"]:
            if "record" in rule:
                assert set(RECORD_NAME.findall(rule["expr"])) <= before
                before.add(rule["record"])
    assert all(RECORD_NAME.fullmatch(name) for name in RECORDS)


def test_what_waits_for_nodes_is_what_the_condition_of_pods_says_so_of() -> None:
    (rule,) = (rule for rule in rules() if rule.get("alert") == "ScaleUpWedged")
    left_out = re.search(r'cause!~"([^"]+)"', rule["expr"])
    assert left_out is not None
    for cause in (one.name for one in all_causes()):
        helps = waiting_reason(cause, never_fits=False) == UNSCHEDULABLE
        assert helps == (re.fullmatch(left_out[1], cause) is None), cause


@pytest.mark.parametrize("trial", TRIALS, ids=lambda trial: f"{trial.alert}{trial.labels.get('window', '')}")
def test_an_alert_fires_for_its_fault_alone(trial: Trial, tmp_path: Path) -> None:
    assert said_of(list(cases_of(trial)), tmp_path) == ""


@pytest.mark.parametrize(
    "trial",
    [trial for trial in TRIALS if waits(trial)],
    ids=lambda trial: f"{trial.alert}{trial.labels.get('window', '')}",
)
def test_an_alert_whose_fault_ends_while_it_waits_never_fires(trial: Trial, tmp_path: Path) -> None:
    assert said_of_the_end(trial, tmp_path) == ""


def test_every_alert_that_waits_is_tried_with_a_fault_that_ends() -> None:
    waiting = {rule["alert"] for rule in all_alerts() if "for" in rule}
    assert waiting == {trial.alert for trial in TRIALS if waits(trial)}
    for rule in all_alerts():
        if rule["alert"] in HAS_LONGER_RANGE:
            windows = [int(one) for one in re.findall(r"\[([0-9]+)m\]", rule["expr"])]
            assert min(windows) > int(rule["for"].removesuffix("m"))


def test_every_alert_is_tried_over_a_change_of_the_process_unless_it_names_the_process() -> None:
    for trial in TRIALS:
        assert trial.handed_over_at is not None or "instance" in trial.labels, trial.alert


@pytest.mark.parametrize("case", SPECIAL, ids=lambda case: f"{case.alert}: {case.name}")
def test_what_is_special_about_an_alert(case: Case, tmp_path: Path) -> None:
    assert said_of([case], tmp_path) == ""


def test_every_alert_passes_six_cases_and_more() -> None:
    tried = {trial.alert: len(list(cases_of(trial))) for trial in TRIALS}
    names = {rule["alert"] for rule in all_alerts()}
    assert names - UNTRIED == set(tried)
    assert min(tried.values()) >= CASES_MIN
    assert {case.alert for case in SPECIAL} <= names
    assert {case.alert for case in SPECIAL} >= UNTRIED


def test_every_alert_has_a_section_that_its_link_leads_to() -> None:
    sections = {name.lower() for name in re.findall(r"^### (\w+)$", PAGE, flags=re.MULTILINE)}
    links = {rule["annotations"]["runbook_url"].partition("#")[2] for rule in all_alerts()}
    assert links == sections == {rule["alert"].lower() for rule in all_alerts()}


def test_every_alert_says_how_bad_it_is_and_what_there_is() -> None:
    for rule in all_alerts():
        assert rule["labels"]["severity"] in {"critical", "warning", "info", "none"}
        assert {"summary", "description", "runbook_url"} == rule["annotations"].keys()


def test_what_is_inhibited_exists() -> None:
    names = {rule["alert"] for rule in all_alerts()} | {"KubeNodeNotReady"}
    for rule in inhibit_rules():
        for matcher in (*rule["source_matchers"], *rule["target_matchers"]):
            label, _, wanted = parts(matcher)
            if label == "alertname":
                assert any(re.fullmatch(wanted, name) for name in names), matcher
        assert "cluster" in rule["equal"]


def test_the_inventory_is_what_the_pages_have() -> None:
    assert inventory.listed() == inventory.all_metrics()


def test_a_name_ends_by_its_unit() -> None:
    for metric in inventory.listed():
        plain = metric.name.removesuffix("_total")
        assert metric.name.endswith("_total") == (metric.type == "counter"), metric.name
        assert not metric.unit or plain.endswith(f"_{metric.unit}"), metric.name
        assert metric.help, metric.name


def test_the_documents_name_every_metric() -> None:
    pages = [
        (ROOT / "docs" / f"{page}.md").read_text(encoding="utf-8")
        for page in (
            "admission",
            "cost",
            "expander",
            "fleet-policies",
            "metrics",
            "metrics-apis",
            "parking",
            "projects",
            "scheduler",
        )
    ]
    text = "\n".join(pages)
    for metric in inventory.listed():
        short = metric.name.removeprefix("gpufleet_scheduler_")
        assert f"`{metric.name}`" in text or f"`{short}`" in text, metric.name


def test_the_charts_rules_are_those_of_the_file() -> None:
    (found,) = [one for one in rendered({"prometheusRule.enabled": True}) if one["kind"] == "PrometheusRule"]
    assert found["spec"]["groups"] == msgspec.yaml.decode(RULES.read_bytes())["groups"]


def test_an_alert_can_be_left_out_labelled_and_linked_elsewhere() -> None:
    values = {
        "prometheusRule.enabled": True,
        "prometheusRule.disabled": ["GPUIdleHeld"],
        "prometheusRule.alertLabels": {"team": "platform", "severity": "none"},
        "prometheusRule.runbookUrl": "https://docs.example.com/alerts.html",
        "prometheusRule.dcgmNames": True,
    }
    found = [one for one in rendered(values) if one["kind"] == "PrometheusRule"]
    assert [one["metadata"]["name"] for one in found] == ["gpufleet-alerts", "gpufleet-dcgm-names"]
    alerts = {
        rule["alert"]: rule
        for group in found[0]["spec"]["groups"]
        for rule in group["rules"]
        if "alert" in rule
    }
    assert alerts.keys() == {rule["alert"] for rule in all_alerts()} - {"GPUIdleHeld"}
    assert alerts["GPUGone"]["labels"] == {"severity": "critical", "team": "platform"}
    assert alerts["GPUGone"]["annotations"]["runbook_url"] == "https://docs.example.com/alerts.html#gpugone"


WRITTEN_NAME = re.compile(
    r"`(gpufleet_(?:agent|gpu|pod|node|queue|scheduler|operator|metrics|admission)_\w+)"
)
"""A metric of ours in a document; nothing else begins so and stands in code quotes."""


@pytest.mark.parametrize("page", sorted((ROOT / "docs").glob("*.md")), ids=lambda page: page.name)
def test_a_metric_that_a_document_names_is_one_that_there_is(page: Path) -> None:
    for name in WRITTEN_NAME.findall(page.read_text(encoding="utf-8")):
        # A name that goes on with a star stands for several.
        known = {*KNOWN, *BY_NAME}
        assert base_name(name) in known or any(one.startswith(name) for one in known), name
