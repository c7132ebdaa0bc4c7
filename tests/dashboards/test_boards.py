"""What holds of our boards before any Prometheus is asked."""

import json
import re
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from gpufleet.cli.main import gpufleet
from gpufleet.dashboards.board import Board, LabelVariable, Panel, PanelKind
from gpufleet.dashboards.catalogue import BOARDS, files
from gpufleet.dashboards.grafana_codec import encode, label_values
from gpufleet.dashboards.layout import COLUMNS, placed
from tests.alerts.promtool import all_alerts, groups
from tests.alerts.queries import KNOWN, SCRAPED, base_name, selectors
from tests.chart.rendering import NAMESPACE, rendered
from tests.conventions.project import ROOT
from tests.dashboards.linter import LABEL_VALUES, RULES, name_of, plain, read

FOLDER = ROOT / "charts" / "gpufleet" / "monitoring" / "dashboards"
EXCEPTIONS = {
    "template-job": "our metrics' names belong to one program each, whatever the scrape is called",
    "target-job": "the same; a choice among jobs would hide series of a scrape with another name",
    "template-instance": "a scheduler's instance changes with the leader; nodes, cards and queues are chosen",
    "target-instance": "the same; a chosen instance would end at the change of the leader",
}
"""Rules of Grafana's linter that are not for our boards, each with its reason."""
VLLM = {
    "vllm:num_requests_waiting": set[str](),
    "vllm:num_requests_running": set[str](),
    "vllm:kv_cache_usage_perc": set[str](),
    "vllm:time_to_first_token_seconds_bucket": {"le"},
    "vllm:generation_tokens_total": set[str](),
    "vllm:num_preemptions_total": set[str](),
}
"""Metrics of vLLM 0.10 and newer (its docs, production metrics); all have the labels of an engine."""
OF_ENGINE = {"model_name", "engine", "namespace", "pod"}
OF_AUTOSCALER = {"namespace", "horizontalpodautoscaler"}
FOREIGN = {
    "ALERTS": {"alertname", "alertstate", "severity", "node", "gpu", "queue", "namespace", "pod"},
    **{name: labels | OF_ENGINE for name, labels in VLLM.items()},
    "kube_horizontalpodautoscaler_status_desired_replicas": OF_AUTOSCALER,
    "kube_horizontalpodautoscaler_status_current_replicas": OF_AUTOSCALER,
}
"""Series of Prometheus itself, of vLLM, and of kube-state-metrics (2.17), with their labels."""
RECORDS: dict[str, set[str]] = {
    rule["record"]: set() for group in groups() for rule in group["rules"] if "record" in rule
}
ALL = {**KNOWN, **{name: labels | SCRAPED for name, labels in {**FOREIGN, **RECORDS}.items()}}

boards = pytest.mark.parametrize("board", BOARDS, ids=lambda board: board.uid)


def expressions(board: Board) -> Iterator[str]:
    """Every query of a board, those of its choices too."""
    for panel in board.panels:
        yield from (query.expression for query in panel.queries)
    for one in board.variables:
        if isinstance(one, LabelVariable):
            found = LABEL_VALUES.fullmatch(label_values(one))
            assert found is not None
            yield found["of"]


def test_the_files_are_what_the_code_makes() -> None:
    there = {path.name: path.read_bytes() for path in FOLDER.iterdir()}
    assert there == files(), f"`gpufleet dashboards --out {FOLDER.relative_to(ROOT)}` writes them"


@boards
def test_a_board_breaks_no_rule(board: Board) -> None:
    document = read(encode(board))
    found = [
        f"{name_of(rule)}: {words}"
        for rule in RULES
        if name_of(rule) not in EXCEPTIONS
        for words in rule(document)
    ]
    assert found == []


@boards
def test_grafanas_own_schema_knows_all_that_a_board_says(board: Board) -> None:
    with warnings.catch_warnings():
        # It says that a second version of the schema is preferred, which older Grafanas cannot read.
        warnings.simplefilter("ignore", DeprecationWarning)
        from grafana_foundation_sdk.cog import encoder, plugins
        from grafana_foundation_sdk.models import dashboard

        plugins.register_default_plugins()
        document = json.loads(encode(board))
        read_back = dashboard.Dashboard.from_json(document)
        written = json.loads(json.dumps(read_back, cls=encoder.JSONEncoder))
    assert list(lost(document, written)) == []


def lost(before: Any, after: Any, path: str = "") -> Iterator[str]:
    """What of a document is not in another, by its place."""
    if isinstance(before, dict):
        for key, value in before.items():
            if value is not None:
                yield from lost(value, (after or {}).get(key), f"{path}.{key}")
    elif isinstance(before, list):
        for index, value in enumerate(before):
            yield from lost(value, after[index] if index < len(after or ()) else None, f"{path}[{index}]")
    elif before != after:
        yield f"{path}: {before!r}"


def test_a_field_that_grafana_does_not_know_is_noticed() -> None:
    assert list(lost({"a": {"b": 1, "c": [2]}}, {"a": {"c": []}})) == [".a.b: 1", ".a.c[0]: 2"]


@boards
def test_every_metric_and_label_that_is_asked_for_exists(board: Board) -> None:
    for expression in expressions(board):
        for one in selectors(plain(expression)):
            labels = ALL.get(base_name(one.name), ALL.get(one.name))
            assert labels is not None, f"{one.name}: nothing has this name"
            known = labels | ({"le"} if one.name.endswith("_bucket") else set())
            assert {matcher.name for matcher in one.matchers.matchers} <= known, expression


@boards
def test_a_choice_is_among_values_of_a_label_that_its_metric_has(board: Board) -> None:
    for one in board.variables:
        if isinstance(one, LabelVariable):
            assert one.name in ALL[one.metric]


@boards
def test_panels_stand_beside_one_another_and_fill_the_page(board: Board) -> None:
    taken: set[tuple[int, int]] = set()
    for one in placed(board.rows):
        place = one.place
        cells = {
            (x, y)
            for x in range(place.x, place.x + place.width)
            for y in range(place.y, place.y + place.height)
        }
        assert not cells & taken
        assert place.x + place.width <= COLUMNS
        taken |= cells
    lines = max(y for _, y in taken) + 1
    assert len(taken) == lines * COLUMNS, "there is a hole in the page"


@boards
def test_titles_are_unique_and_words_are_sentences(board: Board) -> None:
    titles = [panel.title for panel in board.panels]
    assert len(set(titles)) == len(titles)
    for panel in board.panels:
        assert panel.description.endswith("."), panel.title
        assert panel.kind is not PanelKind.TABLE or panel.columns, panel.title


@boards
def test_columns_of_a_table_are_labels_that_its_queries_keep(board: Board) -> None:
    for panel in (one for one in board.panels if one.kind is PanelKind.TABLE):
        for column in panel.columns:
            if isinstance(column.source, str):
                assert all(keeps(panel, column.source)), f"{panel.title}: {column.source}"
            else:
                assert column.source < len(panel.queries)


@boards
def test_a_click_on_a_value_opens_a_board_that_has_this_choice(board: Board) -> None:
    choices = {one.uid: {variable.name for variable in one.variables} for one in BOARDS}
    opened = [column for panel in board.panels for column in panel.columns if column.opens]
    for column in opened:
        assert column.opens is not None
        assert column.opens.variable == column.source
        assert column.opens.variable in choices[column.opens.uid]
        assert column.opens.uid != board.uid
    assert encode(board).decode().count('"Open this ') == len(opened)


def keeps(panel: Panel, label: str) -> Iterator[bool]:
    """Whether the first query of a table names the label among those that it keeps."""
    by = re.findall(r"by \(([^)]*)\)", panel.queries[0].expression)
    yield any(label in part.split(", ") for part in by)


def test_the_names_of_alerts_are_those_that_ship() -> None:
    (pattern,) = set(re.findall(r'alertname=~"([^"]+)"', encode(BOARDS[0]).decode().replace('\\"', '"')))
    names = {rule["alert"] for rule in all_alerts()} - {"Heartbeat"}
    assert {name for name in names if not re.fullmatch(pattern, name)} == set()


def test_the_command_writes_the_files_and_lists_the_boards(tmp_path: Path) -> None:
    runner = CliRunner()
    done = runner.invoke(gpufleet, ["dashboards", "--out", str(tmp_path / "new")])
    assert done.exit_code == 0
    assert {path.name: path.read_bytes() for path in (tmp_path / "new").iterdir()} == files()
    listed = runner.invoke(gpufleet, ["dashboards"]).output.splitlines()
    assert [line.split()[0] for line in listed] == [board.uid for board in BOARDS]


def config_maps(**values: Any) -> list[dict[str, Any]]:
    """The ConfigMaps of dashboards in the chart with these values."""
    found = rendered({f"dashboards.{name}": value for name, value in values.items()})
    return [
        one for one in found if one["kind"] == "ConfigMap" and one["metadata"]["name"].endswith("-dashboard")
    ]


def test_the_chart_has_each_board_where_the_sidecar_looks() -> None:
    assert config_maps() == []
    found = config_maps(enabled=True)
    assert {name: text.encode() for one in found for name, text in one["data"].items()} == {
        name: content.rstrip(b"\n") for name, content in files().items()
    }
    for one in found:
        assert one["metadata"]["namespace"] == NAMESPACE
        assert one["metadata"]["labels"]["grafana_dashboard"] == "1"
        assert one["metadata"]["annotations"] == {"grafana_folder": "gpufleet"}


def test_the_chart_labels_boards_as_another_sidecar_wants_it() -> None:
    found = config_maps(
        enabled=True,
        namespace="monitoring",
        label="dashboards",
        labelValue="yes",
        additionalLabels={"team": "platform"},
        annotations={"a": "b"},
        folder="",
    )
    assert len(found) == len(BOARDS)
    for one in found:
        assert one["metadata"]["namespace"] == "monitoring"
        assert {"dashboards": "yes", "team": "platform"}.items() <= one["metadata"]["labels"].items()
        assert one["metadata"]["annotations"] == {"a": "b"}
