"""What the fleet costs over time by what its GPUs are for, and the sums of it; ``page`` shows them.

Each policy has a panel with its first seed, all on one scale. What is paid for and not used has the loud
colours.
"""

from collections.abc import Sequence

import msgspec

from gpufleet.model.money import MICRO_UNITS, rounded_sums
from gpufleet.replay.report.chart import Chart, Json, KeyEntry, Panel, Spec
from gpufleet.replay.report.figures import percent, plural
from gpufleet.replay.report.selection import first_timelines
from gpufleet.replay.report.table import table
from gpufleet.replay.results import BucketCost, FleetCost, SweepResult, Timeline

_HEIGHT_PX = 260
"""Wide enough for seven parts above one another, and two panels fit on a screen."""

_COLUMNS = 125
"""As many steps as can be told apart in a panel; each puts several intervals of the result together."""

# Traces last for weeks, so the axis is in days; prices are those of an hour.
_DAY_S = 86_400.0
_HOUR_S = 3_600.0


class _Part(msgspec.Struct, frozen=True):
    """A bucket as the chart shows it."""

    bucket: str
    reason: str
    meaning: str
    ink: str


# From the bottom up, and from quiet to loud: what is used, what could be, and what is of no use.
_PARTS = (
    _Part("host", "", "CPU and memory", "var(--edge)"),
    _Part("unmeasured", "", "held by tasks", "var(--accent-pale)"),
    _Part("idle-free", "", "free", "var(--heat-1)"),
    _Part("stranded", "scraps", "too small", "var(--heat-2)"),
    _Part("stranded", "cpu and memory", "both short", "var(--heat-3)"),
    _Part("stranded", "memory", "memory short", "var(--heat-4)"),
    _Part("stranded", "cpu", "CPU short", "var(--heat-5)"),
)


def _priced(result: SweepResult) -> dict[str, tuple[Timeline, FleetCost]]:
    return {
        policy: (timeline, timeline.cost)
        for policy, timeline in first_timelines(result).items()
        if timeline.cost is not None and timeline.time_s
    }


def _shown(costs: Sequence[FleetCost]) -> list[_Part]:
    found = {(one.bucket, one.reason) for cost in costs for one in cost.buckets}
    return [part for part in _PARTS if (part.bucket, part.reason) in found]


def _of(cost: FleetCost, part: _Part) -> BucketCost | None:
    return next((one for one in cost.buckets if (one.bucket, one.reason) == (part.bucket, part.reason)), None)


def _values(timeline: Timeline, cost: FleetCost, parts: Sequence[_Part]) -> list[Json]:
    """The rate of each part in each step, in the currency an hour, on top of the parts before it."""
    points = len(timeline.time_s)
    width_s = timeline.makespan_s / points
    start_s = timeline.time_s[0] - width_s / 2
    step = -(-points // _COLUMNS)
    below = [0.0] * points
    values: list[Json] = []
    for part in parts:
        found = _of(cost, part)
        series = [0] * points if found is None else found.series_micro
        for first in range(0, points, step):
            last = min(points, first + step)
            rate = sum(series[first:last]) / MICRO_UNITS * _HOUR_S / (width_s * (last - first))
            low, below[first] = below[first], below[first] + rate
            value: Spec = {
                "part": part.meaning,
                "rate": round(rate, 2),
                "low": round(low, 2),
                "high": round(below[first], 2),
            }
            values.append({**value, "day": round((start_s + first * width_s) / _DAY_S, 3)})
        # A step reaches to the next one; the last one to the end.
        values.append({**value, "day": round((start_s + points * width_s) / _DAY_S, 3)})
    return values


def _panel(timeline: Timeline, cost: FleetCost, parts: Sequence[_Part], end: float) -> Spec:
    days: Spec = {
        "field": "day",
        "type": "quantitative",
        "scale": {"nice": False, "zero": False},
        "axis": {"title": "time, days", "grid": False, "tickCount": 6},
    }
    rate: Spec = {
        "field": "low",
        "type": "quantitative",
        "scale": {"domain": [0, end], "nice": False},
        "axis": {"title": f"{cost.currency} an hour", "tickCount": 5, "format": ",~r"},
    }
    color: Spec = {
        "field": "part",
        "type": "nominal",
        "title": None,
        "scale": {"domain": [part.meaning for part in parts], "range": [part.ink for part in parts]},
    }
    return {
        "data": {"values": _values(timeline, cost, parts)},
        "mark": {"type": "area", "interpolate": "step-after", "line": False},
        "encoding": {"x": days, "y": rate, "y2": {"field": "high"}, "color": color},
    }


def _highest(timeline: Timeline, cost: FleetCost) -> float:
    points = len(timeline.time_s)
    sums = [sum(one.series_micro[point] for one in cost.buckets) for point in range(points)]
    return max(sums) / MICRO_UNITS * _HOUR_S / (timeline.makespan_s / points)


def _rows(priced: dict[str, tuple[Timeline, FleetCost]], parts: Sequence[_Part]) -> list[list[str]]:
    rows = []
    for policy, (_, cost) in priced.items():
        amounts = [0 if (found := _of(cost, part)) is None else found.amount_micro for part in parts]
        wasted = sum(one.amount_micro for one in cost.buckets if one.bucket in ("stranded", "idle-free"))
        of_gpus = sum(one.amount_micro for one in cost.buckets if one.bucket != "host")
        share = percent(100 * wasted / of_gpus, 1) if of_gpus else percent(None)
        rows.append([policy, *rounded_sums(amounts), share])
    return rows


def money_charts(result: SweepResult) -> list[Chart]:
    """What each policy costs, by bucket over time; empty where no prices were given."""
    priced = _priced(result)
    if not priced:
        return []
    parts = _shown([cost for _, cost in priced.values()])
    end = max(_highest(*one) for one in priced.values()) * 1.02
    costs = [cost for _, cost in priced.values()]
    currency, unpriced = costs[0].currency, costs[0].unpriced_gpus
    note = (
        "Money that the nodes with GPUs cost while time passes, by what the GPUs are for. Free: typical "
        "tasks could use it. Short and too small: free as well, but of no use to typical tasks where it is."
    )
    if unpriced:
        note += f" {plural(unpriced, 'GPU')} without a price are left out."
    return [
        Chart(
            name="money-over-time",
            title="What the fleet costs, by what it is for",
            note=note,
            panels=tuple(
                Panel(policy, _panel(timeline, cost, parts, end), _HEIGHT_PX)
                for policy, (timeline, cost) in priced.items()
            ),
            panel_width_px=420,
            table=table(
                f"What the whole time cost, {currency}, first seed",
                ["Policy", *(part.meaning for part in parts), "all", "GPUs' cost that is not held"],
                _rows(priced, parts),
            ),
            key=tuple(KeyEntry(part.meaning, "box", part.ink) for part in parts),
        )
    ]
