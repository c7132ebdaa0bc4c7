"""A table of texts, as the page shows it and as it stands behind a chart.

Cells are texts that ``figures`` wrote; escaping them is the page template's work.
"""

from collections.abc import Sequence

import msgspec


class Table(msgspec.Struct, frozen=True):
    """A caption, the column titles, and rows; the first ``label_columns`` of a row name it."""

    caption: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    label_columns: int = 1


def table(
    caption: str,
    columns: Sequence[str],
    rows: Sequence[Sequence[str]],
    label_columns: int = 1,
) -> Table:
    """A ``Table`` from any sequences."""
    return Table(caption, tuple(columns), tuple(tuple(row) for row in rows), label_columns)
