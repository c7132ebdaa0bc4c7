"""Alert rules on made-up series, as promtool evaluates them.

A trial says what is scraped while all is well and when there is a fault, and which alert that gives. From it
follow the cases that every alert must pass: it fires, not before its time, not without the fault, once
though a process is scraped twice, in one of two clusters, over a change of the process that is scraped, and
not without any series. What is special about an alert stands in cases of its own.
"""

import functools
import re
import shutil
import subprocess
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from tests.conventions.project import ROOT
from tests.lacking import lacking

FOLDER = ROOT / "charts" / "gpufleet" / "monitoring"
RULES = FOLDER / "alerts.yaml"
RECORD_NAME = re.compile(r"gpufleet:[\w:]+")
"""The name of a recorded series; a record may be worked out of those before it in its group."""

Values = Sequence[float | None]
"""One value a minute from minute 0 on; None where nothing is scraped."""
Scraped = Mapping[str, Values]
"""Values by series, as `name{label="value"}`."""
Labels = dict[str, str]


def steady(value: float | None, minutes: int) -> list[float | None]:
    """The same value for so many minutes."""
    return [value] * minutes


def rising(start: float, step: float, minutes: int) -> list[float | None]:
    """From ``start`` on, more by ``step`` each minute."""
    return [start + step * minute for minute in range(minutes)]


@dataclass(frozen=True)
class Trial:
    """An alert, what is scraped in health and in fault, and the alert that the fault gives.

    ``fires_at`` is the minute from which it fires, ``quiet_at`` the last looked at before. ``summary`` is its
    sentence. ``handed_over_at`` is the minute in which another process takes the scraped one's place.
    """

    alert: str
    severity: str
    well: Scraped
    fault: Scraped
    labels: Labels
    summary: str
    quiet_at: int
    fires_at: int
    handed_over_at: int | None = None
    fires_without_series: bool = False


@dataclass(frozen=True)
class Case:
    """What is scraped, and which alerts of a name fire at a minute.

    ``also_at`` are further minutes at which that holds, ``also`` further alerts of which it does.
    """

    name: str
    alert: str
    scraped: Scraped
    at: int
    firing: tuple[Labels, ...] = ()
    summary: str = ""
    also_at: tuple[int, ...] = ()
    also: tuple[str, ...] = ()


def with_labels(scraped: Scraped, **labels: str) -> dict[str, Values]:
    """The same series with further labels."""
    more = ",".join(f'{name}="{value}"' for name, value in labels.items())

    def widened(series: str) -> str:
        name, _, rest = series.partition("{")
        inner = rest.removesuffix("}")
        return f"{name}{{{inner},{more}}}" if inner else f"{name}{{{more}}}"

    return {widened(series): values for series, values in scraped.items()}


def cut(values: Values, start: int, end: int | None = None) -> list[float | None]:
    """What is scraped from one minute on, and before another; nothing outside."""
    return [
        value if start <= minute and (end is None or minute < end) else None
        for minute, value in enumerate(values)
    ]


def cases_of(trial: Trial) -> Iterator[Case]:
    """The cases that follow for every alert."""
    labels = {"severity": trial.severity, **trial.labels}
    fault, well = with_labels(trial.fault, instance="a:9400"), with_labels(trial.well, instance="a:9400")
    yield Case("fires", trial.alert, fault, trial.fires_at, (labels,), trial.summary)
    yield Case("not before its time", trial.alert, fault, trial.quiet_at)
    for at in (trial.quiet_at, trial.fires_at):
        yield Case(f"well at {at}", trial.alert, well, at)
    twice = {**with_labels(fault, job="one"), **with_labels(fault, job="two")}
    yield Case("scraped twice", trial.alert, twice, trial.fires_at, (labels,))
    two = {**with_labels(well, cluster="east"), **with_labels(fault, cluster="west")}
    yield Case("two clusters", trial.alert, two, trial.fires_at, ({**labels, "cluster": "west"},))
    nothing = (labels,) if trial.fires_without_series else ()
    yield Case("no series", trial.alert, {}, trial.fires_at, nothing)
    over = trial.handed_over_at
    if over is not None:
        before = {series: cut(values, 0, over) for series, values in trial.fault.items()}
        after = {series: cut(values, over) for series, values in trial.fault.items()}
        both = {**with_labels(before, instance="a:9400"), **with_labels(after, instance="b:9400")}
        yield Case("another process", trial.alert, both, trial.fires_at, (labels,))


def _written(values: Values) -> str:
    """As promtool reads it: a series that ends is told to be stale, as Prometheus does at a failed scrape."""
    found: list[str] = []
    for minute, value in enumerate(values):
        if value is not None:
            found.append(repr(float(value)))
        else:
            ended = minute > 0 and values[minute - 1] is not None
            found.append("stale" if ended else "_")
    return " ".join(found)


def _test_of(cases: Sequence[Case]) -> dict[str, Any]:
    """One test of promtool for cases in which the same is scraped: its rules are evaluated once for all."""
    return {
        "name": ", ".join(case.name for case in cases),
        "interval": "1m",
        "input_series": _series_of(cases[0].scraped),
        "alert_rule_test": [one for case in cases for one in _questions_of(case)],
    }


def _questions_of(case: Case) -> list[dict[str, Any]]:
    expected = [
        {"exp_labels": labels, "exp_annotations": {"summary": case.summary} if case.summary else {}}
        for labels in case.firing
    ]
    return [
        {"eval_time": f"{minute}m", "alertname": name, "exp_alerts": expected}
        for minute in (case.at, *case.also_at)
        for name in (case.alert, *case.also)
    ]


def _by_what_is_scraped(cases: Sequence[Case]) -> list[list[Case]]:
    """The cases, those together in which the same is scraped."""
    found: list[list[Case]] = []
    for case in cases:
        same = next((some for some in found if some[0].scraped == case.scraped), None)
        if same is None:
            found.append([case])
        else:
            same.append(case)
    return found


@functools.cache
def groups() -> list[dict[str, Any]]:
    """The groups of rules that ship."""
    found: list[dict[str, Any]] = msgspec.yaml.decode(RULES.read_bytes())["groups"]
    return found


def all_alerts() -> list[dict[str, Any]]:
    """The rules that are alerts."""
    return [rule for group in groups() for rule in group["rules"] if "alert" in rule]


def said_of(cases: Sequence[Case], folder: Path) -> str:
    """What promtool says of the cases; empty if all are as they say.

    promtool compares annotations too: the rules are tried without any, and for what has a sentence with the
    summary alone. Where nothing fires, annotations make no difference.
    """
    tests = _by_what_is_scraped(cases)
    with_summary = [some for some in tests if any(case.summary for case in some)]
    assert all(case.summary or not case.firing for some in with_summary for case in some), (
        "no summary to compare"
    )
    without = [some for some in tests if some not in with_summary]
    return _said_of(with_summary, folder, summaries=True) + _said_of(without, folder, summaries=False)


def said_of_minutes(scraped: Scraped, minutes: int, names: Collection[str], folder: Path) -> str:
    """What promtool says of the claim that none of the alerts fired at any of so many minutes."""
    asked = {
        "expr": f'max by (alertname) (max_over_time(ALERTS{{alertstate="firing"}}[{minutes}m]))',
        "eval_time": f"{minutes}m",
        "exp_samples": [],
    }
    test = {"interval": "1m", "input_series": _series_of(scraped), "promql_expr_test": [asked]}
    return _told_by_promtool([test], _groups_for(names, summaries=False), folder)


def said_of_states(
    scraped: Scraped, alert: str, labels: Labels, *, is_pending: bool, is_firing: bool, folder: Path
) -> str:
    """What promtool says of the claim that an alert ever waited, and ever fired."""
    minutes = min(len(values) for values in scraped.values()) - 1
    window = f',window="{labels["window"]}"' if "window" in labels else ""
    named = f'alertname="{alert}"{window}'
    questions = [
        {
            "expr": f'count(max_over_time(ALERTS{{{named},alertstate="{state}"}}[{minutes}m]))',
            "eval_time": f"{minutes}m",
            "exp_samples": [{"labels": "{}", "value": 1}] if holds else [],
        }
        for state, holds in (("pending", is_pending), ("firing", is_firing))
    ]
    test = {"interval": "1m", "input_series": _series_of(scraped), "promql_expr_test": questions}
    return _told_by_promtool([test], _groups_for({alert}, summaries=False), folder)


def _series_of(scraped: Scraped) -> list[dict[str, str]]:
    return [{"series": series, "values": _written(values)} for series, values in scraped.items()]


def _said_of(tests: Sequence[Sequence[Case]], folder: Path, *, summaries: bool) -> str:
    if not tests:
        return ""
    names = {name for some in tests for case in some for name in (case.alert, *case.also)}
    kept = _groups_for(names, summaries=summaries)
    return _told_by_promtool([_test_of(some) for some in tests], kept, folder)


def _told_by_promtool(
    tests: Sequence[Mapping[str, Any]], kept: Sequence[Mapping[str, Any]], folder: Path
) -> str:
    tool = shutil.which("promtool")
    if tool is None:
        lacking("there is no promtool on PATH; it comes with Debian's package prometheus")
    # JSON is YAML too, and is written in a hundredth of the time.
    (folder / "rules.yaml").write_bytes(msgspec.json.encode({"groups": kept}))
    written = {"rule_files": ["rules.yaml"], "evaluation_interval": "1m", "tests": tests}
    file = folder / "tests.yaml"
    file.write_bytes(msgspec.json.encode(written))
    done = subprocess.run([tool, "test", "rules", str(file)], capture_output=True, text=True, check=False)
    return "" if done.returncode == 0 else done.stdout + done.stderr


def _groups_for(names: Collection[str], *, summaries: bool) -> list[dict[str, Any]]:
    """The groups with these alerts and the records that they ask for; others would take most of the time."""
    alerts = [rule["expr"] for rule in all_alerts() if rule["alert"] in names]
    asked = records_of(alerts)
    found = []
    for group in groups():
        rules = [
            _bare(rule, summaries=summaries)
            for rule in group["rules"]
            if rule.get("alert") in names or rule.get("record") in asked
        ]
        if rules:
            found.append({**group, "rules": rules})
    return found


def records_of(expressions: Collection[str]) -> set[str]:
    """The records that expressions ask for, with those that these are worked out of."""
    asked = {name for expression in expressions for name in RECORD_NAME.findall(expression)}
    worked_out = [
        rule["expr"] for group in groups() for rule in group["rules"] if rule.get("record") in asked
    ]
    return asked | records_of(worked_out) if worked_out else asked


def _bare(rule: dict[str, Any], *, summaries: bool) -> dict[str, Any]:
    rest = {key: value for key, value in rule.items() if key != "annotations"}
    return (
        {**rest, "annotations": {"summary": rule["annotations"]["summary"]}}
        if summaries and "alert" in rule
        else rest
    )
