"""The report for programs. Fields are only ever added within one ``schema``."""

import msgspec

from gpufleet import __version__
from gpufleet.lint.findings import Finding, Report
from gpufleet.lint.rule import Severity
from gpufleet.lint.source.text import Position
from gpufleet.model.model_errors import shortened
from gpufleet.model.visible import json_text

SCHEMA = "gpufleet.io/lint/v1"


WORDS_MAX = 4000
"""A finding may quote a field of any length; readers of the report need its beginning."""


class FilePosition(msgspec.Struct, frozen=True):
    """A place in a file."""

    file: str
    line: int
    column: int


class FindingRow(msgspec.Struct, frozen=True):
    """A finding."""

    rule: str
    severity: str
    object: str
    path: str
    place: FilePosition
    says: str
    advice: str
    fixable: bool
    does: str | None


class UnjudgedRow(msgspec.Struct, frozen=True):
    """A rule that could not judge an object, and what it lacks."""

    rule: str
    object: str
    place: FilePosition
    lacks: str


class SuppressedRow(msgspec.Struct, frozen=True):
    """A finding that is accepted, and why."""

    finding: FindingRow
    kind: str
    reason: str


class ProblemRow(msgspec.Struct, frozen=True):
    """Input that could not be judged."""

    place: FilePosition
    reason: str


class ReportDocument(msgspec.Struct, frozen=True):
    """The whole report."""

    schema: str
    gpufleet: str
    objects: int
    counts: dict[str, int]
    findings: tuple[FindingRow, ...]
    suppressed: tuple[SuppressedRow, ...]
    unjudged: tuple[UnjudgedRow, ...]
    problems: tuple[ProblemRow, ...]
    notices: tuple[str, ...]


def as_json(report: Report) -> str:
    """The report as JSON."""
    document = ReportDocument(
        SCHEMA,
        __version__,
        report.objects_count,
        {severity.word: report.count(severity) for severity in reversed(Severity)},
        tuple(map(_row, report.findings)),
        tuple(SuppressedRow(_row(one.finding), one.kind.value, one.reason) for one in report.suppressed),
        tuple(
            UnjudgedRow(one.rule.id, one.object, _place(one.source, one.position), one.lacks)
            for one in report.unjudged
        ),
        tuple(ProblemRow(_place(one.source, one.position), one.reason) for one in report.problems),
        report.notices,
    )
    return json_text(document) + "\n"


def _row(one: Finding) -> FindingRow:
    return FindingRow(
        one.rule.id,
        one.severity.word,
        one.object,
        one.path,
        _place(one.source, one.position),
        one.says,
        one.advice,
        one.fix is not None,
        shortened(one.fix.does, WORDS_MAX) if one.fix else None,
    )


def _place(source: str, position: Position) -> FilePosition:
    return FilePosition(source, position.line, position.column)
