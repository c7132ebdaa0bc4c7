"""The report for a terminal: a line for each finding with its place in front, then the sums."""

from gpufleet.lint.findings import Finding, Report
from gpufleet.lint.rule import Severity
from gpufleet.model.visible import visible_line


def as_text(report: Report) -> str:
    """The report as lines."""
    lines = [line for finding in report.findings for line in _finding(finding)]
    if lines:
        lines.append("")
    lines += _unjudged(report)
    return "".join(f"{visible_line(line)}\n" for line in [*lines, _sums(report)])


def _finding(finding: Finding) -> list[str]:
    place = f"{finding.source}:{finding.position.line}:{finding.position.column}"
    ending = " (--fix mends it)" if finding.fix is not None else ""
    return [
        f"{place}: {finding.severity.word} {finding.rule.id}: {finding.object}: {finding.says}",
        f"    {finding.advice}{ending}",
    ]


def _unjudged(report: Report) -> list[str]:
    rules: dict[str, set[str]] = {}
    objects: dict[str, set[tuple[str, str]]] = {}
    for one in report.unjudged:
        rules.setdefault(one.lacks, set()).add(one.rule.id)
        objects.setdefault(one.lacks, set()).add((one.source, one.object))
    return [
        f"not judged for {_counted(len(objects[lacks]), 'object')}: {', '.join(sorted(ids))}: "
        f"it would need {lacks}"
        for lacks, ids in sorted(rules.items())
    ]


def _sums(report: Report) -> str:
    words = ((Severity.ERROR, "error"), (Severity.WARNING, "warning"), (Severity.INFO, "hint"))
    counts = [_counted(count, word) for severity, word in words if (count := report.count(severity))]
    where = f"{_counted(report.objects_count, 'object')} of {_counted(len(report.sources), 'file')}"
    fixable = sum(one.fix is not None for one in report.findings)
    parts = [f"{', '.join(counts) or 'nothing found'} in {where}"]
    if fixable:
        parts.append(
            f"--fix mends {fixable} of them" if fixable < len(report.findings) else "--fix mends all of them"
        )
    if report.problems:
        parts.append(f"{_counted(len(report.problems), 'place')} could not be read")
    if report.suppressed:
        parts.append(f"{_counted(len(report.suppressed), 'finding')} suppressed")
    return "; ".join(parts)


def _counted(count: int, word: str) -> str:
    return f"{count} {word}" if count == 1 else f"{count} {word}s"
