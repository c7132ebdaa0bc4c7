"""Findings weighed as the project wants: other severities, suppressions, and what is known from before."""

import datetime as dt
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from gpufleet.advise.lint.baseline import Fingerprint
from gpufleet.advise.lint.settings import Settings
from gpufleet.lint.findings import Finding, FindingKind, Report, Suppressed
from gpufleet.lint.objects.manifest import Manifest
from gpufleet.lint.run import Reading
from gpufleet.lint.source.text import Problem
from gpufleet.lint.suppressions import Suppression, written_suppression

FROM_BASELINE = "known from the baseline"


@dataclass(frozen=True)
class Terms:
    """What a project accepts, and the day on which that is asked."""

    today: dt.date
    settings: Settings = field(default_factory=Settings)
    known: Counter[Fingerprint] = field(default_factory=Counter)


def without_accepted(report: Report, readings: Sequence[Reading], terms: Terms) -> Report:
    """The report with what is accepted set apart."""
    places = {(one.source.name, one.root.offset): one for read in readings for one in read.manifests}
    # A finding of the baseline accepts as many of its kind as there were then, and no more.
    left = Counter(terms.known)
    kept: list[Finding] = []
    suppressed: list[Suppressed] = []
    problems: list[Problem] = []
    for one in report.findings:
        weighed = replace(one, severity=terms.settings.severity(one.rule.id) or one.severity)
        suppression, kind = _suppression_of(one, places[one.source, one.object_offset], terms)
        if isinstance(suppression, str):
            reason = f"the suppression of {one.rule.id} {suppression}"
            problems.append(Problem(one.source, one.position, reason))
        elif suppression is not None and (suppression.until is None or terms.today <= suppression.until):
            suppressed.append(Suppressed(weighed, suppression.reason, kind))
            continue
        elif suppression is not None:
            weighed = replace(weighed, says=f"{weighed.says} (its suppression ended on {suppression.until})")
        if left[one.fingerprint] > 0:
            left[one.fingerprint] -= 1
            suppressed.append(Suppressed(weighed, FROM_BASELINE, FindingKind.EXTERNAL))
        else:
            kept.append(weighed)
    return replace(
        report,
        findings=tuple(kept),
        suppressed=tuple(suppressed),
        problems=(*report.problems, *problems),
    )


def _suppression_of(
    finding: Finding, manifest: Manifest, terms: Terms
) -> tuple[Suppression | str | None, FindingKind]:
    written = written_suppression(finding, manifest)
    if written is not None:
        return written, FindingKind.IN_SOURCE
    return terms.settings.suppression(finding.rule.id), FindingKind.EXTERNAL
