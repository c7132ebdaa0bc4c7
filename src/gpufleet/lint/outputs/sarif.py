"""The report as SARIF 2.1.0, which code hosts show beside the lines.

What could not be judged is a result of kind ``open``, which says just that; what is suppressed is a result
with its justification.
"""

from typing import Any

from gpufleet import __version__
from gpufleet.lint.findings import Finding, Report
from gpufleet.lint.rule import Rule, Severity
from gpufleet.lint.source.text import Position
from gpufleet.model.visible import json_text

SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
_LEVELS = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.INFO: "note"}
_HELP = "gpufleet lint --explain "


def as_sarif(report: Report) -> str:
    """The report as a SARIF log."""
    used = {one.rule.id: one.rule for one in report.findings}
    used |= {one.rule.id: one.rule for one in report.unjudged}
    used |= {one.finding.rule.id: one.finding.rule for one in report.suppressed}
    rules = [used[key] for key in sorted(used)]
    indexes = {rule.id: index for index, rule in enumerate(rules)}
    results = [_result(one, indexes) for one in report.findings]
    results += [
        _result(one.finding, indexes)
        | {"suppressions": [{"kind": one.kind.value, "justification": one.reason}]}
        for one in report.suppressed
    ]
    results += [
        {
            "ruleId": one.rule.id,
            "ruleIndex": indexes[one.rule.id],
            "kind": "open",
            "level": "none",
            "message": {"text": f"{one.object}: not judged: {one.lacks}"},
            "locations": [_location(one.source, one.position)],
        }
        for one in report.unjudged
    ]
    run = {
        "tool": {"driver": _driver(rules)},
        "columnKind": "unicodeCodePoints",
        "invocations": [_invocation(report)],
        "results": results,
    }
    log = {"$schema": SCHEMA, "version": "2.1.0", "runs": [run]}
    return json_text(log) + "\n"


def _driver(rules: list[Rule]) -> dict[str, Any]:
    return {
        "name": "gpufleet lint",
        "version": __version__,
        "rules": [
            {
                "id": rule.id,
                "shortDescription": {"text": rule.title},
                "help": {"text": f"{_HELP}{rule.id} prints the page of this rule."},
                "defaultConfiguration": {"level": _LEVELS[rule.severity]},
            }
            for rule in rules
        ],
    }


def _invocation(report: Report) -> dict[str, Any]:
    notifications = [
        {
            "level": "error",
            "message": {"text": one.reason},
            "locations": [_location(one.source, one.position)],
        }
        for one in report.problems
    ]
    return {"executionSuccessful": not notifications, "toolExecutionNotifications": notifications}


def _result(finding: Finding, indexes: dict[str, int]) -> dict[str, Any]:
    rule, _, obj, path = finding.fingerprint
    return {
        "ruleId": rule,
        "ruleIndex": indexes[rule],
        "kind": "fail",
        "level": _LEVELS[finding.severity],
        "message": {
            "text": f"{finding.object}: {finding.says}. {finding.advice[:1].upper()}{finding.advice[1:]}."
        },
        "locations": [_location(finding.source, finding.position)],
        # Lines move; object and path name the same finding in the next version of the file.
        "partialFingerprints": {"objectAndPath/v1": f"{obj} {path}"},
    }


def _location(source: str, position: Position) -> dict[str, Any]:
    region = {"startLine": position.line, "startColumn": position.column}
    artifact = {"uri": _uri(source)}
    return {"physicalLocation": {"artifactLocation": artifact, "region": region}}


def _uri(source: str) -> str:
    from urllib.parse import quote

    return quote("stdin" if source == "-" else source, errors="surrogateescape")
