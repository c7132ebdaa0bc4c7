"""A board as Grafana's JSON: places, colours and transformations that follow from what each panel is.

The same board gives the same bytes, so files in the repository can be held to the code. ``panel_style`` says
how each kind of panel looks.
"""

from collections.abc import Iterator, Sequence

import msgspec

from gpufleet.dashboards.board import Board, LabelVariable, Panel, PanelKind, Query, QueryKind, Variable
from gpufleet.dashboards.grafana_json import (
    PROMETHEUS,
    SCHEMA_VERSION,
    Annotations,
    Current,
    GrafanaBoard,
    GrafanaPanel,
    GrafanaVariable,
    GridPosition,
    Included,
    Link,
    Target,
    Templating,
    TimeRange,
    Transform,
    TransformOptions,
)
from gpufleet.dashboards.layout import Placed, placed
from gpufleet.dashboards.panel_style import field_config, field_of, letter, options
from gpufleet.dashboards.promql import CLUSTER

TAG = "gpufleet"
"""By which boards find one another."""
ON_TIME_CHANGE = 2
"""Grafana's number for choices that are listed anew when the time changes."""
BY_NAME = 1
"""Grafana's number for choices in the order of their names."""
SHARED_CROSSHAIR = 1
"""Grafana's number for a pointer that shows its time on all panels."""


def encode(board: Board) -> bytes:
    """The file of a board."""
    text = msgspec.json.format(msgspec.json.encode(grafana_board(board)), indent=1)
    return text + b"\n"


def grafana_board(board: Board) -> GrafanaBoard:
    """The board as Grafana's document."""
    numbered = enumerate(placed(board.rows), start=1)
    return GrafanaBoard(
        # Grafana gives a number of its own; a number of the file could be that of another board.
        id=None,
        uid=board.uid,
        title=f"gpufleet / {board.title}",
        description=board.description,
        tags=(TAG,),
        # The next release replaces the file, and with it whatever was edited.
        editable=False,
        graph_tooltip=SHARED_CROSSHAIR,
        schema_version=SCHEMA_VERSION,
        refresh="30s",
        time=TimeRange(since=board.since, to="now"),
        timezone="browser",
        templating=Templating(list=tuple(_variables(board.variables))),
        annotations=Annotations(list=()),
        links=(_link_to_others(),),
        panels=tuple(_panel(number, one) for number, one in numbered),
    )


def _link_to_others() -> Link:
    return Link(
        type="dashboards",
        title="gpufleet",
        tags=(TAG,),
        as_dropdown=False,
        include_vars=True,
        keep_time=True,
        target_blank=False,
        icon="dashboard",
        tooltip="",
        url="",
    )


def label_values(variable: LabelVariable) -> str:
    """The query that lists the choices; of the chosen cluster, except for clusters themselves."""
    within = "" if variable.name == "cluster" else f"{{{CLUSTER}}}"
    return f"label_values({variable.metric}{within}, {variable.name})"


def _variables(variables: Sequence[Variable]) -> Iterator[GrafanaVariable]:
    yield GrafanaVariable(
        type="datasource",
        name="datasource",
        label="Data source",
        query="prometheus",
        current=Current(text="", value=""),
    )
    for one in variables:
        if isinstance(one, LabelVariable):
            query = label_values(one)
            yield GrafanaVariable(
                type="query",
                name=one.name,
                label=one.title,
                query=query,
                definition=query,
                current=Current(text="All", value="$__all"),
                datasource=PROMETHEUS,
                refresh=ON_TIME_CHANGE,
                sort=BY_NAME,
                include_all=True,
                # Without it Grafana writes every value into each query, which grows with the fleet.
                all_value=one.for_all,
                multi=True,
            )
        else:
            yield GrafanaVariable(
                type="textbox",
                name=one.name,
                label=one.title,
                query=one.default,
                current=Current(text=one.default, value=one.default),
            )


def _panel(number: int, one: Placed) -> GrafanaPanel:
    place = one.place
    grid = GridPosition(h=place.height, w=place.width, x=place.x, y=place.y)
    thing = one.thing
    if not isinstance(thing, Panel):
        return GrafanaPanel(
            id=number, type="row", title=thing.title, grid_pos=grid, collapsed=False, panels=()
        )
    asks = thing.kind is not PanelKind.TEXT
    return GrafanaPanel(
        id=number,
        type=thing.kind.value,
        title=thing.title,
        description=thing.description,
        grid_pos=grid,
        datasource=PROMETHEUS if asks else None,
        targets=tuple(_target(thing, place, query) for place, query in enumerate(thing.queries)),
        field_config=field_config(thing) if asks else None,
        options=options(thing),
        transformations=tuple(_transformations(thing)),
    )


def _target(panel: Panel, index: int, query: Query) -> Target:
    is_now = panel.at is QueryKind.NOW
    shape = {PanelKind.TABLE: "table", PanelKind.HEATMAP: "heatmap"}
    return Target(
        ref_id=letter(index),
        datasource=PROMETHEUS,
        expr=query.expression,
        legend_format=query.legend or "__auto",
        format=shape.get(panel.kind, "time_series"),
        instant=is_now,
        range=not is_now,
        interval=query.step,
    )


def _transformations(panel: Panel) -> Iterator[Transform]:
    """Of a table: one line for each thing, and the named columns alone, in order."""
    if panel.kind is not PanelKind.TABLE:
        return
    fields = [field_of(panel, column) for column in panel.columns]
    # Each query answers with a table of its own; merge joins their rows by equal labels.
    if len(panel.queries) > 1:
        yield Transform(id="merge", options=TransformOptions())
    yield Transform(id="filterFieldsByName", options=TransformOptions(include=Included(names=tuple(fields))))
    titles = [column.title for column in panel.columns]
    yield Transform(
        id="organize",
        options=TransformOptions(
            index_by_name={name: place for place, name in enumerate(fields)},
            rename_by_name=dict(zip(fields, titles, strict=True)),
        ),
    )
