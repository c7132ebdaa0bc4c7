"""Tables and frames: widths hold, nothing from a cluster steers the terminal, lines keep their places."""

import dataclasses
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from gpufleet.explain.queue_answer import PendingRow, QueueRow, ResourceRow, WaitingRow
from gpufleet.overview.rows.engine_report import GangReport
from gpufleet.overview.rows.lines import NodeLine, PodLine
from gpufleet.top.screen.choice import Choice
from gpufleet.top.screen.frame import Frame, Header, Size, frame
from gpufleet.top.screen.order import Order, matching
from gpufleet.top.screen.table import cut_in_the_middle, fitted, in_full, wrapped
from gpufleet.top.screen.views import NODE, POD, VIEWS
from gpufleet.top.showing import Freshness, ViewLines, header
from tests.overview.known_values import NOW, engine_report, known, measured, node, pod, report

SGR = re.compile(r"\x1b\[[0-9;]*m")
FRESH = Freshness(0.0, "", is_whole=True)
TEXTS = st.text(max_size=60) | st.text("漢字한글\u0301\u200b\x1b[2J\r\n\t界", max_size=40)


def fleet() -> Any:
    waits = (
        WaitingRow("pod", "team", "evaluate-x2k9", 1, 0, "quota", 1, "2026-03-01T11:30:00Z", cause="quota"),
    )
    use = ResourceRow("gpu", "6.5", "4", "4", "2.5", "0", "5")
    queue = QueueRow("team-a", resources=(use,), pending=(PendingRow("quota", 1),), waiting=waits)
    gang = GangReport("team", "train", "team-a", 4, 4, 2, 32_000, "2026-03-01T09:00:00Z", pods=("train-0",))
    return known(
        *(node("gpu-001"), report("gpu-001")),
        *(node("gpu-002", ready="Unknown"), report("gpu-002", unwell=1)),
        *(pod("train-0", on="gpu-001", gpus=4), pod("notebook-5c7d", on="gpu-001")),
        pod("evaluate-x2k9", gpus=2, why="needs 2 whole GPUs; queue team-a has none left of its quota of 4"),
        use={"gpu-001": measured(("notebook-5c7d", 0.0, 41.5), ("train-0", 0.97, 70))},
        engine_report=engine_report(queue, gangs=(gang,)),
    )


def shown(view: str, size: Size, *, colored: bool = False, **chosen: Any) -> Frame:
    seen = fleet()
    lines, summary = ViewLines("gpufleet").of(view, seen)
    choice = Choice(view, **chosen)
    ordered = Order().of(VIEWS[view], lines, choice.sort_by, reverse=choice.reverse)
    above = header(summary, FRESH, [], [], NOW)
    return frame(VIEWS[view], ordered, above, choice, size, NOW, colored=colored)


FRAMES = Path(__file__).parent / "frames"


def text(found: Frame) -> str:
    return "".join(f"{row.rstrip()}\n" for row in found.rows)


@pytest.mark.parametrize("path", sorted(FRAMES.glob("*.txt")), ids=lambda path: path.stem)
def test_frames_look_as_they_were_judged_to_look_well(path: Path) -> None:
    view, width, height = path.stem.split("-")
    assert text(shown(view, Size(int(width), int(height)))) == path.read_text(encoding="utf-8")


def test_without_colour_a_frame_has_no_escape_and_with_it_says_nothing_more() -> None:
    for view in VIEWS:
        plain, colored = shown(view, Size(80, 24)), shown(view, Size(80, 24), colored=True)
        assert "\x1b" not in "".join(plain.rows)
        assert [SGR.sub("", row) for row in colored.rows] == list(plain.rows)


def test_the_chosen_line_is_marked_without_colour_too() -> None:
    rows = shown("pod", Size(80, 12), selected="team/train-0").rows
    assert [row for row in rows if row.endswith("<")] == [rows[6]]


def test_data_that_are_not_current_say_since_when() -> None:
    found = header("", Freshness(25.0, "connection refused", is_whole=True), [], [], NOW)
    assert re.fullmatch(r"as of \d\d:59:35|as of \d\d:\d\d:35, 25s ago", found.age)
    assert (found.is_stale, found.problem) == (True, "not current: connection refused")


def test_before_the_first_list_nothing_is_said_to_be_well() -> None:
    above = header("", Freshness(None, "", is_whole=False), [], [], NOW)
    rows = frame(NODE, [], above, Choice(), Size(80, 12), NOW, colored=False).rows
    assert rows[0].rstrip().endswith("reading")
    assert "no problem" not in text(Frame(rows))
    assert "no node" not in text(Frame(rows))


@pytest.mark.parametrize("size", [Size(1, 1), Size(10, 3), Size(19, 30), Size(80, 5)])
def test_a_screen_that_is_too_small_gets_a_frame_of_its_size(size: Size) -> None:
    rows = shown("pod", size).rows
    assert len(rows) == size.height
    assert all(cell_len(row) == size.width for row in rows)


@given(TEXTS, st.integers(1, 80), st.booleans(), st.booleans())
def test_a_cell_has_exactly_its_width_and_nothing_that_steers(
    one: str, width: int, right: bool, middle: bool
) -> None:
    found = fitted(one, width, right=right, middle=middle)
    assert cell_len(found) == width
    assert found.isprintable()


@given(TEXTS, st.integers(2, 60))
def test_a_wrapped_text_is_no_wider_than_asked(one: str, width: int) -> None:
    rows = wrapped(one, width, 2)
    assert len(rows) <= 2
    assert all(cell_len(row) <= width and row.isprintable() for row in rows)


@given(
    st.lists(TEXTS, min_size=1, max_size=4),
    st.integers(1, 140),
    st.integers(1, 40),
    st.sampled_from(["node", "pod"]),
)
def test_a_frame_has_the_size_of_its_screen_whatever_the_cluster_says(
    words: list[str], width: int, height: int, view: str
) -> None:
    lines: list[Any] = [
        PodLine(one, one, one, one, one, why=one, cause=one)
        if view == "pod"
        else NodeLine(one, one, one, one)
        for one in words
    ]
    size = Size(width, height)
    above = Header(words[0], words[-1], words[0])
    chosen = Choice(view, filter=words[0], typed=words[0], selected=VIEWS[view].key(lines[0]))
    for choice in (chosen, dataclasses.replace(chosen, typing="/"), dataclasses.replace(chosen, helps=True)):
        rows = frame(VIEWS[view], lines, above, choice, size, NOW, colored=True).rows
        assert len(rows) == height
        for row in rows:
            plain = SGR.sub("", row)
            assert cell_len(plain) == width
            assert plain.isprintable()


def test_a_pipe_gets_whole_texts() -> None:
    long = PodLine("team", "p" * 80, "waits", why="w" * 200, cause="quota")
    _, rows = in_full(POD, [long], NOW, wide=False)
    assert "p" * 80 in rows[0]
    assert "w" * 200 in rows[0]


def test_a_long_name_keeps_its_beginning_and_its_end() -> None:
    assert cut_in_the_middle("speech/transcribe-68597f446b-jklvk", 20) == "speech/tra~46b-jklvk"


def busy(**ratios: float) -> list[NodeLine]:
    return [NodeLine(name, "ready", busy_ratio=ratio) for name, ratio in ratios.items()]


def names(lines: list[NodeLine]) -> list[str]:
    return [line.name for line in lines]


def test_lines_keep_their_places_while_values_flicker() -> None:
    order = Order()
    assert names(order.of(NODE, busy(a=0.50, b=0.49), "use", reverse=False)) == ["a", "b"]
    assert names(order.of(NODE, busy(a=0.47, b=0.52), "use", reverse=False)) == ["a", "b"]
    assert names(order.of(NODE, busy(a=0.47, b=0.80), "use", reverse=False)) == ["b", "a"]


@given(st.lists(st.floats(0, 1), min_size=1, max_size=20))
def test_a_value_that_stays_near_never_moves_a_line(values: list[float]) -> None:
    order = Order()
    first = names(order.of(NODE, busy(a=0.5, b=0.51, c=0.9), "use", reverse=False))
    for value in values:
        near = 0.5 + (value - 0.5) * 0.09
        assert names(order.of(NODE, busy(a=near, b=0.51, c=0.9), "use", reverse=False)) == first


def test_unknown_comes_last_in_either_direction() -> None:
    lines = [*busy(a=0.1, b=0.9), NodeLine("z", "ready")]
    assert names(Order().of(NODE, lines, "use", reverse=False)) == ["b", "a", "z"]
    assert names(Order().of(NODE, lines, "use", reverse=True)) == ["a", "b", "z"]


def test_a_filter_leaves_lines_that_have_its_text_or_with_a_mark_those_that_have_not() -> None:
    lines = [NodeLine("gpu-1", "ready"), NodeLine("gpu-2", "cordoned")]
    assert names(matching(NODE, lines, "CORD")) == ["gpu-2"]
    assert names(matching(NODE, lines, "!cord")) == ["gpu-1"]
    assert names(matching(NODE, lines, "")) == ["gpu-1", "gpu-2"]
