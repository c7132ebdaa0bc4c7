"""A chart as a value: what it shows in words, its Vega-Lite panels, and the table behind it.

Vega-Lite draws it, in the page by its own script and in PNG files by ``vl-convert``: axes, ticks,
hover and scaling are a solved problem. A panel is written without width, theme or legend; those
differ between page and file and are added here. ``curve_charts`` and its siblings make the charts,
``page`` and ``raster`` show them.
"""

from collections.abc import Mapping, Sequence
from typing import TypeAlias

import msgspec

from gpufleet.replay.report.table import Table

Json: TypeAlias = "Mapping[str, Json] | Sequence[Json] | str | float | bool | None"
Spec: TypeAlias = dict[str, Json]

# A picture cannot follow the width of a window, as the page does.
PNG_CHART_WIDTH_PX = 960
PNG_PANEL_WIDTH_PX = 340
PNG_PANEL_COLUMNS = 3


class KeyEntry(msgspec.Struct, frozen=True):
    """A line of the key beside a chart: a sample of ``mark`` ("line", "box", "dot", "ring")."""

    label: str
    mark: str
    ink: str
    dash: tuple[int, ...] = ()


class Panel(msgspec.Struct, frozen=True):
    """One pair of axes; ``title`` is empty where the chart has only this one."""

    title: str
    spec: Spec
    height_px: int


class Chart(msgspec.Struct, frozen=True):
    """One chart, of one panel or of several alike. ``name`` is that of its PNG file.

    ``note`` says what is shown, ``reading`` how it is drawn; the page says the latter once for
    charts that share it.
    """

    name: str
    title: str
    note: str
    panels: tuple[Panel, ...]
    table: Table
    key: tuple[KeyEntry, ...] = ()
    reading: str = ""
    panel_width_px: int = 320
    """The least width of a panel in the page; more where its labels are long."""


def _theme(*, legend: bool) -> Spec:
    axis: Spec = {
        "labelColor": "var(--muted)",
        "titleColor": "var(--muted)",
        "titleFontWeight": "normal",
        "titlePadding": 8,
        "gridColor": "var(--grid)",
        "domainColor": "var(--edge)",
        "tickColor": "var(--edge)",
        "labelFontSize": 12,
        "titleFontSize": 12,
        "labelLimit": 110,
        "labelOverlap": True,
    }
    words: Spec = {"labelColor": "var(--text)", "titleColor": "var(--muted)", "labelFontSize": 12}
    return {
        "background": None if not legend else "var(--surface)",
        "font": "system-ui, sans-serif",
        "view": {"stroke": None},
        "axis": axis,
        "legend": {**words, "disable": not legend, "orient": "bottom", "columns": 5},
        "title": {
            "color": "var(--text)",
            "subtitleColor": "var(--muted)",
            "anchor": "start",
            "fontSize": 15,
            "offset": 12,
        },
        "mark": {"aria": False},
    }


def page_spec(chart: Chart, panel: Panel) -> Spec:
    """The panel as the page draws it: as wide as its box, its key in the page's own text."""
    about = f"{chart.title}. {panel.title}".rstrip(". ") + f". {chart.note}".rstrip()
    return {
        **panel.spec,
        "width": "container",
        "height": panel.height_px,
        "autosize": {"type": "fit-x", "contains": "padding"},
        "description": about,
        "config": _theme(legend=False),
    }


def _without_hover(spec: Spec) -> Spec:
    """A file has no pointer, and hundreds of hidden marks cost time to draw."""
    layers = spec.get("layer")
    if not isinstance(layers, list):
        return spec
    return {**spec, "layer": [one for one in layers if not (isinstance(one, dict) and "params" in one)]}


def file_spec(chart: Chart) -> Spec:
    """The whole chart as the PNG file shows it: fixed width, with title and legend."""
    head: Spec = {
        "title": {"text": chart.title, "subtitle": f"{chart.note} {chart.reading}".strip()},
        "config": _theme(legend=True),
        "padding": 20,
    }
    if len(chart.panels) == 1:
        only = chart.panels[0]
        return {**_without_hover(only.spec), **head, "width": PNG_CHART_WIDTH_PX, "height": only.height_px}
    panels: list[Json] = [
        {
            **panel.spec,
            "title": {"text": panel.title, "fontSize": 13},
            "width": PNG_PANEL_WIDTH_PX,
            "height": panel.height_px,
        }
        for panel in chart.panels
    ]
    return {**head, "columns": PNG_PANEL_COLUMNS, "spacing": 32, "concat": panels}
