"""The order of lines, which stays while values only flicker, and the lines that a filter leaves.

A line is ordered by the value that it had when it was placed, until its value has moved by more than the
column's slack and by more than a tenth. So lines do not jump while someone reads them, and a real change
shows.
"""

from collections.abc import Iterable, Sequence
from typing import Any

from gpufleet.top.screen.columns import Column, SortValue, View

TENTH = 0.1
"""What people call about the same."""


class Order:
    """The values by which lines of one view are ordered now, by the lines' keys."""

    def __init__(self) -> None:
        self._column = ""
        self._values: dict[str, SortValue] = {}

    def of(self, view: View[Any], lines: Iterable[Any], sort_by: str, *, reverse: bool) -> list[Any]:
        """The lines in order; those with unknown values come last, and equals by their key."""
        column = view.column(sort_by) or view.columns[0]
        chosen = f"{view.name} {column.name}"
        held = self._values if chosen == self._column else {}
        values = {}
        known: list[tuple[Any, str, Any]] = []
        unknown: list[tuple[Any, str, Any]] = []
        for line in lines:
            key = view.key(line)
            value = _kept(column, held.get(key), column.value(line))
            values[key] = value
            (unknown if value is None else known).append((value, key, line))
        self._column, self._values = chosen, values
        if view.is_tree and sort_by == view.sort_by and not reverse:
            return [line for _, _, line in known]
        known.sort(key=lambda one: one[1])
        # A second, stable sort leaves equals in the order of their keys, in whatever direction.
        known.sort(key=lambda one: one[0], reverse=column.descending is not reverse)
        unknown.sort(key=lambda one: one[1])
        return [line for _, _, line in (*known, *unknown)]


def matching(view: View[Any], lines: Sequence[Any], text: str) -> list[Any]:
    """The lines that have the text in a name, a state or a reason; with ``!`` in front, those that have
    not.
    """
    unlike = text.startswith("!")
    wanted = text.removeprefix("!").casefold()
    if not wanted:
        return list(lines)
    return [
        line for line in lines if any(wanted in word.casefold() for word in view.words(line)) is not unlike
    ]


def _kept(column: Column[Any], held: SortValue, value: SortValue) -> SortValue:
    """The value that counts: the one that is held, while the new one is near."""
    if not column.slack or not isinstance(held, int | float) or not isinstance(value, int | float):
        return value
    near = max(column.slack, TENTH * abs(held))
    return held if abs(value - held) <= near else value
