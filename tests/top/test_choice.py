"""Keys as terminals send them, and what they change."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpufleet.top.screen.choice import Choice, pressed
from gpufleet.top.screen.keys import (
    BACK_TAB,
    DOWN,
    END,
    ESCAPE,
    F10,
    HOME,
    INTERRUPT,
    PAGE_DOWN,
    UP,
    KeyReader,
)
from gpufleet.top.screen.views import VIEWS

LINES = [f"line-{number}" for number in range(50)]


def after(keys: str, choice: Choice | None = None) -> Choice:
    """The choice after these keys, as a terminal sends them."""
    found, reader = choice or Choice(), KeyReader()
    for key in [*reader.read(keys.encode()), *reader.end()]:
        found = pressed(found, key, LINES, 10)
    return found


@pytest.mark.parametrize(
    ("data", "keys"),
    [
        (b"\x1b[A\x1b[B", [UP, DOWN]),
        (b"\x1bOA", [UP]),
        (b"\x1b[6~\x1b[H\x1b[4~", [PAGE_DOWN, HOME, END]),
        (b"\x1b[Z\x03\x1b[21~", [BACK_TAB, INTERRUPT, F10]),
        (b"q\xc3\xa4", ["q", "ä"]),
        # Not known: a mouse, a paste, Alt with a letter, a control.
        (b"\x1b[<0;1;1M\x1b[200~x\x1bq\x01", ["x"]),
        (b"\x1b\x1b[A", [ESCAPE, UP]),
    ],
)
def test_keys_are_told_apart(data: bytes, keys: list[str]) -> None:
    assert KeyReader().read(data) == keys


@given(st.binary(max_size=60), st.integers(0, 60))
def test_keys_are_those_of_the_whole_in_whatever_pieces_they_come(data: bytes, place: int) -> None:
    one, two = KeyReader(), KeyReader()
    assert one.read(data) == two.read(data[:place]) + two.read(data[place:])
    assert all(key.isprintable() for key in one.read(b"x"))


def test_an_escape_alone_is_a_key_once_nothing_follows() -> None:
    reader = KeyReader()
    assert reader.read(b"\x1b") == []
    assert reader.waits
    assert reader.end() == [ESCAPE]
    assert not reader.waits


@pytest.mark.parametrize("keys", ["q", "\x03", "\x1b[21~", ":q\r", "?q"])
def test_the_keys_that_end_it(keys: str) -> None:
    assert after(keys).is_over


@pytest.mark.parametrize(
    ("keys", "view"),
    [
        ("1", "node"),
        ("2", "queue"),
        ("3", "gang"),
        ("4", "pod"),
        ("5", "idle"),
        ("\t", "queue"),
        ("\x1b[Z", "idle"),
        (":po\r", "pod"),
        (":gangs\r", "gang"),
        ("9", "node"),
    ],
)
def test_the_keys_that_change_the_view(keys: str, view: str) -> None:
    assert after(keys).view == view


def test_a_view_that_there_is_none_of_is_named_with_those_that_there_are() -> None:
    found = after(":nope\r")
    assert (found.view, found.message) == ("node", "no view 'nope': one of node, queue, gang, pod, idle")
    assert after("j", found).message == ""


def test_a_filter_is_typed_mended_and_cleared() -> None:
    assert after("/abx\x7f").typed == "ab"
    assert after("/ab\r").filter == "ab"
    assert after("/ab\rq").is_over
    assert after("\x1b", after("/ab\r")).filter == ""
    assert after("\x1b", after("/cd", after("/ab\r"))).filter == "ab"


def test_while_a_line_is_typed_letters_are_no_keys() -> None:
    found = after("/q1r?")
    assert (found.typed, found.is_over, found.view) == ("q1r?", False, "node")


def test_lines_are_chosen_with_arrows_letters_and_pages() -> None:
    assert after("\x1b[B\x1b[B").selected == "line-2"
    assert after("jjk").selected == "line-1"
    assert after("\x1b[6~").selected == "line-10"
    assert after("G").selected == "line-49"
    assert after("Gg").selected == "line-0"
    assert after("k").selected == "line-0"


def test_columns_are_sorted_by_in_turns() -> None:
    first = after("s").sort_by
    assert first != Choice().sort_by
    assert after("s,").sort_by == Choice().sort_by
    assert after("r").reverse
    assert not after("rs").reverse


@given(
    st.lists(st.sampled_from([*"qwrs,./:?12345jkgG \t\x1b\r\x7fab", "\x1b[A", "\x1b[Z", "\x12"]), max_size=40)
)
def test_whatever_is_pressed_the_choice_is_one_that_can_be_shown(keys: list[str]) -> None:
    found = after("".join(keys))
    assert found.view in VIEWS
    assert VIEWS[found.view].column(found.sort_by) is not None
    assert found.selected in {"", *LINES}
