"""The whole screen as lines of text: header, problem, headings, lines of the view, what the chosen line says,
keys.

Every row of a frame is as wide as the screen, and a frame is as high. Colour only repeats what words say.
"""

import datetime as dt
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from rich.cells import cell_len

from gpufleet.model.visible import visible_line
from gpufleet.top.screen.choice import NAMES, Choice
from gpufleet.top.screen.columns import Tone, View
from gpufleet.top.screen.table import cut, fitted, laid_out, wrapped

COLORS = {Tone.BAD: "31", Tone.WARN: "33", Tone.QUIET: "2"}
"""SGR parameters of ECMA-48."""

BOLD, REVERSED = "1", "7"
ABOVE = 4
"""Rows above the table: two of the header, the problem, the headings."""

WIDTH_LEAST, HEIGHT_LEAST = 20, 6
"""A smaller screen shows only that it is too small."""

DETAIL_LINES = 2
"""Most reasons fit into two rows of 80 columns; the table needs the others."""
KEYS = ("q quit", "? help", "/ filter", ": view", "s sort", "r reverse", "w wide", "1-5 views")
"""As many as have room stand below the table; all are in the help."""
HELP = (
    "1 2 3 4 5, Tab   nodes, queues, gangs, pods, idle GPUs",
    ":NAME            the view of that name",
    "arrows, j k      choose a line; its reason in full stands below the table",
    "PgUp PgDn g G    a page up or down, the first and the last line",
    "/TEXT            only lines with the text; /!TEXT only lines without; Esc all",
    "s or . and ,     sort by the next or the previous column",
    "r                the other way round",
    "w                more columns where there is room",
    "Ctrl-R           read again now",
    "q, F10, Ctrl-C   end",
    "",
    "?  unknown: not measured, not told, or not yours to see.  -  does not apply.",
)


@dataclass(frozen=True)
class Header:
    """What stands above the table. ``age`` is how old the data are, in words.

    ``problem`` is what needs a person, ``note`` what is not known; "" for none. Without ``is_whole`` the
    first lists are still coming in.
    """

    summary: str
    age: str
    problem: str = ""
    note: str = ""
    is_stale: bool = False
    is_whole: bool = True


@dataclass(frozen=True)
class Size:
    """Of a screen, in cells."""

    width: int
    height: int

    def rows(self, detail_rows: int) -> int:
        """The room for lines of the table."""
        return max(1, self.height - ABOVE - detail_rows - 1)


@dataclass(frozen=True)
class Frame:
    """The rows of the screen, with escape sequences only for colour, and the lines that they show."""

    rows: tuple[str, ...]
    shown: tuple[Any, ...] = ()


def frame(
    view: View[Any],
    lines: Sequence[Any],
    header: Header,
    choice: Choice,
    size: Size,
    now: dt.datetime,
    *,
    colored: bool,
) -> Frame:
    """A screen of this size. ``lines`` are all lines of the view, filtered and in order."""
    if size.width < WIDTH_LEAST or size.height < HEIGHT_LEAST:
        short = [fitted("too small", size.width)] * min(1, size.height)
        return Frame((*short, *[" " * size.width] * (size.height - len(short))))
    paint = _Paint(colored=colored)
    head = [
        _title(choice, header, size.width, paint),
        paint.row(fitted(header.summary, size.width), ""),
        paint.row(fitted(_problem(header), size.width), _problem_color(header)),
    ]
    if choice.helps:
        body = [paint.row(fitted(row, size.width), "") for row in HELP]
        return _filled(head, body, [_last(choice, view, len(lines), size.width, paint)], size, ())
    place = _place(view, lines, choice)
    detail = wrapped(view.detail(lines[place]), size.width, DETAIL_LINES) if lines else []
    # Two rows are kept free, so that the table does not jump when another line is chosen.
    detail_rows = DETAIL_LINES if size.height >= 2 * HEIGHT_LEAST else 0
    room = size.rows(detail_rows)
    first = max(0, min(place - room // 2, len(lines) - room))
    shown = lines[first : first + room]
    headings, rows = laid_out(view, shown, now, size.width, wide=choice.wide)
    body = [paint.row(headings, BOLD)]
    for number, (line, row) in enumerate(zip(shown, rows, strict=True), first):
        is_chosen = number == place and bool(choice.selected)
        color = COLORS.get(view.tone(line), "")
        body.append(paint.row(_marked(row, chosen=is_chosen, paint=paint), color, chosen=is_chosen))
    if not lines:
        body.append(paint.row(fitted(_nothing(view, choice, header), size.width), COLORS[Tone.QUIET]))
    feet = [paint.row(fitted(row, size.width), "") for row in detail[:detail_rows]]
    feet += [" " * size.width] * (detail_rows - len(feet))
    feet.append(_last(choice, view, len(lines), size.width, paint))
    return _filled(head, body, feet, size, tuple(shown))


class _Paint:
    """Colours rows, or leaves them plain."""

    def __init__(self, *, colored: bool) -> None:
        self.colored = colored

    def row(self, text: str, color: str, *, chosen: bool = False) -> str:
        """The row in a colour; the chosen one the other way round."""
        codes = ";".join(code for code in (color, REVERSED if chosen else "") if code)
        return f"\x1b[{codes}m{text}\x1b[0m" if codes and self.colored else text


def _marked(row: str, *, chosen: bool, paint: _Paint) -> str:
    """Without colour the chosen row is marked at its end, where nothing but space or the last column
    stands.
    """
    if paint.colored or not chosen:
        return row
    width = cell_len(row)
    return f"{fitted(row.rstrip(), width - 1)}<"


def _title(choice: Choice, header: Header, width: int, paint: _Paint) -> str:
    """The views, the present one in brackets, and at the right the age of the data."""
    names = " ".join(f"[{name}]" if name == choice.view else name for name in NAMES)
    left, age = f"gpufleet top  {names}", visible_line(header.age)
    if len(left) + cell_len(age) + 2 > width:
        left = f"[{choice.view}]"
    text = _both_ends(left, age, width)
    return paint.row(text, "1;31" if header.is_stale else BOLD)


def _problem(header: Header) -> str:
    if header.problem:
        return f"! {header.problem}"
    return header.note or ("all was read and is current" if header.is_whole else "reading the cluster")


def _problem_color(header: Header) -> str:
    return COLORS[Tone.BAD if header.problem else Tone.WARN if header.note else Tone.QUIET]


def _place(view: View[Any], lines: Sequence[Any], choice: Choice) -> int:
    if not choice.selected:
        return 0
    return next((number for number, line in enumerate(lines) if view.key(line) == choice.selected), 0)


def _nothing(view: View[Any], choice: Choice, header: Header) -> str:
    if not header.is_whole:
        return ""
    return f"no line has {choice.filter}" if choice.filter else view.empty


def _last(choice: Choice, view: View[Any], count: int, width: int, paint: _Paint) -> str:
    """What is typed, a message, or the keys; at the right the order."""
    if choice.typing:
        return paint.row(fitted(f"{choice.typing}{choice.typed}_", width), BOLD)
    if choice.message:
        return paint.row(fitted(choice.message, width), "31")
    column = view.column(choice.sort_by)
    order = f"{count} by {choice.sort_by if column is None else column.heading.lower()}"
    order += ", reversed" if choice.reverse else ""
    order += f", filter {choice.filter}" if choice.filter else ""
    order = cut(visible_line(order), width)
    return paint.row(_both_ends(_keys(width - cell_len(order) - 2), order, width), "2")


def _keys(width: int) -> str:
    """The first of the keys that have room: half a word is of no use."""
    named = ""
    for one in KEYS:
        longer = f"{named}  {one}" if named else one
        if cell_len(longer) > width:
            break
        named = longer
    return named


def _both_ends(left: str, right: str, width: int) -> str:
    """A row with one text at each end; the left one gives way."""
    right = cut(right, width)
    left = cut(left, max(0, width - cell_len(right) - 2))
    return fitted(f"{left}{' ' * max(0, width - cell_len(left) - cell_len(right))}{right}", width)


def _filled(head: list[str], body: list[str], feet: list[str], size: Size, shown: tuple[Any, ...]) -> Frame:
    """Exactly as many rows as the screen has."""
    room = size.height - len(head) - len(feet)
    rows = [*head, *body[:room], *[" " * size.width] * (room - len(body[:room])), *feet]
    return Frame(tuple(rows), shown)
