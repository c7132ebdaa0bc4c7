"""Vega-Lite for dots: a row for each policy, a mark for each of a few figures, joined by a line.

Marks differ by form and filling, not by hue, and rows are named at the axis, so the chart needs no
colours to be read. ``class_charts`` and ``wait_charts`` use it.
"""

from collections.abc import Sequence

import msgspec

from gpufleet.replay.report.chart import Json, KeyEntry, Panel, Spec

# As high as a line of text with its gap.
_ROW_STEP_PX = 22
_SHAPES = {"dot": "circle", "diamond": "diamond", "ring": "circle"}
_FILLS = {"dot": "var(--accent)", "diamond": "var(--accent-pale)", "ring": "var(--surface)"}


class DotMark(msgspec.Struct, frozen=True):
    """One of the figures that every row shows; ``form`` is "dot", "diamond" or "ring"."""

    label: str
    form: str


class Dot(msgspec.Struct, frozen=True):
    """One mark of one policy; ``text`` is its figure in words."""

    policy: str
    mark: str
    value: float
    text: str


def dots_key(marks: Sequence[DotMark]) -> tuple[KeyEntry, ...]:
    """The key of the marks."""
    return tuple(KeyEntry(mark.label, mark.form, "var(--accent)") for mark in marks)


def _mark_scale(marks: Sequence[DotMark], forms: dict[str, str]) -> Spec:
    return {
        "field": "mark",
        "type": "nominal",
        "title": None,
        "scale": {
            "domain": [mark.label for mark in marks],
            "range": [forms[mark.form] for mark in marks],
        },
    }


def dots_panel(
    title: str,
    dots: Sequence[Dot],
    policies: Sequence[str],
    marks: Sequence[DotMark],
    x_scale_and_axis: Spec,
) -> Panel:
    """A panel with a row for each of ``policies``; a policy without dots keeps its empty row."""
    values: list[Json] = [
        {"policy": dot.policy, "mark": dot.mark, "value": round(dot.value, 3), "text": dot.text}
        for dot in dots
    ]
    y: Spec = {
        "field": "policy",
        "type": "nominal",
        "sort": None,
        "title": None,
        "scale": {"domain": list(policies)},
        "axis": {
            "domain": False,
            "ticks": False,
            "grid": True,
            "labelColor": "var(--text)",
            "labelPadding": 10,
        },
    }
    x: Spec = {"field": "value", "type": "quantitative", **x_scale_and_axis}
    tooltip: list[Json] = [
        {"field": "policy", "title": "policy"},
        {"field": "mark", "title": "which"},
        {"field": "text", "title": "figure"},
    ]
    line: Spec = {"y": y, "x": x, "detail": {"field": "policy"}}
    points: Spec = {
        "y": y,
        "x": x,
        "fill": _mark_scale(marks, _FILLS),
        "shape": _mark_scale(marks, _SHAPES),
        "tooltip": tooltip,
    }
    point: Spec = {"type": "point", "stroke": "var(--accent)", "size": 64, "opacity": 1}
    spec: Spec = {
        "data": {"values": values},
        "layer": [
            {"mark": {"type": "line", "color": "var(--accent)", "strokeOpacity": 0.5}, "encoding": line},
            {"mark": point, "encoding": points},
        ],
    }
    return Panel(title, spec, _ROW_STEP_PX * len(policies))
