"""How each kind of panel looks in Grafana: colours, legends, and how values are written.

``grafana_codec`` asks for each panel's; all boards look alike because no board says it itself.
"""

from gpufleet.dashboards.board import Colour, Column, Opens, Panel, PanelKind, Threshold, Unit
from gpufleet.dashboards.grafana_json import (
    ColorMode,
    Defaults,
    Drawing,
    FieldConfig,
    HeatAxis,
    HeatColor,
    Legend,
    Mapping,
    Matcher,
    MeaningOfValue,
    Options,
    Override,
    Property,
    Reduce,
    Stacking,
    Step,
    Steps,
    ThresholdStyle,
    Tooltip,
    ValueLink,
)

# The end of a range has no value until the next scrape, so the last one that is there counts.
LAST = Reduce(calcs=("lastNotNull",), fields="", values=False)
BY_THRESHOLD = ColorMode(mode="thresholds")
BY_SERIES = ColorMode(mode="palette-classic-by-name")
"""A name has the same colour on all panels."""


def steps(below: Colour, thresholds: tuple[Threshold, ...]) -> Steps:
    """Thresholds as Grafana has them: the first step holds for all that is less."""
    first = Step(color=below.value, value=None)
    rest = (Step(color=one.colour.value, value=one.value) for one in thresholds)
    return Steps(mode="absolute", steps=(first, *rest))


def letter(index: int) -> str:
    """The name of a query of a panel: A for the first."""
    return chr(ord("A") + index)


def field_of(panel: Panel, column: Column) -> str:
    """The name of a column's field before it has its title."""
    if isinstance(column.source, str):
        return column.source
    return "Value" if len(panel.queries) == 1 else f"Value #{letter(column.source)}"


def field_config(panel: Panel) -> FieldConfig:
    """How a panel's values are written and coloured."""
    by_series = panel.kind in {PanelKind.LINES, PanelKind.HEATMAP} and not panel.meanings
    defaults = Defaults(
        unit=panel.unit.value,
        color=BY_SERIES if by_series else BY_THRESHOLD,
        thresholds=steps(panel.below, panel.thresholds),
        custom=_drawing(panel),
        mappings=_mappings(panel),
        min=panel.minimum,
        max=panel.maximum,
        decimals=panel.decimals,
        no_value=_no_value(panel),
    )
    overrides = (_override(column) for column in panel.columns if _differs(column))
    return FieldConfig(defaults=defaults, overrides=tuple(overrides))


def _no_value(panel: Panel) -> str:
    """Grafana writes it into empty cells of tables too, where it would say more than is so."""
    return panel.no_value if panel.kind is PanelKind.TABLE else panel.words_without_answer


def _differs(column: Column) -> bool:
    """Whether a column has anything that the others lack."""
    return column.unit is not Unit.NONE or bool(column.thresholds) or column.opens is not None


def _override(column: Column) -> Override:
    properties = [Property(id="unit", value=column.unit.value)] if column.unit is not Unit.NONE else []
    if column.thresholds:
        properties.append(Property(id="thresholds", value=steps(Colour.IDLE, column.thresholds)))
        properties.append(Property(id="color", value=BY_THRESHOLD))
    if column.opens:
        properties.append(Property(id="links", value=(_link(column.opens),)))
    return Override(matcher=Matcher(id="byName", options=column.title), properties=tuple(properties))


def _link(opens: Opens) -> ValueLink:
    """To the other board, for the same time, data source and cluster."""
    kept = "${datasource:queryparam}&${cluster:queryparam}&${__url_time_range}"
    url = f"/d/{opens.uid}?{kept}&var-{opens.variable}=${{__value.text}}"
    return ValueLink(title=f"Open this {opens.variable}", url=url)


def _mappings(panel: Panel) -> tuple[Mapping, ...]:
    if not panel.meanings:
        return ()
    meanings = {
        # Grafana lists meanings by their index, not in the order of the file.
        str(one.value): MeaningOfValue(text=one.text, color=one.colour.value, index=place)
        for place, one in enumerate(panel.meanings)
    }
    return (Mapping(type="value", options=meanings),)


def _drawing(panel: Panel) -> Drawing:
    match panel.kind:
        case PanelKind.LINES:
            return Drawing(
                # A query with a step counts within each step: a line would invent values between them.
                draw_style="bars" if any(query.step for query in panel.queries) else "line",
                line_width=1 if panel.is_stacked else 2,
                fill_opacity=60 if panel.is_stacked else 0,
                show_points="never",
                stacking=Stacking(mode="normal" if panel.is_stacked else "none", group="A"),
                thresholds_style=ThresholdStyle(mode="line" if panel.thresholds else "off"),
            )
        case PanelKind.STATES:
            return Drawing(line_width=0, fill_opacity=80)
        case PanelKind.TABLE:
            return Drawing(align="auto")
        case _:
            return Drawing()


def options(panel: Panel) -> Options:
    """What depends on a panel's kind."""
    names = Legend(display_mode="list", placement="bottom", show_legend=True, calcs=())
    match panel.kind:
        case PanelKind.STAT:
            return Options(
                reduce_options=LAST,
                color_mode="background" if panel.thresholds or panel.meanings else "value",
                graph_mode="none",
                text_mode="auto",
                orientation="auto",
            )
        case PanelKind.BARS:
            return Options(
                reduce_options=LAST, orientation="horizontal", display_mode="basic", show_unfilled=True
            )
        case PanelKind.LINES:
            return Options(legend=names, tooltip=Tooltip(mode="multi", sort="desc"))
        case PanelKind.STATES:
            return Options(
                legend=names,
                tooltip=Tooltip(mode="single"),
                show_value="never",
                merge_values=True,
                row_height=0.8,
            )
        case PanelKind.HEATMAP:
            return Options(
                calculate=False,
                color=HeatColor(mode="scheme", scheme="Blues", steps=64),
                y_axis=HeatAxis(unit=panel.unit.value),
                tooltip=Tooltip(mode="single"),
            )
        case PanelKind.TABLE:
            return Options(cell_height="sm")
        case PanelKind.TEXT:
            return Options(mode="markdown", content=panel.text)
