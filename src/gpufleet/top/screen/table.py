"""Lines in columns of fixed width: nothing moves sideways when values change, and no line is wider than
asked.

Widths are in cells of a terminal, of which some characters take two. Every text is made visible first, so
that a name or a message from the cluster cannot move the cursor or change the colour.
"""

import datetime as dt
from collections.abc import Sequence
from typing import Any

from rich.cells import cell_len, chop_cells

from gpufleet.model.visible import visible_line
from gpufleet.top.screen.columns import Column, View

GAP = 2
TEXT_LEAST = 8
"""A shorter piece of a name or of a reason tells nothing."""
CUT = "~"
"""Stands at the end of what was cut; in ASCII, so that every terminal shows it."""


def fitted(text: str, width: int, *, right: bool = False, middle: bool = False) -> str:
    """The text made visible, in exactly so many cells; what is too long is cut at its end, or in its
    middle.
    """
    shown = visible_line(text)
    shown = cut_in_the_middle(shown, width) if middle else cut(shown, width)
    space = " " * (width - cell_len(shown))
    return f"{space}{shown}" if right else f"{shown}{space}"


def cut(text: str, width: int) -> str:
    """A visible text, in at most so many cells."""
    # An ASCII text, which most are, takes a cell for each character.
    if (len(text) if text.isascii() else cell_len(text)) <= width:
        return text
    if width <= 1:
        return CUT[:width]
    head = text[: width - 1] if text.isascii() else (chop_cells(text, width - 1) or [""])[0]
    return f"{head}{CUT}"


def cut_in_the_middle(text: str, width: int) -> str:
    """A visible text, in at most so many cells, of which beginning and end stay."""
    if not text.isascii() or len(text) <= width or width < 3:
        return cut(text, width)
    tail = (width - 1) // 2
    return f"{text[: width - 1 - tail]}{CUT}{text[-tail:]}"


def wrapped(text: str, width: int, lines_max: int) -> list[str]:
    """A visible text over several lines, the last one cut."""
    found: list[str] = []
    rest = visible_line(text)
    while rest and len(found) < lines_max - 1 and cell_len(rest) > width:
        head = (chop_cells(rest, width) or [""])[0]
        place = head.rfind(" ")
        # At a space, unless more than half of the line would stay empty.
        head = head[:place] if place > width // 2 else head
        found.append(head)
        rest = rest[len(head) :].lstrip()
    return [*found, cut(rest, width)] if rest else found


def placed(view: View[Any], width: int | None, *, wide: bool) -> list[tuple[Column[Any], int]]:
    """The columns that have room in ``width`` (all of them where it is None), each with its width."""
    columns = [one for one in view.columns if wide or not one.is_wide]
    if width is None:
        return [(one, one.width) for one in columns]
    while _least(columns) > width:
        droppable = [one for one in columns if one.drops]
        if not droppable:
            break
        columns.remove(max(droppable, key=lambda one: one.drops))
    if _least(columns) > width:
        return _squeezed(columns, width)
    spare = width - _least(columns)
    shares = sum(one.share for one in columns)
    last = max((number for number, one in enumerate(columns) if one.share), default=-1)
    found, given = [], 0
    for number, one in enumerate(columns):
        # The last one with a share gets what rounding leaves, so that a row fills the screen.
        more = spare - given if number == last else spare * one.share // shares if one.share else 0
        if one.most and number != last:
            more = min(more, max(0, one.most - one.width))
        given += more
        found.append((one, one.width + more))
    return found


def _squeezed(columns: list[Column[Any]], width: int) -> list[tuple[Column[Any], int]]:
    """Texts shrink and whole columns go, from the right; a number is never cut, as it would be another."""
    while True:
        widths = [min(one.width, TEXT_LEAST) if one.share else one.width for one in columns]
        spare = width - sum(widths) - GAP * (len(columns) - 1)
        if spare >= 0 or len(columns) == 1:
            break
        columns.remove(next((one for one in reversed(columns) if not one.share), columns[-1]))
    widths[0] = max(1, widths[0] + spare)
    return list(zip(columns, widths, strict=True))


def laid_out(
    view: View[Any], lines: Sequence[Any], now: dt.datetime, width: int, *, wide: bool
) -> tuple[str, list[str]]:
    """The headings and the lines, each in exactly ``width`` cells."""
    columns = placed(view, width, wide=wide)
    headings = [fitted(one.heading, room, right=one.right) for one, room in columns]
    rows = [
        (" " * GAP).join(
            fitted(one.text(line, now), room, right=one.right, middle=one.is_name) for one, room in columns
        )
        for line in lines
    ]
    return fitted((" " * GAP).join(headings), width), [fitted(row, width) for row in rows]


def in_full(view: View[Any], lines: Sequence[Any], now: dt.datetime, *, wide: bool) -> tuple[str, list[str]]:
    """The headings and the lines for a pipe, as wide as they need."""
    columns = [one for one, _ in placed(view, None, wide=wide)]
    texts = [[visible_line(one.text(line, now)) for one in columns] for line in lines]
    widths = [
        max(cell_len(one.heading), *(cell_len(row[number]) for row in texts))
        if texts
        else cell_len(one.heading)
        for number, one in enumerate(columns)
    ]
    every = [[one.heading for one in columns], *texts]
    heading, *rows = [
        (" " * GAP)
        .join(
            fitted(cell, room, right=one.right) for cell, room, one in zip(row, widths, columns, strict=True)
        )
        .rstrip()
        for row in every
    ]
    return heading, rows


def _least(columns: Sequence[Column[Any]]) -> int:
    return sum(one.width for one in columns) + GAP * (len(columns) - 1)
