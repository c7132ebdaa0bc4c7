"""What a run of lint found, with places: the values that every output tells in its own form."""

import enum
from collections import Counter
from dataclasses import dataclass, field

from gpufleet.lint.edits.edits import Fix
from gpufleet.lint.rule import Rule, Severity
from gpufleet.lint.source.text import Position, Problem


@dataclass(frozen=True)
class Finding:
    """A remark of a rule at its place."""

    rule: Rule
    severity: Severity
    source: str
    position: Position
    object: str
    path: str
    says: str
    advice: str
    document: int = 0
    fix: Fix | None = None
    object_offset: int = 0

    @property
    def fingerprint(self) -> tuple[str, str, str, str]:
        """What stays the same while lines move."""
        return (self.rule.id, self.source, self.object, self.path)


@dataclass(frozen=True)
class Unknown:
    """A rule that could not judge an object."""

    rule: Rule
    source: str
    position: Position
    object: str
    lacks: str


class FindingKind(enum.Enum):
    """Where a suppression stands, in SARIF's words."""

    IN_SOURCE = "inSource"
    EXTERNAL = "external"


@dataclass(frozen=True)
class Suppressed:
    """A finding that is accepted, and why."""

    finding: Finding
    reason: str
    kind: FindingKind


@dataclass(frozen=True)
class Report:
    """The outcome of a run."""

    findings: tuple[Finding, ...] = ()
    unjudged: tuple[Unknown, ...] = ()
    problems: tuple[Problem, ...] = ()
    notices: tuple[str, ...] = ()
    suppressed: tuple[Suppressed, ...] = ()
    objects_count: int = 0
    sources: dict[str, str] = field(default_factory=dict)

    def count(self, severity: Severity) -> int:
        """How many findings have this severity."""
        return Counter(one.severity for one in self.findings)[severity]

    def fails(self, threshold: Severity | None) -> bool:
        """Whether a finding is at least this severe; None lets all pass."""
        return threshold is not None and any(one.severity >= threshold for one in self.findings)
