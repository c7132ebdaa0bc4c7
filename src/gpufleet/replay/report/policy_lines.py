"""Vega-Lite for lines of several policies over one axis: bands, dashes, labels at the line ends.

A line is named where it ends, so that a reader need not carry colours between a key and the chart. Labels
that would overlap are pushed apart. ``curve_charts`` and ``timeline_charts`` use it.
"""

from collections.abc import Sequence

import msgspec

from gpufleet.replay.report.chart import Json, KeyEntry, Spec
from gpufleet.replay.report.palette import policy_dash, policy_ink

# In pixels; labels at the ends of lines are placed by it.
LINE_CHART_HEIGHT_PX = 320
# Of the text at the end of a line: labels are moved apart so far, and cut at this width.
_LABEL_HEIGHT_PX = 14
_LABEL_WIDTH_PX = 84


class LinePoint(msgspec.Struct, frozen=True):
    """A point of a line; ``low`` and ``high`` bound its band."""

    x: float
    y: float
    low: float | None = None
    high: float | None = None


class PolicyLine(msgspec.Struct, frozen=True):
    """The line of one policy. ``index`` is its place in the result, which gives its ink."""

    policy: str
    index: int
    points: tuple[LinePoint, ...]


class Axis(msgspec.Struct, frozen=True):
    """An axis: title, the range shown, and how its figures are written (a d3 format)."""

    title: str
    low: float
    high: float
    number_format: str = ",~r"


def policy_key(policies: Sequence[str]) -> tuple[KeyEntry, ...]:
    """The key of a chart with one line for each policy."""
    return tuple(
        KeyEntry(policy, "line", policy_ink(index), policy_dash(index))
        for index, policy in enumerate(policies)
    )


def policy_color(policies: Sequence[str]) -> Spec:
    """The colour channel: the policy's own ink."""
    inks = [policy_ink(index) for index in range(len(policies))]
    return {
        "field": "policy",
        "type": "nominal",
        "title": None,
        "scale": {"domain": list(policies), "range": inks},
    }


def label_heights(ends: Sequence[float], axis: Axis, height_px: int) -> list[float]:
    """Where the label of each line end goes, so that none overlaps: pushed down, then back up."""
    gap = (axis.high - axis.low) * _LABEL_HEIGHT_PX / height_px
    order = sorted(range(len(ends)), key=lambda index: -ends[index])
    heights = list(ends)
    ceiling = axis.high
    for index in order:
        heights[index] = min(heights[index], ceiling)
        ceiling = heights[index] - gap
    floor = axis.low
    for index in reversed(order):
        heights[index] = max(heights[index], floor)
        floor = heights[index] + gap
    return heights


def _label_layers(lines: Sequence[PolicyLine], y_axis: Axis, color: Spec) -> list[Json]:
    ends = [line.points[-1] for line in lines]
    heights = label_heights([end.y for end in ends], y_axis, LINE_CHART_HEIGHT_PX)
    rows: list[Json] = [
        {"policy": line.policy, "x": end.x, "y": end.y, "label_y": height}
        for line, end, height in zip(lines, ends, heights, strict=True)
    ]
    x: Spec = {"field": "x", "type": "quantitative"}
    unlit: Spec = {**color, "legend": None}
    return [
        {
            "data": {"values": rows},
            "mark": {"type": "rule", "xOffset": 2, "x2Offset": 12, "strokeOpacity": 0.6},
            "encoding": {
                "x": x,
                "x2": {"field": "x"},
                "y": {"field": "y", "type": "quantitative"},
                "y2": {"field": "label_y"},
                "color": unlit,
            },
        },
        {
            "data": {"values": rows},
            "mark": {
                "type": "text",
                "align": "left",
                "baseline": "middle",
                "dx": 15,
                "limit": _LABEL_WIDTH_PX,
                "fontSize": 12,
            },
            "encoding": {
                "x": x,
                "y": {"field": "label_y", "type": "quantitative"},
                "text": {"field": "policy"},
                "color": unlit,
            },
        },
    ]


def _hover_layer(lines: Sequence[PolicyLine], x_axis: Axis) -> Spec:
    """A vertical rule at the pointer that tells the figures of every policy there.

    The fields are called by number: Vega-Lite would read the dots and brackets of a policy's name
    in a field name as a path.
    """
    rows: dict[float, dict[str, Json]] = {}
    for number, line in enumerate(lines):
        for point in line.points:
            row = rows.setdefault(point.x, {"x": _short(point.x)})
            row[f"p{number}"] = f"{point.y:,.2f}"
    tooltip: list[Json] = [{"field": "x", "type": "quantitative", "title": x_axis.title}]
    tooltip += [
        {"field": f"p{number}", "type": "nominal", "title": line.policy} for number, line in enumerate(lines)
    ]
    return {
        "data": {"values": [rows[x] for x in sorted(rows)]},
        "params": [
            {
                "name": "here",
                "select": {
                    "type": "point",
                    "encodings": ["x"],
                    "nearest": True,
                    "on": "pointermove",
                    "clear": "pointerout",
                },
            }
        ],
        "mark": {"type": "rule", "color": "var(--muted)", "strokeWidth": 1},
        "encoding": {
            "x": {"field": "x", "type": "quantitative"},
            "opacity": {"condition": {"param": "here", "empty": False, "value": 1}, "value": 0},
            "tooltip": tooltip,
        },
    }


def _axis_channel(field: str, axis: Axis, *, grid: bool) -> Spec:
    return {
        "field": field,
        "type": "quantitative",
        "scale": {"domain": [axis.low, axis.high], "zero": False, "nice": False},
        "axis": {"title": axis.title, "format": axis.number_format, "grid": grid, "tickCount": 6},
    }


def _short(number: float) -> float:
    """As many digits as a chart can show: thousands of points must not weigh down the page."""
    rounded = round(number, 2)
    return int(rounded) if rounded == int(rounded) else rounded


def _point_row(policy: str, point: LinePoint) -> dict[str, Json]:
    row: dict[str, Json] = {"policy": policy, "x": _short(point.x), "y": _short(point.y)}
    if point.low is not None and point.high is not None:
        row["low"] = _short(point.low)
        row["high"] = _short(point.high)
    return row


def line_spec(
    lines: Sequence[PolicyLine],
    policies: Sequence[str],
    x_axis: Axis,
    y_axis: Axis,
    reference: Sequence[tuple[float, float]] = (),
) -> Spec:
    """Lines with bands where points have one; ``reference`` is a thin grey line behind them."""
    rows: list[Json] = [_point_row(line.policy, point) for line in lines for point in line.points]
    x = _axis_channel("x", x_axis, grid=False)
    y = _axis_channel("y", y_axis, grid=True)
    color = policy_color(policies)
    dash: Spec = {
        "field": "policy",
        "type": "nominal",
        "title": None,
        "scale": {
            "domain": list(policies),
            "range": [list(policy_dash(index)) or [1, 0] for index in range(len(policies))],
        },
    }
    layers: list[Json] = []
    if reference:
        layers.append(
            {
                "data": {"values": [{"x": at, "y": value} for at, value in reference]},
                "mark": {"type": "line", "color": "var(--muted)", "strokeWidth": 1},
                "encoding": {"x": x, "y": y},
            }
        )
    if any(point.low is not None for line in lines for point in line.points):
        low: Spec = {**y, "field": "low"}
        band: Spec = {"x": x, "y": low, "y2": {"field": "high"}, "color": {**color, "legend": None}}
        layers.append({"mark": {"type": "area", "fillOpacity": 0.18}, "encoding": band})
    layers.append(
        {
            "mark": {"type": "line", "strokeWidth": 2},
            "encoding": {"x": x, "y": y, "color": color, "strokeDash": dash},
        }
    )
    layers += [*_label_layers(lines, y_axis, color), _hover_layer(lines, x_axis)]
    return {"data": {"values": rows}, "layer": layers}
