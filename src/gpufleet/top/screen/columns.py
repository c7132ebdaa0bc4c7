"""What a column of a view is, and what a view is."""

import datetime as dt
import enum
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

LineType = TypeVar("LineType")
SortValue = float | str | None


class Tone(enum.Enum):
    """What a line is to a person; said by a word of the line too, and shown in colour where that is
    wanted.
    """

    PLAIN = ""
    BAD = "bad"
    WARN = "warn"
    QUIET = "quiet"


@dataclass(frozen=True)
class Column(Generic[LineType]):
    """A column. ``width`` is in cells; one with ``share`` gets that part of what is left, and at least
    ``width``, but with ``most`` no more than that, if another can have it.

    Of columns with ``drops`` the one with the highest goes first where the screen is narrow; 0 stays. Sorted
    by it, the largest is first if it is ``descending``. A line keeps its place while its value moves by less
    than ``slack``, and by less than a tenth. A name is cut in its middle, since names differ at their ends.
    """

    name: str
    heading: str
    width: int
    text: Callable[[LineType, dt.datetime], str]
    value: Callable[[LineType], SortValue]
    right: bool = False
    drops: int = 0
    share: int = 0
    most: int = 0
    descending: bool = False
    slack: float = 0.0
    is_wide: bool = False
    is_name: bool = False


def number_column(
    name: str,
    heading: str,
    width: int,
    text: Callable[[LineType, dt.datetime], str],
    value: Callable[[LineType], SortValue],
    drops: int = 0,
    slack: float = 0.0,
) -> Column[LineType]:
    """A column of numbers: at the right, the largest first."""
    return Column(name, heading, width, text, value, right=True, drops=drops, descending=True, slack=slack)


@dataclass(frozen=True)
class View(Generic[LineType]):
    """A view: its name on a command line, its columns, and what identifies, colours and explains a line.

    ``words`` are the texts in which a filter looks. ``tree`` views keep the order in which their lines come.
    """

    name: str
    title: str
    columns: Sequence[Column[LineType]]
    key: Callable[[LineType], str]
    tone: Callable[[LineType], Tone]
    detail: Callable[[LineType], str]
    words: Callable[[LineType], Sequence[str]]
    sort_by: str
    empty: str
    is_tree: bool = False

    def column(self, name: str) -> Column[LineType] | None:
        """The column of a name."""
        return next((one for one in self.columns if one.name == name), None)
