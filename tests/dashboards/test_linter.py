"""Each rule finds the board that breaks it, and leaves a good one alone."""

from collections.abc import Callable
from copy import deepcopy
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.dashboards import linter
from tests.dashboards.linter import RULES, Rule, main, name_of, read

Document = dict[str, Any]
CHOSEN = {"type": "prometheus", "uid": "${datasource}"}
OF_ALL = 'cluster=~"$cluster", job=~"$job", instance=~"$instance"'


def choice(name: str) -> Document:
    """A choice among the values of a label."""
    query = f"label_values(up, {name})"
    return {
        "type": "query",
        "name": name,
        "query": query,
        "refresh": 2,
        "datasource": CHOSEN,
        "includeAll": True,
        "allValue": ".+",
    }


GOOD: Document = {
    "uid": "b",
    "id": None,
    "title": "Board",
    "editable": False,
    "templating": {
        "list": [
            {"type": "datasource", "name": "datasource", "query": "prometheus"},
            *map(choice, ("cluster", "job", "instance")),
        ]
    },
    "panels": [
        {"id": 1, "type": "row", "title": "Row"},
        {
            "id": 2,
            "type": "timeseries",
            "title": "Panel",
            "description": "What it shows.",
            "datasource": CHOSEN,
            "fieldConfig": {"defaults": {"unit": "s"}},
            "targets": [
                {
                    "expr": f"sum by (cluster) (rate(x_total{{{OF_ALL}}}[$__rate_interval]))",
                    "datasource": CHOSEN,
                }
            ],
        },
    ],
}


def variable(board: Document, index: int) -> Document:
    """A choice of the board."""
    found: Document = board["templating"]["list"][index]
    return found


def panel(board: Document) -> Document:
    """The panel of the board."""
    found: Document = board["panels"][1]
    return found


def asking(expression: str) -> Callable[[Document], None]:
    """The panel asks this instead."""

    def change(board: Document) -> None:
        panel(board)["targets"][0]["expr"] = expression

    return change


def of_panel(**fields: Any) -> Callable[[Document], None]:
    """The panel has these fields."""
    return lambda board: panel(board).update(fields)


def of_board(**fields: Any) -> Callable[[Document], None]:
    """The board has these fields."""
    return lambda board: board.update(fields)


def of_variable(index: int, **fields: Any) -> Callable[[Document], None]:
    """A choice has these fields."""
    return lambda board: variable(board, index).update(fields)


def without(label: str) -> str:
    """A series that is not chosen by this label."""
    return ", ".join(part for part in OF_ALL.split(", ") if not part.startswith(label))


BAD_PATTERN = {
    "overrides": [{"matcher": {"id": "byRegexp", "options": "Value.*"}}],
    "defaults": {"unit": "s"},
}
BROKEN: list[tuple[Rule, Callable[[Document], None]]] = [
    (linter.template_datasource, of_variable(0, name="DS_PROMETHEUS")),
    (linter.template_job, of_variable(2, includeAll=False)),
    (linter.template_instance, of_variable(3, name="host")),
    (linter.template_label_promql, of_variable(1, query="label_values(up{, cluster)")),
    (linter.template_label_promql, of_variable(1, query="clusters")),
    (linter.template_on_time_change_reload, of_variable(1, refresh=1)),
    (linter.panel_datasource, of_panel(datasource={"type": "prometheus", "uid": "P1809F7CD0C75ACF3"})),
    (linter.panel_datasource, of_variable(1, datasource="Prometheus")),
    (linter.panel_title_description, of_panel(description="")),
    (linter.panel_title_description, of_panel(title="")),
    (linter.panel_units, of_panel(fieldConfig={"defaults": {}})),
    (linter.panel_no_targets, of_panel(targets=[])),
    (linter.target_promql, asking("sum(x")),
    (linter.target_rate_interval, asking(f"rate(x_total{{{OF_ALL}}}[5m])")),
    (linter.target_job, asking(f"x{{{without('job')}}}")),
    (linter.target_instance, asking(f"x{{{without('instance')}}}")),
    (linter.target_counter_agg, asking(f"sum(x_total{{{OF_ALL}}})")),
    (linter.target_counter_agg, asking(f"increase(x_total{{{OF_ALL}}}[1h]) + x_total{{{OF_ALL}}}")),
    (linter.uneditable_dashboard, of_board(editable=True)),
    (linter.no_inputs, of_board(__inputs=[{"name": "DS_PROMETHEUS"}])),
    (linter.stable_uid, of_board(uid=None)),
    (linter.stable_uid, of_board(id=7)),
    (linter.panel_ids, of_panel(id=1)),
    (linter.override_regexp, of_panel(fieldConfig=BAD_PATTERN)),
    (linter.target_cluster, asking(f"x{{{without('cluster')}}}")),
    (linter.target_cluster, asking(f"x{{{OF_ALL}}} / on (node) y{{{OF_ALL}}}")),
]


def broken_by(board: Document) -> set[str]:
    """The names of the rules that find something."""
    found = read(msgspec.json.encode(board))
    return {name_of(rule) for rule in RULES if list(rule(found))}


def test_a_good_board_breaks_no_rule() -> None:
    assert broken_by(GOOD) == set()


@pytest.mark.parametrize(("rule", "change"), BROKEN, ids=[name_of(rule) for rule, _ in BROKEN])
def test_a_rule_finds_the_board_that_breaks_it(rule: Rule, change: Callable[[Document], None]) -> None:
    board = deepcopy(GOOD)
    change(board)
    assert broken_by(board) == {name_of(rule)}


def test_every_rule_has_a_board_that_breaks_it() -> None:
    assert {name_of(rule) for rule, _ in BROKEN} == {name_of(rule) for rule in RULES}


def test_the_program_says_what_it_finds_and_fails(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    good, bad = tmp_path / "good.json", tmp_path / "bad.json"
    good.write_bytes(msgspec.json.encode(GOOD))
    bad.write_bytes(msgspec.json.encode({**GOOD, "editable": True}))
    assert main([str(good)]) == 0
    assert main([str(good), str(bad)]) == 1
    assert capsys.readouterr().out == f"{bad}: uneditable-dashboard: the board is editable\n"
