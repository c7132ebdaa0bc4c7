"""Reasons why a finding is accepted: in a comment at its line, or in an annotation of its object.

Each names its rule and says why; it may end on a date. One without a reason does not count, and one that
has ended does not count any more: both are told. ``advise.lint.acceptance`` applies them.
"""

import datetime as dt
import re
from dataclasses import dataclass

from gpufleet.lint.findings import Finding
from gpufleet.lint.objects.manifest import Manifest
from gpufleet.lint.source.text import SourceText

ANNOTATION_DOMAIN = "ignore.lint.gpufleet.io/"
EXPECTED = "a reason, such as 'until 2027-01-31: waits for the new image'"
_COMMENT = re.compile(r"#\s*gpufleet:ignore\s+(GPU\d{3}(?:\s*,\s*GPU\d{3})*)\b\s*:?\s*(.*)$")
_UNTIL = re.compile(r"until\s+(\S+?)\s*:\s*(.*)|until\s+(\S+)$", re.DOTALL)


@dataclass(frozen=True)
class Suppression:
    """Why something is accepted, and the last day on which it is; None for ever."""

    reason: str
    until: dt.date | None = None


def read_suppression(text: str) -> Suppression | str:
    """The suppression as people write it, or what is wrong with it."""
    text = text.strip()
    if not text.startswith("until "):
        return Suppression(text) if text else f"has no reason; expected {EXPECTED}"
    found = _UNTIL.fullmatch(text)
    if found is None or not (found[2] or "").strip():
        return f"has no reason; expected {EXPECTED}"
    try:
        day = dt.date.fromisoformat(found[1])
    except ValueError:
        return f"ends on {found[1]}, which is no date; expected {EXPECTED}"
    return Suppression(found[2].strip(), day)


def written_suppression(finding: Finding, manifest: Manifest) -> Suppression | str | None:
    """The suppression of this finding in its own file, or what is wrong with it; None if there is none."""
    for line in _lines_of(finding, manifest.source):
        found = _COMMENT.search(line)
        if found and finding.rule.id in re.split(r"\s*,\s*", found[1]):
            return read_suppression(found[2])
    return annotated_suppression(finding.rule.id, manifest)


def annotated_suppression(rule_id: str, manifest: Manifest) -> Suppression | str | None:
    """The suppression of a rule by an annotation of the object or of its pods, or what is wrong with it."""
    name = ANNOTATION_DOMAIN + rule_id
    texts = [manifest.annotation(name), *(one.annotation(name) for one in manifest.templates)]
    annotated = next((one for one in texts if one is not None), None)
    return None if annotated is None else read_suppression(annotated)


def _lines_of(finding: Finding, source: SourceText) -> list[str]:
    """The line of the finding, and the comments right above it."""
    number = finding.position.line
    lines = [source.line(number)]
    while number > 1 and source.line(number - 1).lstrip().startswith("#"):
        number -= 1
        lines.append(source.line(number))
    return lines
