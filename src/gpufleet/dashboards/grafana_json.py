"""Grafana's JSON of a board, as far as our boards use it, field by field.

Fields have Grafana's names in the file and Python's here. A field with a default is written only where it
differs, so a file has what the board says and no more. ``grafana_codec`` fills these values from a board.
"""

from msgspec import Struct

SCHEMA_VERSION = 42
"""Of the schemas of Grafana 13; earlier ones read it too, as they leave out what they do not know."""


class Part(Struct, frozen=True, rename="camel", omit_defaults=True, kw_only=True):
    """A part of the document."""


class Source(Part, frozen=True):
    """A data source; ours is always the one that the reader chose."""

    type: str
    uid: str


PROMETHEUS = Source(type="prometheus", uid="${datasource}")


class Target(Part, frozen=True):
    """A query of a panel."""

    ref_id: str
    datasource: Source
    expr: str
    legend_format: str
    format: str
    instant: bool
    range: bool
    interval: str = ""


class GridPosition(Part, frozen=True):
    """Where a panel stands."""

    h: int
    w: int
    x: int
    y: int


class Step(Part, frozen=True):
    """A threshold; the first has no value."""

    color: str
    value: float | None


class Steps(Part, frozen=True):
    """Thresholds in the unit of the values."""

    mode: str
    steps: tuple[Step, ...]


class MeaningOfValue(Part, frozen=True):
    """The text and colour of a value."""

    text: str
    color: str
    index: int


class Mapping(Part, frozen=True):
    """Meanings by value."""

    type: str
    options: dict[str, MeaningOfValue]


class ColorMode(Part, frozen=True):
    """From what the colour of a series follows."""

    mode: str


class Stacking(Part, frozen=True):
    """Whether areas stand on one another."""

    mode: str
    group: str


class ThresholdStyle(Part, frozen=True):
    """Whether thresholds are drawn."""

    mode: str


class Drawing(Part, frozen=True):
    """How the marks of a panel look; which fields count depends on its kind."""

    draw_style: str = ""
    line_width: int | None = None
    fill_opacity: int | None = None
    show_points: str = ""
    stacking: Stacking | None = None
    thresholds_style: ThresholdStyle | None = None
    align: str = ""


class Defaults(Part, frozen=True):
    """How the values of a panel are written and coloured."""

    unit: str
    color: ColorMode
    thresholds: Steps
    custom: Drawing
    mappings: tuple[Mapping, ...] = ()
    min: float | None = None
    max: float | None = None
    decimals: int | None = None
    no_value: str = ""


class Matcher(Part, frozen=True):
    """To which fields an override applies."""

    id: str
    options: str


class ValueLink(Part, frozen=True):
    """A link from a value."""

    title: str
    url: str


class Property(Part, frozen=True):
    """What an override sets."""

    id: str
    value: str | Steps | ColorMode | tuple[ValueLink, ...]


class Override(Part, frozen=True):
    """What holds for some of the fields alone."""

    matcher: Matcher
    properties: tuple[Property, ...]


class FieldConfig(Part, frozen=True):
    """How values are shown."""

    defaults: Defaults
    overrides: tuple[Override, ...]


class Reduce(Part, frozen=True):
    """Which value of a series is shown."""

    calcs: tuple[str, ...]
    fields: str
    values: bool


class Legend(Part, frozen=True):
    """Where the names of series stand, and with which figures."""

    display_mode: str
    placement: str
    show_legend: bool
    calcs: tuple[str, ...]


class Tooltip(Part, frozen=True):
    """What is shown at the pointer."""

    mode: str
    sort: str = ""


class HeatColor(Part, frozen=True):
    """The colours of a heat map."""

    mode: str
    scheme: str
    steps: int


class HeatAxis(Part, frozen=True):
    """The unit of a heat map's buckets."""

    unit: str


class Options(Part, frozen=True):
    """What depends on the kind of a panel."""

    reduce_options: Reduce | None = None
    color_mode: str = ""
    graph_mode: str = ""
    text_mode: str = ""
    orientation: str = ""
    display_mode: str = ""
    show_unfilled: bool = False
    legend: Legend | None = None
    tooltip: Tooltip | None = None
    show_value: str = ""
    merge_values: bool = False
    row_height: float | None = None
    calculate: bool | None = None
    color: HeatColor | None = None
    y_axis: HeatAxis | None = None
    cell_height: str = ""
    mode: str = ""
    content: str = ""


class Included(Part, frozen=True):
    """Fields that stay, by name."""

    names: tuple[str, ...]


class TransformOptions(Part, frozen=True):
    """What a transformation is told."""

    include: Included | None = None
    index_by_name: dict[str, int] | None = None
    rename_by_name: dict[str, str] | None = None


class Transform(Part, frozen=True):
    """A change of the answers before they are shown."""

    id: str
    options: TransformOptions


class GrafanaPanel(Part, frozen=True):
    """A panel, or the heading of a row."""

    id: int
    type: str
    title: str
    grid_pos: GridPosition
    description: str = ""
    datasource: Source | None = None
    targets: tuple[Target, ...] = ()
    field_config: FieldConfig | None = None
    options: Options | None = None
    transformations: tuple[Transform, ...] = ()
    collapsed: bool | None = None
    panels: tuple[str, ...] | None = None


class Current(Part, frozen=True):
    """What is chosen at first."""

    text: str
    value: str


class GrafanaVariable(Part, frozen=True):
    """A choice above the board."""

    type: str
    name: str
    label: str
    query: str
    current: Current
    datasource: Source | None = None
    definition: str = ""
    refresh: int | None = None
    sort: int | None = None
    include_all: bool | None = None
    all_value: str = ""
    multi: bool | None = None


class Link(Part, frozen=True):
    """A link from the head of the board to others."""

    type: str
    title: str
    tags: tuple[str, ...]
    as_dropdown: bool
    include_vars: bool
    keep_time: bool
    target_blank: bool
    icon: str
    tooltip: str
    url: str


class Templating(Part, frozen=True):
    """The choices."""

    list: tuple[GrafanaVariable, ...]


class Annotations(Part, frozen=True):
    """Marks on all panels; none, as each board has a table or line of what it would mark."""

    list: tuple[str, ...]


class TimeRange(Part, frozen=True, rename={"since": "from"}):
    """What is shown at first."""

    since: str
    to: str


class GrafanaBoard(Part, frozen=True):
    """The whole document. A number of its own (``id``) is given by each Grafana, so here is none."""

    uid: str
    title: str
    description: str
    tags: tuple[str, ...]
    editable: bool
    graph_tooltip: int
    schema_version: int
    refresh: str
    time: TimeRange
    timezone: str
    templating: Templating
    annotations: Annotations
    links: tuple[Link, ...]
    panels: tuple[GrafanaPanel, ...]
    id: int | None
