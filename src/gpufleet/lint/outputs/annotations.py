"""The report as commands of GitHub's workflows, which show each finding beside its line."""

from gpufleet.lint.findings import Report
from gpufleet.lint.rule import Severity
from gpufleet.lint.source.text import Position
from gpufleet.model.visible import visible_text

_WORDS = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.INFO: "notice"}


def as_annotations(report: Report) -> str:
    """A command on each line."""
    lines = [
        _command(
            _WORDS[one.severity],
            one.source,
            one.position,
            f"{one.rule.id} {one.rule.title}",
            f"{one.object}: {one.says}\n{one.advice}",
        )
        for one in report.findings
    ]
    lines += [_command("error", one.source, one.position, "malformed", one.reason) for one in report.problems]
    return "".join(lines)


def _command(word: str, source: str, position: Position, title: str, message: str) -> str:
    place = f"file={_property(source)},line={position.line},col={position.column},title={_property(title)}"
    return f"::{word} {place}::{_data(message)}\n"


def _data(text: str) -> str:
    return visible_text(text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A"))


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")
