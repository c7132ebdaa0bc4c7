"""Queries of Prometheus in rules and in dashboards of Grafana: objects, parts of a ConfigMap, or files."""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass

from gpufleet.lint.objects.manifest import DASHBOARD, RULE_FILE, Manifest
from gpufleet.lint.source.fields import Field

QUOTED = re.compile(r"\"[^\"]*\"|'[^']*'")
DEPTH_MAX = 16
"""Rows of panels stand within one another; nothing else in a dashboard is so deep."""


@dataclass(frozen=True)
class Query:
    """A query, the field that it stands in, and what people call it."""

    field: Field
    title: str
    text: str
    is_alert: bool = False

    @property
    def plain(self) -> str:
        """The query without its texts in quotes."""
        return QUOTED.sub("", self.text)


RULE_KINDS = ("PrometheusRule", RULE_FILE)


def may_have_queries(manifest: Manifest) -> bool:
    """Whether the object is of rules or a dashboard, or a ConfigMap with a file that may be one."""
    if manifest.kind == "ConfigMap":
        return any(name.endswith(".json") for name, _ in manifest.root.at("data").entries())
    return manifest.kind in {*RULE_KINDS, DASHBOARD, "GrafanaDashboard"}


def rules_of(manifest: Manifest) -> Iterator[Field]:
    """Every rule of a PrometheusRule, or of a file of Prometheus."""
    top = manifest.root if manifest.kind == RULE_FILE else manifest.root.at("spec")
    for group in top.at("groups").items():
        yield from group.at("rules").items()


def queries_of(manifest: Manifest) -> Iterator[Query]:
    """Every query of the object."""
    match manifest.kind:
        case "ConfigMap":
            for name, field in manifest.root.at("data").entries():
                if name.endswith(".json"):
                    yield from _of_dashboard(field)
        case "GrafanaDashboard":
            yield from _of_dashboard(manifest.root.at("spec", "json"))
        case kind if kind == DASHBOARD:
            yield from _of_fields(manifest.root, 0)
        case _:
            yield from _of_rules(manifest)


def _of_rules(manifest: Manifest) -> Iterator[Query]:
    for rule in rules_of(manifest):
        alert = rule.at("alert").text
        title = alert or rule.at("record").text or "a rule"
        yield Query(rule.at("expr"), title, rule.at("expr").text or "", alert is not None)


def _of_fields(part: Field, depth: int) -> Iterator[Query]:
    """The queries of panels that are fields of a file."""
    for panel in part.at("panels").items() if depth <= DEPTH_MAX else ():
        title = panel.at("title").text or "without a title"
        for target in panel.at("targets").items():
            if text := target.at("expr").text:
                yield Query(target.at("expr"), f"panel {title}", text)
        yield from _of_fields(panel, depth + 1)


def _of_dashboard(field: Field) -> Iterator[Query]:
    """The queries of its panels; none of a file that is no JSON."""
    try:
        board = json.loads(field.text or "")
    except (ValueError, RecursionError):
        return
    yield from _of_panels(field, board, 0)


def _of_panels(field: Field, part: object, depth: int) -> Iterator[Query]:
    panels = part.get("panels") if isinstance(part, dict) else None
    if not isinstance(panels, list) or depth > DEPTH_MAX:
        return
    for panel in panels:
        if not isinstance(panel, dict):
            continue
        targets = panel.get("targets")
        for target in targets if isinstance(targets, list) else ():
            text = target.get("expr") if isinstance(target, dict) else None
            if isinstance(text, str):
                yield Query(field, f"panel {panel.get('title') or 'without a title'}", text)
        yield from _of_panels(field, panel, depth + 1)
