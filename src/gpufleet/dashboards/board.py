"""What a board is made of: rows of panels, the queries of each panel, and the variables above them.

A board says what is asked and how it is meant: a unit, thresholds with a colour, the meaning of a value.
Where a panel stands on the page follows from widths, in ``layout``; Grafana's own fields are added by
``grafana_codec``.
"""

from dataclasses import dataclass
from enum import Enum, StrEnum


class Unit(StrEnum):
    """Units, under the names that Grafana has for them."""

    COUNT = "short"
    RATIO = "percentunit"
    SECONDS = "s"
    BYTES = "bytes"
    WATTS = "watt"
    CELSIUS = "celsius"
    KILOWATT_HOURS = "kwatth"
    PER_SECOND = "cps"
    HOURS = "h"
    NONE = "none"


class Colour(StrEnum):
    """Colours with a meaning. Grafana has a shade of each for light and for dark pages."""

    GOOD = "green"
    NEUTRAL = "blue"
    WARNING = "orange"
    BAD = "red"
    IDLE = "text"


class PanelKind(StrEnum):
    """How a panel draws the answers, under Grafana's names."""

    STAT = "stat"
    LINES = "timeseries"
    BARS = "bargauge"
    TABLE = "table"
    STATES = "state-timeline"
    HEATMAP = "heatmap"
    TEXT = "text"


class QueryKind(Enum):
    """Whether a query is asked for the whole time shown, or for its end alone."""

    OVER_TIME = "over time"
    NOW = "now"


@dataclass(frozen=True)
class Query:
    """A question in PromQL; ``legend`` names its series by their labels, as ``{{node}}``.

    ``step`` is the shortest distance of two values, "" where Grafana may choose it.
    """

    expression: str
    legend: str = ""
    step: str = ""


@dataclass(frozen=True)
class Threshold:
    """From this value on the colour holds."""

    value: float
    colour: Colour


@dataclass(frozen=True)
class Meaning:
    """What a value means, in words and a colour."""

    value: int
    text: str
    colour: Colour


@dataclass(frozen=True)
class Opens:
    """What a click on a value opens: another board, with the value chosen there."""

    uid: str
    variable: str


@dataclass(frozen=True)
class Column:
    """A column of a table: a label, or the values of the query at that place (0 for the first)."""

    source: str | int
    title: str
    unit: Unit = Unit.NONE
    thresholds: tuple[Threshold, ...] = ()
    opens: Opens | None = None


@dataclass(frozen=True)
class Panel:
    """One picture: what it asks, what it is called, and how to read it.

    ``width`` is of 24, ``height`` in Grafana's rows of 30 pixels. ``below`` is the colour under the first
    threshold. ``no_value`` is shown where nothing is answered; ``empty_when_well`` says why that is no fault.
    """

    title: str
    description: str
    kind: PanelKind
    queries: tuple[Query, ...]
    unit: Unit = Unit.NONE
    width: int = 12
    height: int = 8
    at: QueryKind = QueryKind.OVER_TIME
    below: Colour = Colour.GOOD
    thresholds: tuple[Threshold, ...] = ()
    meanings: tuple[Meaning, ...] = ()
    columns: tuple[Column, ...] = ()
    is_stacked: bool = False
    minimum: float | None = None
    maximum: float | None = None
    decimals: int | None = None
    no_value: str = ""
    empty_when_well: str = ""
    text: str = ""

    @property
    def words_without_answer(self) -> str:
        """What stands in the panel where nothing is answered, as of a data source that knows nothing too."""
        if self.no_value or not self.empty_when_well:
            return self.no_value or "No data"
        return f"No data: {self.empty_when_well}, or nothing is scraped"


@dataclass(frozen=True)
class Row:
    """Panels under one heading."""

    title: str
    panels: tuple[Panel, ...]


@dataclass(frozen=True)
class LabelVariable:
    """A choice among the values of a label, ``metric`` being what carries it; all of them at first.

    ``for_all`` is the pattern that stands for all values.
    """

    name: str
    title: str
    metric: str
    for_all: str = ".+"


@dataclass(frozen=True)
class TextVariable:
    """A value that the reader types."""

    name: str
    title: str
    default: str


Variable = LabelVariable | TextVariable


@dataclass(frozen=True)
class Board:
    """A board: who reads it, and what it shows of the time since ``since``."""

    uid: str
    title: str
    description: str
    rows: tuple[Row, ...]
    variables: tuple[Variable, ...] = ()
    since: str = "now-6h"

    @property
    def panels(self) -> tuple[Panel, ...]:
        """All panels in the order of the page."""
        return tuple(panel for row in self.rows for panel in row.panels)
