"""What lint's rules say of one object on its way into the cluster, without those from which it is excepted.

The same verdict as that of the policies, in Python: the webhook asks for rules that CEL cannot say, and
for all rules about one object where no policy reads its kind. An exception is the annotation by which lint
accepts a finding, on the object, its pods or its namespace, and counts until its last day.

A finding of lint may count less than its rule, for what the object says of itself: a privileged tracer is
told by the folders of the node that it mounts. At the door that is no reason, since any pod can mount them,
so a finding counts as its rule does where a policy judges the rule.
"""

import datetime as dt
from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from gpufleet.lint.objects.context import Context
from gpufleet.lint.objects.manifest import Manifest
from gpufleet.lint.rule import Rule, RuleFinding, Severity
from gpufleet.lint.source.fields import Field
from gpufleet.lint.source.json_values import node_of
from gpufleet.lint.source.text import SourceText
from gpufleet.lint.suppressions import (
    ANNOTATION_DOMAIN,
    Suppression,
    annotated_suppression,
    read_suppression,
)
from gpufleet.model.model_errors import shortened

WORDS_MAX = 400
"""Characters of one sentence: the API server cuts warnings that are longer than what it sends."""

REQUEST = SourceText("request", "")


@dataclass(frozen=True)
class AdmissionVerdict:
    """One finding. ``words`` name the rule, say what is wrong, and what helps."""

    rule: Rule
    severity: Severity
    path: str
    words: str


def manifest_of(body: Mapping[str, Any]) -> Manifest:
    """An object from the wire as rules read it."""
    return Manifest(REQUEST, Field(node_of(dict(body))))


def verdicts(
    manifest: Manifest,
    rules: Iterable[Rule],
    today: dt.date,
    namespace_annotations: Mapping[str, str],
    context: Context | None = None,
    *,
    of_policies: Container[str] = (),
) -> list[AdmissionVerdict]:
    """What the rules find, in their order. ``context`` has the other objects, if they are known.

    ``of_policies`` are the rules that a policy judges, by id.
    """
    known = context or Context((manifest,))
    found = []
    for rule in rules:
        if not rule.concerns(manifest) or is_excepted(rule.id, manifest, today, namespace_annotations):
            continue
        for verdict in rule.check(manifest, known):
            if isinstance(verdict, RuleFinding):
                words = shortened(f"{rule.id} {rule.title}: {verdict.says}; {verdict.advice}", WORDS_MAX)
                severity = rule.severity if rule.id in of_policies else verdict.severity or rule.severity
                found.append(AdmissionVerdict(rule, severity, verdict.field.path, words))
    return found


def is_excepted(
    rule_id: str, manifest: Manifest, today: dt.date, namespace_annotations: Mapping[str, str]
) -> bool:
    """Whether the object is excepted from the rule on this day."""
    return exception_of(rule_id, manifest, today, namespace_annotations) is not None


def exception_of(
    rule_id: str, manifest: Manifest, today: dt.date, namespace_annotations: Mapping[str, str]
) -> Suppression | None:
    """The exception that counts on this day, of the object, of its pods or of its namespace."""
    written = annotated_suppression(rule_id, manifest)
    if written is None and (text := namespace_annotations.get(ANNOTATION_DOMAIN + rule_id)) is not None:
        written = read_suppression(text)
    if written is None or isinstance(written, str):
        return None
    return written if written.until is None or today <= written.until else None
