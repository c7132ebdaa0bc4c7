"""Where panels stand: beside one another until a row of Grafana's 24 columns is full, then below.

``grafana_codec`` writes the places, and pictures for the documents are drawn from them.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from gpufleet.dashboards.board import Panel, Row

COLUMNS = 24
"""Of a page of Grafana."""


@dataclass(frozen=True)
class Place:
    """The upper left corner of a panel or heading, and its size, in Grafana's columns and rows."""

    x: int
    y: int
    width: int
    height: int


@dataclass(frozen=True)
class Placed:
    """A heading (a row) or a panel, and where it stands."""

    thing: Row | Panel
    place: Place


def placed(rows: Sequence[Row]) -> Iterator[Placed]:
    """All headings and panels, from the top."""
    y = 0
    for row in rows:
        yield Placed(row, Place(0, y, COLUMNS, 1))
        x, y, tallest = 0, y + 1, 0
        for panel in row.panels:
            if x + panel.width > COLUMNS:
                x, y, tallest = 0, y + tallest, 0
            yield Placed(panel, Place(x, y, panel.width, panel.height))
            x, tallest = x + panel.width, max(tallest, panel.height)
        y += tallest
