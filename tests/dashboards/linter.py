"""Rules for dashboards of Grafana, each a function that finds what breaks it in a board.

    python -m tests.dashboards.linter FILE...

prints what it finds in these files and fails if there is any. The first fifteen are the rules of Grafana's
own dashboard-linter, under its names; the others are about what fails silently: inputs that provisioning does
not fill, patterns without slashes that match nothing, clusters that are mixed.
"""

import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import promql_parser as promql

from tests.alerts.queries import below, selectors

SOURCES = ("$datasource", "${datasource}")
REFRESH_ON_TIME_CHANGE = 2
LABEL_VALUES = re.compile(r"label_values\((?:(?P<of>.+),)?\s*(?P<label>\w+)\s*\)")
WITHOUT_QUERIES = {"row", "text", "news", "dashlist", "alertlist"}
WITH_UNITS = {"stat", "timeseries", "gauge", "bargauge", "heatmap", "singlestat", "graph"}
COUNTERS = re.compile(r"_(total|count|bucket|sum)$")
GAUGES = {"cluster_autoscaler_nodes_count"}
"""Gauges of others whose names end like those of counters."""

GROWTH = {"rate", "irate", "increase"}
BY_INTERVAL = {"rate", "irate"}
STAND_INS = {
    "$__rate_interval": "4m",
    "$__interval_ms": "60000",
    "$__range_s": "3600",
    "$__interval": "1m",
    "$__range": "1h",
}


class Loose(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """A part of a board that anyone wrote: what is not known is passed over."""


class Source(Loose, frozen=True):
    """A data source."""

    type: str = ""
    uid: str = ""


class Target(Loose, frozen=True):
    """A query."""

    expr: str = ""
    datasource: Source | str | None = None


class Matcher(Loose, frozen=True):
    """To what an override applies."""

    id: str = ""
    options: Any = None


class Override(Loose, frozen=True):
    """What holds for some fields."""

    matcher: Matcher = Matcher()


class Defaults(Loose, frozen=True):
    """How values are written."""

    unit: str = ""


class FieldConfig(Loose, frozen=True):
    """How values are shown."""

    defaults: Defaults = Defaults()
    overrides: tuple[Override, ...] = ()


class Panel(Loose, frozen=True):
    """A panel, or a row of them."""

    id: int | None = None
    type: str = ""
    title: str = ""
    description: str = ""
    datasource: Source | str | None = None
    targets: tuple[Target, ...] = ()
    field_config: FieldConfig = FieldConfig()
    panels: tuple["Panel", ...] = ()


class Variable(Loose, frozen=True):
    """A choice above the board."""

    type: str = ""
    name: str = ""
    query: Any = None
    definition: str = ""
    refresh: int = 0
    datasource: Source | str | None = None
    include_all: bool = False
    all_value: str | None = None


class Templating(Loose, frozen=True):
    """The choices."""

    list: tuple[Variable, ...] = ()


class Dashboard(Loose, frozen=True):
    """A board."""

    uid: str | None = None
    id: int | None = None
    title: str = ""
    editable: bool = True
    templating: Templating = Templating()
    panels: tuple[Panel, ...] = ()
    inputs: Any = msgspec.field(name="__inputs", default=None)

    @property
    def variables(self) -> tuple[Variable, ...]:
        """The choices."""
        return self.templating.list

    def of_kind(self, kind: str) -> Iterator[Variable]:
        """The choices of one type."""
        return (one for one in self.variables if one.type == kind)

    @property
    def all_panels(self) -> Iterator[Panel]:
        """All panels that show something, those of folded rows too."""
        for panel in self.panels:
            yield from (panel, *panel.panels)

    @property
    def queries(self) -> Iterator[tuple[Panel, str]]:
        """Each query with its panel."""
        for panel in self.all_panels:
            for target in panel.targets:
                yield panel, target.expr


Rule = Callable[[Dashboard], Iterator[str]]


def plain(expression: str) -> str:
    """A query as PromQL: Grafana's own variables have values. Those in quotes may stay."""
    for name, value in STAND_INS.items():
        expression = expression.replace(name, value)
    return re.sub(r'(?<!")\$(\w+|\{\w+\})', "1", expression)


def parsed(expression: str) -> Any | None:
    """The query, None if it is none."""
    try:
        return promql.parse(plain(expression))
    except ValueError:
        return None


def readable(board: Dashboard) -> Iterator[tuple[Panel, str, Any]]:
    """Each query that can be parsed, as text and parsed."""
    for panel, expression in board.queries:
        found = parsed(expression)
        if found is not None:
            yield panel, expression, found


def is_chosen(source: Source | str | None) -> bool:
    """Whether a data source is the one that the reader chose."""
    return (source.uid if isinstance(source, Source) else source) in SOURCES


def template_datasource(board: Dashboard) -> Iterator[str]:
    """One variable for the data source, so that the board works in every Grafana."""
    found = list(board.of_kind("datasource"))
    if [(one.name, one.query) for one in found] != [("datasource", "prometheus")]:
        yield "the board needs one variable of type datasource, named datasource, with the query prometheus"


def _template_label(board: Dashboard, label: str) -> Iterator[str]:
    for one in board.of_kind("query"):
        if one.name == label and one.include_all and one.all_value == ".+":
            return
    yield f"the board has no variable {label} with all values as .+"


def template_job(board: Dashboard) -> Iterator[str]:
    """A choice among jobs."""
    return _template_label(board, "job")


def template_instance(board: Dashboard) -> Iterator[str]:
    """A choice among instances."""
    return _template_label(board, "instance")


def template_label_promql(board: Dashboard) -> Iterator[str]:
    """A choice among values of labels asks in PromQL."""
    for one in board.of_kind("query"):
        query = one.query.get("query", "") if isinstance(one.query, dict) else one.query
        found = LABEL_VALUES.fullmatch(str(query))
        if found is None or (found["of"] and parsed(found["of"]) is None):
            yield f"variable {one.name}: {query} is no label_values(selector, label)"


def template_on_time_change_reload(board: Dashboard) -> Iterator[str]:
    """Choices follow the time that is shown."""
    for one in board.of_kind("query"):
        if one.refresh != REFRESH_ON_TIME_CHANGE:
            yield f"variable {one.name} is not refreshed when the time changes (refresh: 2)"


def panel_datasource(board: Dashboard) -> Iterator[str]:
    """Panels, their queries and choices ask the data source that the reader chose."""
    for panel in board.all_panels:
        sources = (panel.datasource, *(target.datasource for target in panel.targets))
        for source in sources:
            if panel.type not in WITHOUT_QUERIES and not is_chosen(source):
                yield f"panel {panel.title}: the data source is not $datasource"
    for one in board.of_kind("query"):
        if not is_chosen(one.datasource):
            yield f"variable {one.name}: the data source is not $datasource"


def panel_title_description(board: Dashboard) -> Iterator[str]:
    """A panel says what it shows, and how to read it."""
    for panel in board.all_panels:
        if not panel.title or (panel.type != "row" and not panel.description):
            yield f"panel {panel.title or panel.id}: title or description is missing"


def panel_units(board: Dashboard) -> Iterator[str]:
    """A figure has a unit."""
    for panel in board.all_panels:
        if panel.type in WITH_UNITS and not panel.field_config.defaults.unit:
            yield f"panel {panel.title}: there is no unit"


def panel_no_targets(board: Dashboard) -> Iterator[str]:
    """A panel asks something."""
    for panel in board.all_panels:
        if panel.type not in WITHOUT_QUERIES and not panel.targets:
            yield f"panel {panel.title}: there is no query"


def target_promql(board: Dashboard) -> Iterator[str]:
    """A query is PromQL."""
    for panel, expression in board.queries:
        if parsed(expression) is None:
            yield f"panel {panel.title}: {expression} cannot be parsed"


def target_rate_interval(board: Dashboard) -> Iterator[str]:
    """Rates are over $__rate_interval, which always has two samples and follows the width of the panel."""
    for panel, expression in board.queries:
        for found in re.finditer(r"\b(rate|irate)\((?:[^()\[\]]|\"[^\"]*\")*\[([^\]]*)\]", expression):
            if found[2] != "$__rate_interval":
                yield f"panel {panel.title}: {found[1]} over {found[2]} instead of $__rate_interval"


def _target_label(board: Dashboard, label: str) -> Iterator[str]:
    for panel, _, found in readable(board):
        for one in below(found):
            if isinstance(one, promql.VectorSelector):
                names = {(matcher.name, matcher.value) for matcher in one.matchers.matchers}
                if not names & {(label, f"${label}"), (label, f"${{{label}}}")}:
                    yield f"panel {panel.title}: {one.name} is not chosen by ${label}"


def target_job(board: Dashboard) -> Iterator[str]:
    """Each series is chosen by the job."""
    return _target_label(board, "job")


def target_instance(board: Dashboard) -> Iterator[str]:
    """Each series is chosen by the instance."""
    return _target_label(board, "instance")


def target_counter_agg(board: Dashboard) -> Iterator[str]:
    """What only grows is shown by its growth."""
    for panel, expression, found in readable(board):
        grown = [
            one.name
            for call in below(found)
            if isinstance(call, promql.Call) and call.func.name in GROWTH
            for one in selectors(str(call.prettify()))
        ]
        names = [one.name or "" for one in selectors(plain(expression))]
        asked = [name for name in names if COUNTERS.search(name) and name not in GAUGES]
        for name in sorted(set(asked)):
            if grown.count(name) < asked.count(name):
                yield f"panel {panel.title}: the counter {name} is shown as it is"


def uneditable_dashboard(board: Dashboard) -> Iterator[str]:
    """What is provisioned cannot be saved, so it is not offered."""
    if board.editable:
        yield "the board is editable"


def no_inputs(board: Dashboard) -> Iterator[str]:
    """Provisioning and the sidecar fill no inputs: the data source would not be found."""
    if board.inputs:
        yield "the board has __inputs, which only an import by hand fills"


def stable_uid(board: Dashboard) -> Iterator[str]:
    """Links and updates find a board by its uid; its number belongs to one Grafana."""
    if not board.uid or board.id is not None:
        yield "the board needs a uid, and no id"


def panel_ids(board: Dashboard) -> Iterator[str]:
    """Links to panels find them by their number."""
    numbers = [panel.id for panel in board.all_panels]
    if None in numbers or len(set(numbers)) != len(numbers):
        yield "panels have no numbers, or two have the same"


def override_regexp(board: Dashboard) -> Iterator[str]:
    """A pattern without slashes matches nothing, silently."""
    for panel in board.all_panels:
        for one in panel.field_config.overrides:
            pattern = str(one.matcher.options)
            if one.matcher.id == "byRegexp" and not re.fullmatch(r"/.*/\w*", pattern):
                yield f"panel {panel.title}: the pattern {pattern} is not between slashes"


def target_cluster(board: Dashboard) -> Iterator[str]:
    """Each series is chosen by the cluster, and series are matched within their cluster."""
    yield from _target_label(board, "cluster")
    for panel, _, found in readable(board):
        for part in below(found):
            modifier = getattr(part, "modifier", None)
            matching = None if isinstance(part, promql.AggregateExpr) else getattr(modifier, "matching", None)
            if matching is not None and "cluster" not in matching.labels:
                yield f"panel {panel.title}: series of different clusters are matched"


RULES: tuple[Rule, ...] = (
    template_datasource,
    template_job,
    template_instance,
    template_label_promql,
    template_on_time_change_reload,
    panel_datasource,
    panel_title_description,
    panel_units,
    panel_no_targets,
    target_promql,
    target_rate_interval,
    target_job,
    target_instance,
    target_counter_agg,
    uneditable_dashboard,
    no_inputs,
    stable_uid,
    panel_ids,
    override_regexp,
    target_cluster,
)


def read(text: bytes) -> Dashboard:
    """The board in a file; raises msgspec.DecodeError if it is none."""
    return msgspec.json.decode(text, type=Dashboard)


def name_of(rule: Rule) -> str:
    """The name of a rule as dashboard-linter writes it."""
    return getattr(rule, "__name__", "").replace("_", "-")


def main(paths: list[str]) -> int:
    """Print what breaks which rule; 1 if anything does."""
    found = [
        f"{path}: {name_of(rule)}: {words}"
        for path in paths
        for board in [read(Path(path).read_bytes())]
        for rule in RULES
        for words in rule(board)
    ]
    sys.stdout.write("".join(f"{line}\n" for line in found))
    return int(bool(found))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
