"""Every query of every board, asked of a Prometheus that scraped real agents and a real scheduler.

While all is well each panel answers that does not say why it may be empty; after trouble nearly all do. No
series has a name twice, and each value is a number.
"""

import math
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from gpufleet.dashboards.board import Board, LabelVariable, Panel, PanelKind
from gpufleet.dashboards.catalogue import BOARDS
from gpufleet.dashboards.grafana_codec import label_values
from tests.dashboards.asking import Answer, Shown, answers, asked, filled, named
from tests.dashboards.linter import LABEL_VALUES
from tests.dashboards.story import Fleet, a_fleet, settle

PAUSE_S = 15.0
TRIES = 5
"""A page that is scraped each second is missed once in a while, and not so often in a row."""

EMPTY_AFTER_TROUBLE = {
    "Replicas: wanted and there": "no kube-state-metrics runs in the story",
    "Kubelets that refuse, and evictions that did not happen": "nothing is refused in the story",
    "Gangs in part": "the story has no gang",
    "Reservations that are overdue": "the story has no reservation",
    "Budgets": "no ledger with budgets runs in the story",
    "Used part of budgets": "no ledger with budgets runs in the story",
}
"""Panels that even trouble leaves empty, each with its reason."""

Answers = dict[tuple[str, str], tuple[Answer, ...]]


def all_panels() -> Iterator[tuple[Board, Panel]]:
    """Every panel that asks something."""
    for board in BOARDS:
        for panel in board.panels:
            if panel.kind is not PanelKind.TEXT:
                yield board, panel


def all_answers(address: str, shown: Shown) -> Answers:
    """What all panels show."""
    return {(board.title, panel.title): answers(address, panel, shown) for board, panel in all_panels()}


def empty(found: Answers) -> set[tuple[str, str]]:
    """Panels of which a query has no answer."""
    return {title for title, its in found.items() if not all(answer.series for answer in its)}


def silent(found: Answers) -> set[str]:
    """Titles of panels that show nothing at all."""
    return {title for (_, title), its in found.items() if not any(answer.series for answer in its)}


def not_a_number(found: Answers) -> set[tuple[str, str]]:
    """Panels with values that are none."""
    return {
        title
        for title, its in found.items()
        for answer in its
        for series in answer.series
        if not all(math.isfinite(value) for _, value in series.points)
    }


def twice(found: Answers) -> dict[tuple[str, str], list[str]]:
    """Names that a panel has more than once."""
    kinds = {(board.title, panel.title): panel.kind for board, panel in all_panels()}
    names = {
        title: [named(answer.query, series.labels) for answer in its for series in answer.series]
        for title, its in found.items()
        if kinds[title] is not PanelKind.TABLE
    }
    return {title: its for title, its in names.items() if len(set(its)) < len(its)}


def test_every_query_answers_and_says_what_it_is(tmp_path: Path) -> None:
    with a_fleet(tmp_path) as fleet:
        settle(fleet, PAUSE_S)
        may_be_empty = {(board.title, panel.title) for board, panel in all_panels() if panel.empty_when_well}
        well = answered(fleet, lambda found: empty(found) <= may_be_empty)
        assert empty(well) - may_be_empty == set()
        fleet.trouble(PAUSE_S)
        trouble = answered(fleet, lambda found: silent(found) == set(EMPTY_AFTER_TROUBLE))
        assert silent(trouble) == set(EMPTY_AFTER_TROUBLE)
        for found in (well, trouble):
            assert not_a_number(found) == set()
            assert twice(found) == {}
            assert names_missing(found) == set()
        assert choices_without_values(fleet.prometheus) == set()


def answered(fleet: Fleet, holds: Callable[[Answers], bool]) -> Answers:
    """What all panels show, asked again while it is not so: a missed scrape empties panels for a while."""
    for _ in range(TRIES):
        found = all_answers(fleet.prometheus, Shown(fleet.begun_s, time.time()))
        if holds(found):
            break
        time.sleep(PAUSE_S / TRIES)
    return found


def names_missing(found: Answers) -> set[tuple[str, str]]:
    """Panels with several series of which one has no name."""
    kinds = {(board.title, panel.title): panel.kind for board, panel in all_panels()}
    return {
        title
        for title, its in found.items()
        for answer in its
        if kinds[title] is not PanelKind.TABLE
        and not answer.query.legend
        and (len(answer.series) > 1 or len(its) > 1)
    }


def choices_without_values(address: str) -> set[str]:
    """Choices of boards that would be empty."""
    shown = Shown(time.time() - 1, time.time())
    found = set()
    for board in BOARDS:
        for one in board.variables:
            if isinstance(one, LabelVariable):
                query = LABEL_VALUES.fullmatch(label_values(one))
                assert query is not None
                of = filled(query["of"], shown)
                series = asked(address, "query", query=f"count by ({one.name}) ({of})")
                if not any(one.name in dict(each["metric"]) for each in series):  # type: ignore[call-overload]
                    found.add(f"{board.title}: {one.name}")
    return found


@pytest.mark.parametrize("title", EMPTY_AFTER_TROUBLE)
def test_what_stays_empty_says_so(title: str) -> None:
    assert [panel.empty_when_well for _, panel in all_panels() if panel.title == title] != [""]
