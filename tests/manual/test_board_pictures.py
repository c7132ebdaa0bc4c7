"""The pictures of dashboards show what the boards say, and that they are not Grafana's."""

import re
from html import unescape

import pytest

from gpufleet.dashboards.board import Board, Colour, Panel, PanelKind, Query, Row, Threshold, Unit
from gpufleet.dashboards.catalogue import BOARDS
from manual.board_drawing import NOTE, cut, drawn
from manual.board_values import colour_of, written
from manual.dashboard_pictures import FOLDER, IN_BOTH
from tests.conventions.project import ROOT
from tests.dashboards.asking import Answer, Series, Shown

SHOWN = Shown(0.0, 60.0)
PAGE = ROOT / "docs" / "dashboards.md"


def words_of(picture: str) -> list[str]:
    """All words of a picture."""
    return [unescape(one) for one in re.findall(r"<text[^>]*>([^<]*)</text>", picture)]


def answered(panel: Panel) -> list[Answer]:
    """An answer to each query, with all labels that legends and tables ask for."""
    labels = {column.source: "x" for column in panel.columns if isinstance(column.source, str)}
    labels |= dict.fromkeys(("cluster", "node", "queue", "le"), "1")
    points = tuple((float(at), 0.5) for at in range(0, 60, 5))
    return [Answer(query, (Series(labels, points),)) for query in panel.queries]


@pytest.mark.parametrize("board", BOARDS, ids=lambda board: board.uid)
@pytest.mark.parametrize("is_dark", [False, True])
def test_a_picture_names_every_panel_and_says_that_it_is_not_grafana(board: Board, is_dark: bool) -> None:
    answers = {panel.title: answered(panel) for panel in board.panels}
    words = words_of(drawn(board, answers, SHOWN, is_dark=is_dark))
    assert NOTE in words
    for panel in board.panels:
        assert any(panel.title.startswith(word.removesuffix("…")) for word in words if word), panel.title
    assert not [word for word in words if word.startswith("No data")]


@pytest.mark.parametrize("board", BOARDS, ids=lambda board: board.uid)
def test_a_panel_without_an_answer_says_so(board: Board) -> None:
    words = words_of(drawn(board, {}, SHOWN, is_dark=False))
    asking = [panel for panel in board.panels if panel.kind is not PanelKind.TEXT]
    assert sum(word.startswith(("No data", "not known")) for word in words) == len(asking)


@pytest.mark.parametrize("board", BOARDS, ids=lambda board: board.uid)
def test_the_page_shows_a_picture_of_every_board(board: Board) -> None:
    page = PAGE.read_text(encoding="utf-8")
    names = [board.uid, f"{board.uid}-dark"] if board.uid == IN_BOTH else [board.uid]
    for name in names:
        assert f"](images/dashboards/{name}.svg)" in page
        words = words_of((FOLDER / f"{name}.svg").read_text(encoding="utf-8"))
        assert NOTE in words
        for panel in board.panels:
            assert cut(panel.title, 1e9) in words or any(word.endswith("…") for word in words), panel.title


def test_a_line_breaks_where_values_are_missing() -> None:
    panel = Panel("Line", "A line.", PanelKind.LINES, (Query("x", "x"),), Unit.COUNT, minimum=0)
    points = tuple((float(at), 1.0) for at in (0, 1, 2, 30, 31, 32))
    board = Board("b", "B", "A board.", (Row("Row", (panel,)),))
    answers = {"Line": [Answer(panel.queries[0], (Series({}, points),))]}
    assert drawn(board, answers, SHOWN, is_dark=False).count("<polyline") == 2


@pytest.mark.parametrize(
    ("value", "unit", "words"),
    [
        (0.0, Unit.COUNT, "0"),
        (1500.0, Unit.WATTS, "1.5 kW"),
        (0.256, Unit.RATIO, "25.6 %"),
        (0.0035, Unit.SECONDS, "3.5 ms"),
        (90.0, Unit.SECONDS, "1.5 min"),
        (85_899_345_920.0, Unit.BYTES, "80 GiB"),
        (41.0, Unit.CELSIUS, "41 °C"),
    ],
)
def test_a_value_is_written_with_its_unit(value: float, unit: Unit, words: str) -> None:
    assert written(value, unit) == words


def test_the_highest_threshold_that_is_reached_colours_a_value() -> None:
    thresholds = (Threshold(1, Colour.WARNING), Threshold(10, Colour.BAD))
    found = [colour_of(value, Colour.GOOD, thresholds) for value in (0.9, 1.0, 9.9, 10.0)]
    assert found == [Colour.GOOD, Colour.WARNING, Colour.WARNING, Colour.BAD]
