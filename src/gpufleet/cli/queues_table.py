"""A table of which one column is a tree: names with lines to their parents, columns under their headings."""

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from gpufleet.explain.queue_answer import QueueRow
from gpufleet.explain.queue_tree import children_of

GAP = "  "


class Glyphs(NamedTuple):
    """What lines and bars are drawn with."""

    child: str = "├─ "
    last: str = "└─ "
    past: str = "│  "
    own: str = "█"
    borrowed: str = "▒"
    idle: str = "░"
    cut: str = "…"

    @staticmethod
    def of_ascii() -> "Glyphs":
        """Glyphs of plain ASCII, for terminals and files that show no others."""
        return Glyphs("|- ", "`- ", "|  ", "#", "+", ".", "~")


class Column(NamedTuple):
    """A heading. Of columns that may go the one with the highest ``drops`` goes first; 0 stays."""

    heading: str
    right: bool = False
    drops: int = 0


class Line(NamedTuple):
    """A line of text, in a colour where that is wanted."""

    text: str
    color: str = ""


def tree_names(rows: Sequence[QueueRow], glyphs: Glyphs) -> list[str]:
    """The name of each row with the lines to its parent; rows have parents before their children."""
    children = children_of(list(rows))
    lasts = {siblings[-1].name for siblings in children.values() if siblings}
    roots = {row.name for row in children.get(None, [])}
    indents: dict[str, str] = {}
    found = []
    for row in rows:
        if row.name in roots or row.parent is None:
            indents[row.name] = ""
            found.append(row.name)
            continue
        above = indents[row.parent]
        is_last = row.name in lasts
        found.append(above + (glyphs.last if is_last else glyphs.child) + row.name)
        indents[row.name] = above + ("   " if is_last else glyphs.past)
    return found


def laid_out(
    columns: Sequence[Column], rows: Iterable[tuple[list[str], str]], width: int | None
) -> Iterator[Line]:
    """The table with aligned columns, as many as have room in ``width``; what is longer still is cut."""
    table = list(rows)
    widths = [
        max(len(column.heading), *(len(cells[number]) for cells, _ in table))
        for number, column in enumerate(columns)
    ]
    kept = _kept(columns, widths, width)
    headings = [column.heading for column in columns]
    for cells, color in [(headings, ""), *table]:
        padded = (
            f"{cells[number]:{'>' if columns[number].right else '<'}{widths[number]}}" for number in kept
        )
        yield Line(GAP.join(padded).rstrip()[:width], color)


def _kept(columns: Sequence[Column], widths: list[int], width: int | None) -> list[int]:
    """The columns that stay."""
    kept = list(range(len(columns)))
    while width is not None and sum(widths[one] + len(GAP) for one in kept) - len(GAP) > width:
        droppable = [number for number in kept if columns[number].drops]
        if not droppable:
            break
        kept.remove(max(droppable, key=lambda number: columns[number].drops))
    return kept
