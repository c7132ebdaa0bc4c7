"""A board as a picture, from the answers to its queries: not Grafana's, and the picture says so.

It shows what the file says: places, titles, units, thresholds, colours with a meaning. ``dashboard_pictures``
asks a Prometheus and writes the files.
"""

import math
import textwrap
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape

from gpufleet.dashboards.board import Board, Colour, Column, Panel, PanelKind, Unit
from gpufleet.dashboards.layout import Place, placed
from gpufleet.dashboards.panel_style import field_of
from gpufleet.replay.report.palette import POLICY_INKS
from manual.axis_ticks import PARTS_MAX, ticks
from manual.board_values import colour_of, written
from tests.dashboards.asking import Answer, Series, Shown, named

COLUMN_PX, LINE_PX, GAP_PX, HEAD_PX = 52, 30, 6, 56
"""A column and a line of the page, the space between panels, and the head with the board's title."""
TITLE_PX = 24
"""Of a panel, above what it shows."""
LETTER_PX = 6.2
"""The width of a letter of eleven pixels, on average."""
ROW_PX = 19
"""A row of a table, of bars and of states."""
WIDE_PX = 320
"""From here on five times have room below a picture."""
TIME_PX = 24
"""Half of the width of a time."""
BAR_PX = 60
"""The width of a bar that stands for one day."""
NOTE = "Drawn by gpufleet from answers of a Prometheus. This is not a picture of Grafana."

INKS = {
    "page": ("#f4f5f5", "#111217"),
    "panel": ("#ffffff", "#181b1f"),
    "edge": ("#dfe1e5", "#2c3039"),
    "words": ("#24292e", "#d8d9da"),
    "muted": ("#5f6672", "#9aa0ab"),
    "grid": ("#e9ebee", "#272b33"),
    Colour.GOOD: ("#2f8f46", "#4caf68"),
    Colour.NEUTRAL: ("#2f6fd0", "#5b94ea"),
    Colour.WARNING: ("#c96a00", "#f08c2e"),
    Colour.BAD: ("#c4243a", "#ea5a66"),
    Colour.IDLE: ("#8d95a3", "#565d6b"),
}
"""For light and dark pages."""


@dataclass(frozen=True)
class Box:
    """Where something is drawn, in pixels."""

    x: float
    y: float
    width: float
    height: float


@dataclass(frozen=True)
class Theme:
    """Light or dark."""

    is_dark: bool

    def ink(self, name: str | Colour) -> str:
        """A colour by its name or meaning."""
        return INKS[name][self.is_dark]

    def of_series(self, place: int) -> str:
        """The colour of the series at a place."""
        return POLICY_INKS[place % len(POLICY_INKS)][self.is_dark]


def text(words: str, x: float, y: float, ink: str, size: int = 11, **more: str) -> str:
    """Words at a place."""
    rest = "".join(f' {name.replace("_", "-")}="{value}"' for name, value in more.items())
    return f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size}" fill="{ink}"{rest}>{escape(words)}</text>'


def cut(words: str, width_px: float, size: int = 11) -> str:
    """Words that fit into a width, with dots where they were longer."""
    most = max(3, int(width_px / (LETTER_PX * size / 11)))
    return words if len(words) <= most else words[: most - 1].rstrip() + "…"


def rectangle(box: Box, ink: str, **more: str) -> str:
    """A filled rectangle."""
    rest = "".join(f' {name.replace("_", "-")}="{value}"' for name, value in more.items())
    place = f'x="{box.x:.1f}" y="{box.y:.1f}" width="{max(0.0, box.width):.1f}" height="{box.height:.1f}"'
    return f'<rect {place} fill="{ink}"{rest}/>'


def drawn(board: Board, answers: Mapping[str, Sequence[Answer]], shown: Shown, *, is_dark: bool) -> str:
    """The picture of a board as SVG; ``answers`` by the title of the panel."""
    theme = Theme(is_dark)
    things = list(placed(board.rows))
    width = 24 * COLUMN_PX + 2 * GAP_PX
    lines = max(one.place.y + one.place.height for one in things)
    height = HEAD_PX + lines * LINE_PX + GAP_PX
    parts = [
        rectangle(Box(0, 0, width, height), theme.ink("page")),
        text(f"gpufleet / {board.title}", 12, 26, theme.ink("words"), 18, font_weight="bold"),
        text(board.description, 12, 45, theme.ink("muted"), 12),
        text(NOTE, width - 12, 45, theme.ink("muted"), 11, text_anchor="end"),
    ]
    for one in things:
        box = _box(one.place)
        if isinstance(one.thing, Panel):
            parts.extend(_panel(one.thing, answers.get(one.thing.title, ()), shown, box, theme))
        else:
            parts.append(
                text(one.thing.title, box.x + 4, box.y + 18, theme.ink("words"), 13, font_weight="bold")
            )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
        f'font-family="Inter, DejaVu Sans, sans-serif">{"".join(parts)}</svg>'
    )


def _box(place: Place) -> Box:
    return Box(
        GAP_PX + place.x * COLUMN_PX,
        HEAD_PX + place.y * LINE_PX,
        place.width * COLUMN_PX - GAP_PX,
        place.height * LINE_PX - GAP_PX,
    )


def _panel(panel: Panel, answers: Sequence[Answer], shown: Shown, box: Box, theme: Theme) -> Iterator[str]:
    yield rectangle(box, theme.ink("panel"), stroke=theme.ink("edge"), rx="3")
    title = cut(panel.title, box.width - 16, 12)
    yield text(title, box.x + 8, box.y + 16, theme.ink("words"), 12, font_weight="600")
    inner = Box(box.x + 8, box.y + TITLE_PX, box.width - 16, box.height - TITLE_PX - 6)
    found = [one for answer in answers for one in answer.series]
    if panel.kind is PanelKind.TEXT:
        yield from _words(panel.text, inner, theme)
    elif not found:
        yield from _centred(panel.words_without_answer, inner, theme)
    else:
        yield from DRAWERS[panel.kind](panel, answers, shown, inner, theme)


def _centred(words: str, box: Box, theme: Theme) -> Iterator[str]:
    """Words in the middle of a box, in as many lines as they need."""
    lines = textwrap.wrap(words, max(3, int(box.width / LETTER_PX)))
    y = box.y + box.height / 2 - 8 * (len(lines) - 1)
    for number, line in enumerate(lines):
        middle = box.x + box.width / 2
        yield text(line, middle, y + 16 * number, theme.ink("muted"), text_anchor="middle")


def _words(words: str, box: Box, theme: Theme) -> Iterator[str]:
    """A paragraph, broken into lines."""
    line, y = "", box.y + 12
    for word in words.replace("`", "").replace("*", "").split():
        if len(line) + len(word) > box.width / LETTER_PX:
            yield text(line, box.x, y, theme.ink("words"))
            line, y = "", y + 16
        line = f"{line} {word}".strip()
    yield text(line, box.x, y, theme.ink("words"))


def _series(answers: Sequence[Answer]) -> list[tuple[str, Series]]:
    """All series with their names."""
    return [(named(answer.query, one.labels), one) for answer in answers for one in answer.series]


def _stat(panel: Panel, answers: Sequence[Answer], _: Shown, box: Box, theme: Theme) -> Iterator[str]:
    found = _series(answers)
    each = box.width / len(found)
    for place, (name, series) in enumerate(found):
        words = written(series.last, panel.unit)
        colour = colour_of(series.last, panel.below, panel.thresholds, panel.meanings)
        ink = theme.ink(colour)
        own = Box(box.x + place * each, box.y, each - 3, box.height)
        size = min(34, int(own.width / max(3, len(words)) / 0.62))
        middle, y = own.x + own.width / 2, own.y + own.height / 2 + size / 3
        if panel.thresholds:
            # White words stand on it in both themes.
            yield rectangle(own, Theme(is_dark=False).ink(colour), rx="3")
        front = "#ffffff" if panel.thresholds else ink
        yield text(words, middle, y, front, size, text_anchor="middle", font_weight="bold")
        if name and len(found) > 1:
            yield text(cut(name, own.width), middle, own.y + own.height - 4, front, text_anchor="middle")


def _bars(panel: Panel, answers: Sequence[Answer], _: Shown, box: Box, theme: Theme) -> Iterator[str]:
    found = _series(answers)
    top = max(one.last for _, one in found) or 1.0
    each = min(46.0, box.height / len(found))
    names = min(130.0, max(len(name) for name, _ in found) * LETTER_PX + 10)
    for place, (name, series) in enumerate(found):
        y = box.y + place * each
        bar = Box(box.x + names, y + 4, box.width - names - 62, each - 10)
        yield text(cut(name, names - 6), box.x, y + each / 2 + 3, theme.ink("words"))
        yield rectangle(bar, theme.ink("grid"), rx="2")
        part = Box(bar.x, bar.y, bar.width * max(0.0, series.last) / top, bar.height)
        yield rectangle(part, theme.ink(colour_of(series.last, panel.below, panel.thresholds)), rx="2")
        value = written(series.last, panel.unit)
        yield text(value, box.x + box.width, y + each / 2 + 3, theme.ink("words"), text_anchor="end")


def _legend(names: Sequence[str], box: Box, theme: Theme) -> Iterator[str]:
    """Names of series on at most two lines below a picture; those that have no room are counted."""
    x, y, lines = box.x, box.y + 10, 1
    for place, name in enumerate(names):
        words = cut(name, box.width / 2)
        width = len(words) * LETTER_PX + 22
        if x + width > box.x + box.width:
            if lines * 14 + 14 > box.height:
                left = len(names) - place
                yield text(f"+{left}", box.x + box.width, y, theme.ink("muted"), text_anchor="end")
                return
            x, y, lines = box.x, y + 14, lines + 1
        yield rectangle(Box(x, y - 7, 10, 3), theme.of_series(place))
        yield text(words, x + 14, y, theme.ink("muted"))
        x += width


def _axes(scale: "Scale", marks: Sequence[float], unit: Unit, theme: Theme) -> Iterator[str]:
    """Lines across with their values, and times below."""
    box = scale.box
    for value in marks:
        y = scale.y(value)
        yield rectangle(Box(box.x, y, box.width, 1), theme.ink("grid"))
        yield text(written(value, unit), box.x - 5, y + 4, theme.ink("muted"), 10, text_anchor="end")
    yield from _times(scale, theme)


def _times(scale: "Scale", theme: Theme) -> Iterator[str]:
    """Round times below a picture, each under its place."""
    box, shown = scale.box, scale.shown
    parts_max = PARTS_MAX if box.width >= WIDE_PX else 3
    for at in ticks(shown.begin_s, shown.end_s, Unit.SECONDS, parts_max=parts_max):
        x = scale.x(at)
        # A time at the edge would stand beside the picture.
        if shown.begin_s <= at <= shown.end_s and box.x + TIME_PX <= x <= box.x + box.width - TIME_PX:
            words = time.strftime("%H:%M:%S", time.gmtime(at))
            yield text(words, x, box.y + box.height + 13, theme.ink("muted"), 10, text_anchor="middle")


@dataclass(frozen=True)
class Scale:
    """From times and values to pixels."""

    shown: Shown
    low: float
    high: float
    box: Box

    def x(self, at_s: float) -> float:
        """The place of a time."""
        share = (at_s - self.shown.begin_s) / (self.shown.end_s - self.shown.begin_s)
        return self.box.x + self.box.width * min(1.0, max(0.0, share))

    def y(self, value: float) -> float:
        """The place of a value."""
        share = (value - self.low) / ((self.high - self.low) or 1.0)
        return self.box.y + self.box.height * (1 - min(1.0, max(0.0, share)))


def _heaped(found: Sequence[tuple[str, Series]]) -> list[tuple[str, Series]]:
    """Each series on top of those before it."""
    under: dict[float, float] = {}
    heaped = []
    for name, series in found:
        points = []
        for at, value in series.points:
            under[at] = under.get(at, 0.0) + value
            points.append((at, under[at]))
        heaped.append((name, Series(series.labels, tuple(points))))
    return heaped


def _lines(panel: Panel, answers: Sequence[Answer], shown: Shown, box: Box, theme: Theme) -> Iterator[str]:
    found = _series(answers)
    curves = _heaped(found) if panel.is_stacked else found
    values = [value for _, series in curves for _, value in series.points]
    marks = _marks(panel, values)
    low, high = marks[0], marks[-1]
    plot = Box(box.x + 52, box.y + 4, box.width - 56, box.height - 50)
    scale = Scale(shown, low, high, plot)
    yield from _axes(scale, marks, panel.unit, theme)
    for one in panel.thresholds:
        if low < one.value <= scale.high:
            line = Box(plot.x, scale.y(one.value), plot.width, 1.5)
            yield rectangle(line, theme.ink(one.colour))
    by_day = any(query.step for query in panel.queries)
    for place, (_, series) in reversed(list(enumerate(curves))):
        ink = theme.of_series(place)
        if by_day:
            yield from _day_bars(series, scale, ink)
        else:
            yield from _curve(series, scale, ink, shown.step_s, is_filled=panel.is_stacked)
    below = Box(box.x, plot.y + plot.height + 20, box.width, 30)
    yield from _legend([name for name, _ in found], below, theme)


def _marks(panel: Panel, values: Sequence[float]) -> tuple[float, ...]:
    """The values at the lines across: the panel's own ends, else what holds all that is shown."""
    low = min(values, default=0.0) if panel.minimum is None else panel.minimum
    reached = [one.value for one in panel.thresholds if one.value <= 2 * max(values)]
    high = max([*values, *reached]) if panel.maximum is None else panel.maximum
    is_whole = panel.unit in {Unit.COUNT, Unit.CELSIUS} and all(value == round(value) for value in values)
    return ticks(min(low, 0.0), high, panel.unit, is_whole=is_whole, ends_there=panel.maximum is not None)


def _day_bars(series: Series, scale: Scale, ink: str) -> Iterator[str]:
    """A bar that ends at each point."""
    for at, value in series.points:
        y = scale.y(value)
        yield rectangle(Box(scale.x(at) - BAR_PX, y, BAR_PX, scale.y(scale.low) - y), ink)


def _curve(series: Series, scale: Scale, ink: str, step_s: float, *, is_filled: bool) -> Iterator[str]:
    """A line that breaks where values are missing."""
    pieces: list[list[tuple[float, float]]] = []
    before_s = -1e18
    for at, value in series.points:
        if at - before_s > 2.5 * step_s:
            pieces.append([])
        pieces[-1].append((at, value))
        before_s = at
    for piece in pieces:
        places = [f"{scale.x(at):.1f},{scale.y(value):.1f}" for at, value in piece]
        if is_filled:
            floor = scale.y(max(0.0, scale.low))
            ends = f"{scale.x(piece[-1][0]):.1f},{floor:.1f} {scale.x(piece[0][0]):.1f},{floor:.1f}"
            yield f'<polygon points="{" ".join(places)} {ends}" fill="{ink}"/>'
        elif len(places) == 1:
            x, _, y = places[0].partition(",")
            yield f'<circle cx="{x}" cy="{y}" r="2" fill="{ink}"/>'
        else:
            yield f'<polyline points="{" ".join(places)}" fill="none" stroke="{ink}" stroke-width="1.6"/>'


def _states(panel: Panel, answers: Sequence[Answer], shown: Shown, box: Box, theme: Theme) -> Iterator[str]:
    found = _series(answers)
    names = min(150.0, max(len(name) for name, _ in found) * LETTER_PX + 8)
    each = min(float(ROW_PX + 5), (box.height - 18) / len(found))
    plot = Box(box.x + names, box.y, box.width - names, each * len(found))
    scale = Scale(shown, 0, 1, plot)
    size = 11 if each >= 13 else 8
    # Where rows are lower than letters, some are named.
    named_every = math.ceil((size + 1) / each)
    for place, (name, series) in enumerate(found):
        y = box.y + place * each
        if place % named_every == 0:
            yield text(cut(name, names, size), box.x, y + each * 0.7, theme.ink("words"), size)
        for begin_s, end_s, colour in _spans(panel, series, shown.step_s):
            x = scale.x(begin_s)
            yield rectangle(Box(x, y + 1, scale.x(end_s) - x, each - 2), theme.ink(colour))
    y = plot.y + plot.height + 13
    x = plot.x
    for meaning in panel.meanings:
        yield rectangle(Box(x, y - 8, 9, 9), theme.ink(meaning.colour))
        yield text(meaning.text, x + 13, y, theme.ink("muted"))
        x += len(meaning.text) * LETTER_PX + 34


def _spans(panel: Panel, series: Series, step_s: float) -> list[tuple[float, float, Colour]]:
    """From when to when a series had one colour."""
    spans: list[tuple[float, float, Colour]] = []
    for at, value in series.points:
        colour = colour_of(value, panel.below, panel.thresholds, panel.meanings)
        if spans and spans[-1][2] is colour and at - spans[-1][1] < step_s / 2:
            spans[-1] = (spans[-1][0], at + step_s, colour)
        else:
            spans.append((at, at + step_s, colour))
    return spans


def _heatmap(panel: Panel, answers: Sequence[Answer], shown: Shown, box: Box, theme: Theme) -> Iterator[str]:
    """Buckets as rows; each cell is darker the more fell into it."""
    ordered = sorted(
        (float(one.labels["le"].replace("+Inf", "inf")), one) for answer in answers for one in answer.series
    )
    edges = [edge for edge, _ in ordered]
    table = [dict(series.points) for _, series in ordered]
    times = sorted({at for row in table for at in row})
    plot = Box(box.x + 60, box.y + 4, box.width - 64, box.height - 24)
    each = plot.height / len(edges)
    scale = Scale(shown, 0, 1, plot)
    cells = {
        (place, at): max(0.0, row.get(at, 0.0) - (table[place - 1].get(at, 0.0) if place else 0.0))
        for place, row in enumerate(table)
        for at in times
    }
    most = max(cells.values()) or 1.0
    for (place, at), count in cells.items():
        if count > 0:
            y = plot.y + plot.height - (place + 1) * each
            wide = scale.x(at + shown.step_s) - scale.x(at) + 0.5
            opacity = f"{0.25 + 0.75 * count / most:.2f}"
            yield rectangle(
                Box(scale.x(at), y, wide, each - 0.5), theme.ink(Colour.NEUTRAL), fill_opacity=opacity
            )
    for place, edge in enumerate(edges):
        if place % 2 == 0:
            words = "more" if edge == float("inf") else written(edge, panel.unit)
            y = plot.y + plot.height - place * each - each / 2 + 4
            yield text(words, plot.x - 5, y, theme.ink("muted"), 10, text_anchor="end")
    yield from _times(scale, theme)


def _rows(panel: Panel, answers: Sequence[Answer]) -> list[dict[str, str | float]]:
    """The lines of a table, as Grafana merges its queries: one for each set of labels."""
    labels = [column.source for column in panel.columns if isinstance(column.source, str)]
    found: dict[tuple[str, ...], dict[str, str | float]] = {}
    for place, answer in enumerate(answers):
        field = field_of(panel, Column(place, ""))
        for one in answer.series:
            fitting = [
                row
                for row in found.values()
                if place and all(row.get(name, "") == value for name, value in one.labels.items())
            ]
            if not fitting:
                key = tuple(one.labels.get(name, "") for name in labels)
                fitting = [found.setdefault(key, dict(one.labels))]
            for row in fitting:
                row[field] = one.last
    return [found[key] for key in sorted(found)]


def _table(panel: Panel, answers: Sequence[Answer], _: Shown, box: Box, theme: Theme) -> Iterator[str]:
    rows = _rows(panel, answers)
    fields = [field_of(panel, column) for column in panel.columns]
    cells = [
        [_cell(row.get(field, ""), column) for field, column in zip(fields, panel.columns, strict=True)]
        for row in rows
    ]
    longest = [
        max(len(column.title), *(len(line[place]) for line in cells))
        for place, column in enumerate(panel.columns)
    ]
    widths = [box.width * length / sum(longest) for length in longest]
    room = int((box.height - ROW_PX) / ROW_PX)
    for line in range(-1, min(len(rows), room)):
        x, y = box.x, box.y + (line + 2) * ROW_PX - 5
        for place, column in enumerate(panel.columns):
            value = rows[line].get(fields[place], "") if line >= 0 else ""
            words = cells[line][place] if line >= 0 else column.title
            ink = theme.ink("muted") if line < 0 else theme.ink("words")
            if line >= 0 and column.thresholds and isinstance(value, float):
                colour = colour_of(value, Colour.IDLE, column.thresholds)
                ink = ink if colour is Colour.IDLE else theme.ink(colour)
            yield text(cut(words, widths[place]), x, y, ink)
            x += widths[place]
        yield rectangle(Box(box.x, y + 5, box.width, 1), theme.ink("grid"))
    if len(rows) > room:
        words = f"+{len(rows) - room} more"
        yield text(words, box.x + box.width, box.y - 8, theme.ink("muted"), text_anchor="end")


def _cell(value: str | float, column: Column) -> str:
    return value if isinstance(value, str) else written(value, column.unit)


DRAWERS = {
    PanelKind.STAT: _stat,
    PanelKind.BARS: _bars,
    PanelKind.LINES: _lines,
    PanelKind.STATES: _states,
    PanelKind.HEATMAP: _heatmap,
    PanelKind.TABLE: _table,
}
