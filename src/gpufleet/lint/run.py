"""A run: texts are read, every rule is asked about every object it concerns, and what it says gets its place.

Pure: reads no file and no clock. ``inputs`` finds the texts, ``fixing`` mends them.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from gpufleet.lint.findings import Finding, Report, Unknown
from gpufleet.lint.objects.cluster import Cluster
from gpufleet.lint.objects.context import Context
from gpufleet.lint.objects.manifest import Manifest, manifests_of
from gpufleet.lint.objects.measured_use import MeasuredUse
from gpufleet.lint.objects.shapes import wrong_types
from gpufleet.lint.objects.sharing_texts import wrong_sharing_types
from gpufleet.lint.rule import Rule, RuleFinding
from gpufleet.lint.source.parse import Parsed, parse
from gpufleet.lint.source.text import Problem, SourceText
from gpufleet.model.model_errors import shortened


@dataclass(frozen=True)
class Reading:
    """One text and what it holds."""

    source: SourceText
    parsed: Parsed
    manifests: tuple[Manifest, ...]
    problems: tuple[Problem, ...]
    other_documents: int


def read(source: SourceText) -> Reading:
    """Everything that the text holds."""
    parsed = parse(source)
    manifests, problems, others = manifests_of(source, parsed)
    for manifest in manifests:
        problems += (*wrong_types(manifest), *wrong_sharing_types(manifest))
    return Reading(source, parsed, tuple(manifests), (*parsed.problems, *problems), others)


def lint(
    readings: Sequence[Reading],
    rules: Iterable[Rule],
    context: Context | None = None,
    cluster: Cluster | None = None,
    use: MeasuredUse | None = None,
) -> Report:
    """What the rules say of all that was read."""
    manifests = tuple(manifest for reading in readings for manifest in reading.manifests)
    context = context or Context(manifests, cluster, use)
    findings: list[Finding] = []
    unjudged: list[Unknown] = []
    rules = tuple(rules)
    for manifest in manifests:
        for rule in rules:
            if rule.concerns(manifest):
                for verdict in rule.check(manifest, context):
                    if isinstance(verdict, RuleFinding):
                        findings.append(_finding(manifest, rule, verdict))
                    else:
                        place = manifest.source.position(verdict.field.offset)
                        title = manifest.title
                        unjudged.append(Unknown(rule, manifest.source.name, place, title, verdict.lacks))
    order = {reading.source.name: number for number, reading in enumerate(readings)}
    # In the order in which a person gave the files and reads them.
    findings.sort(key=lambda one: (order.get(one.source, 0), one.position, one.rule.id))
    return Report(
        tuple(findings),
        tuple(unjudged),
        tuple(problem for reading in readings for problem in reading.problems),
        objects_count=len(manifests),
        sources={reading.source.name: reading.source.text for reading in readings},
    )


WORDS_MAX = 4000
"""Characters of what is said in one place: a value of a manifest may have megabytes."""


def _finding(manifest: Manifest, rule: Rule, remark: RuleFinding) -> Finding:
    return Finding(
        rule,
        rule.severity_of(manifest, remark),
        manifest.source.name,
        manifest.source.position(remark.field.offset),
        manifest.title,
        shortened(remark.field.path, WORDS_MAX),
        shortened(remark.says, WORDS_MAX),
        shortened(remark.advice, WORDS_MAX),
        manifest.document,
        remark.fix,
        manifest.root.offset,
    )
