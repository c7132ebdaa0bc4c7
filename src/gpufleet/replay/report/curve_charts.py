"""Charts over arrived load: GPUs allocated, and GPUs left as fragments.

Policies run together until the cluster is nearly full, so every chart has a second view of the
loads around saturation, where they part. Where the tasks ask for less than the saturated range,
only the first is drawn. ``page`` shows them.
"""

from collections.abc import Callable, Sequence
from math import ceil, floor

import msgspec

from gpufleet.replay.report.chart import Chart, Panel
from gpufleet.replay.report.figures import ABSENT, percent
from gpufleet.replay.report.policy_lines import (
    LINE_CHART_HEIGHT_PX,
    Axis,
    LinePoint,
    PolicyLine,
    line_spec,
    policy_key,
)
from gpufleet.replay.report.seed_spread import SpreadPoint, spread_over_seeds
from gpufleet.replay.report.selection import policy_names
from gpufleet.replay.report.table import Table, table
from gpufleet.replay.results import LOAD_POINTS_PCT, Curve, SweepResult

# Policies differ only where the cluster gets full.
SATURATION_FROM_PCT = 85
READING = "Lines are means over the seeds, bands reach from the lowest seed to the highest."
LOAD_TITLE = "arrived load, % of GPUs"


class _Quantity(msgspec.Struct, frozen=True):
    name: str
    title: str
    axis_title: str
    meaning: str
    values_of: Callable[[Curve], Sequence[float]]
    has_reference: bool = False


_ALLOCATED = _Quantity(
    "allocation",
    "GPUs allocated",
    "allocated, % of GPUs",
    "The thin grey line is a cluster that accepts everything until it is full.",
    lambda curve: curve.alloc_pct,
    has_reference=True,
)
_FRAGMENTS = _Quantity(
    "fragmentation",
    "Fragments, as part of the cluster",
    "fragments, % of GPUs",
    "Fragments are idle GPUs that the typical task cannot use where they are.",
    lambda curve: curve.frag_pct_of_cluster,
)
_FRAGMENTS_OF_IDLE = _Quantity(
    "fragmentation-of-idle",
    "Fragments, as part of what is idle",
    "fragments, % of idle GPUs",
    "At 100% nothing that is left is of use to the typical task.",
    lambda curve: curve.frag_pct_of_idle,
)

Spreads = dict[str, list[SpreadPoint]]


def _spreads(result: SweepResult, quantity: _Quantity) -> Spreads:
    curves: dict[str, list[Curve]] = {}
    for run in result.runs:
        if run.curve.load_pct:
            curves.setdefault(run.policy, []).append(run.curve)
    spreads = {
        policy: spread_over_seeds(curves[policy], quantity.values_of)
        for policy in policy_names(result)
        if policy in curves
    }
    return {policy: points for policy, points in spreads.items() if points}


def _cell(points: Sequence[SpreadPoint], load_pct: int) -> str:
    for point in points:
        if point.load_pct == load_pct:
            low, high = percent(point.low), percent(point.high)
            mean = percent(point.mean)
            return mean if low == high else f"{mean} ({low} to {high})"
    return ABSENT


def _table(spreads: Spreads, quantity: _Quantity) -> Table:
    return table(
        f"{quantity.title}: mean over the seeds (lowest to highest), by arrived load",
        ["Policy", *(f"load {load}" for load in LOAD_POINTS_PCT)],
        [[policy, *(_cell(points, load) for load in LOAD_POINTS_PCT)] for policy, points in spreads.items()],
    )


def _y_axis(quantity: _Quantity, shown: Sequence[SpreadPoint], *, whole: bool) -> Axis:
    """From 0 in the whole view; around the curves in the view that is there to tell them apart."""
    low = 0 if whole else floor(min(point.low for point in shown) - 0.25)
    high = ceil(max(point.high for point in shown) + 0.25)
    if whole and quantity.has_reference:
        high = 100
    return Axis(quantity.axis_title, float(max(low, 0)), float(min(high, 100)))


def _everything_accepted(x_axis: Axis, y_axis: Axis) -> list[tuple[float, float]]:
    """The part of the diagonal that is in view; cut here, since clipping makes PNG files slow."""
    start = max(x_axis.low, y_axis.low)
    corner = min(100.0, x_axis.high, y_axis.high)
    seen = [(start, start), (corner, corner)] if start < corner else []
    return [*seen, (x_axis.high, 100.0)] if y_axis.high >= 100 < x_axis.high else seen


def _chart(result: SweepResult, quantity: _Quantity, spreads: Spreads, *, saturation: bool) -> Chart | None:
    from_pct = SATURATION_FROM_PCT if saturation else 0
    shown = {
        policy: [point for point in points if point.load_pct >= from_pct]
        for policy, points in spreads.items()
    }
    shown = {policy: points for policy, points in shown.items() if points}
    every = [point for points in shown.values() for point in points]
    last_load = max((point.load_pct for point in every), default=0)
    if last_load <= from_pct:
        return None
    x_axis = Axis(LOAD_TITLE, float(from_pct), float(last_load))
    y_axis = _y_axis(quantity, every, whole=not saturation)
    names = policy_names(result)
    lines = [
        PolicyLine(policy, names.index(policy), tuple(map(_line_point, points)))
        for policy, points in shown.items()
    ]
    reference = _everything_accepted(x_axis, y_axis) if quantity.has_reference else ()
    spec = line_spec(lines, names, x_axis, y_axis, reference)
    suffix = f", from load {from_pct}" if saturation else ""
    return Chart(
        name=quantity.name + ("-at-saturation" if saturation else ""),
        title=quantity.title + suffix,
        # The chart of the whole range beside it says what the quantity means.
        note="" if saturation else quantity.meaning,
        panels=(Panel("", spec, LINE_CHART_HEIGHT_PX),),
        table=_table(spreads, quantity),
        key=policy_key(names),
        reading=READING,
    )


def _line_point(point: SpreadPoint) -> LinePoint:
    return LinePoint(float(point.load_pct), point.mean, point.low, point.high)


def _both_views(result: SweepResult, quantity: _Quantity) -> list[Chart]:
    spreads = _spreads(result, quantity)
    views = [_chart(result, quantity, spreads, saturation=zoom) for zoom in (False, True)]
    return [view for view in views if view is not None]


def allocation_charts(result: SweepResult) -> list[Chart]:
    """Allocated GPUs over arrived load; empty where no run has a curve."""
    return _both_views(result, _ALLOCATED)


def fragmentation_charts(result: SweepResult) -> list[Chart]:
    """Fragments over arrived load, as part of the cluster and of what is idle."""
    return _both_views(result, _FRAGMENTS) + _both_views(result, _FRAGMENTS_OF_IDLE)
