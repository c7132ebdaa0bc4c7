"""The charts of a plan for a history: GPUs over time, waits by size of the fleet, and cost against wait.

They are charts as in the report of a replay, with its inks, its words for times and its tables.
"""

from collections.abc import Sequence
from math import ceil

import msgspec

from gpufleet.model.money import MICRO_UNITS
from gpufleet.plan.answer import MONTH_HOURS, type_words
from gpufleet.plan.history.answer import FleetFound, HistoryPlan, LevelFound
from gpufleet.plan.history.service_level import CLASSES, class_words
from gpufleet.replay.report.chart import Chart, Json, KeyEntry, Panel, Spec
from gpufleet.replay.report.figures import ABSENT, amount, count, duration
from gpufleet.replay.report.palette import policy_dash, policy_ink
from gpufleet.replay.report.policy_lines import (
    LINE_CHART_HEIGHT_PX,
    Axis,
    LinePoint,
    PolicyLine,
    line_spec,
    policy_key,
)
from gpufleet.replay.report.table import Table, table
from gpufleet.replay.report.wait_charts import wait_scale_and_axis

_DAY_S = 86_400.0
NEVER = "too many never start"
_ROOM = 1.08
"""A scale goes a little beyond what it shows."""


def over_time(plan: HistoryPlan) -> Chart | None:
    """GPUs asked for, in use, and there."""
    series, fleet = plan.series, plan.best or plan.today
    if series is None or fleet is None:
        return None
    days = [at / _DAY_S for at in series.time_s]
    there = "bought" if plan.today is None else "there"
    names = ("asked for", "in use", there)
    lines = [
        PolicyLine(names[0], 0, tuple(map(LinePoint, days, series.asked_gpus))),
        PolicyLine(names[1], 1, tuple(map(LinePoint, days, series.used_gpus))),
        PolicyLine(names[2], 2, tuple(LinePoint(day, float(fleet.gpus)) for day in (days[0], days[-1]))),
    ]
    highest = max(*series.asked_gpus, float(fleet.gpus))
    y_axis = Axis("GPUs", 0.0, float(ceil(highest * _ROOM)))
    spec = line_spec(lines, names, Axis("time, days", 0.0, days[-1] or 1.0), y_axis)
    rows = [
        ["asked for", amount(_mean(series.asked_gpus)), amount(max(series.asked_gpus))],
        ["in use", amount(_mean(series.used_gpus)), amount(max(series.used_gpus))],
        [there, count(fleet.gpus), count(fleet.gpus)],
    ]
    return Chart(
        name="gpus-over-time",
        title="GPUs asked for and GPUs that are there",
        note="Asked for are GPUs of tasks that run or wait: where that line is above the one in use, tasks "
        "wait. A point is the mean over its interval.",
        panels=(Panel("", spec, LINE_CHART_HEIGHT_PX),),
        table=table("GPUs over the whole time", ["GPUs", "mean", "most"], rows),
        key=policy_key(names),
    )


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)


def sizes(plan: HistoryPlan) -> tuple[FleetFound, ...]:
    """All fleets that were replayed whole, the smallest first."""
    best = () if plan.best is None else (plan.best,)
    return tuple(sorted((*plan.others, *best), key=lambda fleet: (fleet.cost_micro, fleet.gpus)))


def waits_by_size(plan: HistoryPlan) -> Chart | None:
    """What 90 % of the tasks of each class wait at most, by GPUs of the fleet."""
    fleets = sizes(plan)
    names = [name for name in CLASSES[1:] if any(name in fleet.waits for fleet in fleets)]
    points = [
        _Point(class_words(name), float(fleet.gpus), wait_s)
        for name in names
        for fleet in fleets
        if (wait_s := fleet.wait_of_90_pct_s.get(name)) is not None
    ]
    if len(fleets) < 2 or not points:
        return None
    words = [class_words(name) for name in names]
    return Chart(
        name="wait-by-fleet-size",
        title="What tasks of each class wait, by size of the fleet",
        note="90% of the tasks of a class wait at most so long. The scale of the waits is logarithmic past a "
        "minute. A size on which too many never start has no dot; the table has it.",
        panels=(Panel("", _lines(points, words, "GPUs of the fleet"), LINE_CHART_HEIGHT_PX),),
        table=_waits_table(fleets, names),
        key=policy_key(words),
    )


def _waits_table(fleets: Sequence[FleetFound], names: Sequence[str]) -> Table:
    return table(
        "What 90% of the tasks of a class wait at most, and how many tasks never start",
        ["GPUs", *(f"tasks {class_words(name)}" for name in names), "never start"],
        [
            [count(fleet.gpus), *(_wait_of(fleet, name) for name in names), count(fleet.never_started)]
            for fleet in fleets
        ],
    )


def _wait_of(fleet: FleetFound, name: str) -> str:
    if name not in fleet.wait_of_90_pct_s:
        return ABSENT
    wait_s = fleet.wait_of_90_pct_s[name]
    return NEVER if wait_s is None else duration(wait_s)


class _Point(msgspec.Struct, frozen=True):
    name: str
    x: float
    wait_s: float


def _lines(points: Sequence[_Point], names: Sequence[str], title: str) -> Spec:
    """Lines with dots, waits on the vertical axis."""
    values: list[Json] = [
        {"name": one.name, "x": one.x, "wait": round(one.wait_s, 3), "text": duration(one.wait_s)}
        for one in points
    ]
    ink: Spec = _scale("name", names, [policy_ink(index) for index in range(len(names))])
    dash: Spec = _scale("name", names, [list(policy_dash(index)) or [1, 0] for index in range(len(names))])
    x = _across(title, [one.x for one in points])
    y: Spec = {"field": "wait", "type": "quantitative", **wait_scale_and_axis(_highest(points))}
    tooltip: list[Json] = [
        {"field": "name", "title": "tasks"},
        {"field": "x", "title": title},
        {"field": "text", "title": "wait"},
    ]
    return {
        "data": {"values": values},
        "layer": [
            {
                "mark": {"type": "line", "strokeWidth": 2},
                "encoding": {"x": x, "y": y, "color": ink, "strokeDash": dash},
            },
            {
                "mark": {"type": "point", "filled": True, "size": 60, "opacity": 1},
                "encoding": {"x": x, "y": y, "color": ink, "tooltip": tooltip},
            },
        ],
    }


def _scale(field: str, names: Sequence[str], values: Sequence[Json]) -> Spec:
    scale: Spec = {"domain": list(names), "range": list(values)}
    return {"field": field, "type": "nominal", "title": None, "scale": scale}


def _across(title: str, values: Sequence[float]) -> Spec:
    return {
        "field": "x",
        "type": "quantitative",
        "scale": {"domain": [0, max(values) * _ROOM or 1.0], "nice": False},
        "axis": {"title": title, "grid": False, "tickCount": 8, "format": ",~r"},
    }


def _highest(points: Sequence[_Point]) -> float:
    return max((one.wait_s for one in points), default=0.0) * _ROOM or 1.0


def cost_against_wait(plan: HistoryPlan) -> Chart | None:
    """What a month costs, and what the level's share of tasks waits for it; a panel for each level."""
    fleets = sizes(plan)
    panels = [
        panel for index in range(len(plan.levels)) if (panel := _cost_panel(plan, fleets, index)) is not None
    ]
    if len(fleets) < 2 or not panels:
        return None
    if len(panels) == 1:
        panels = [Panel("", panels[0].spec, panels[0].height_px)]
    return Chart(
        name="cost-against-wait",
        title="What a shorter wait costs",
        note="Each dot is a fleet that was replayed. The line across is the wait that is allowed. A fleet on "
        "which too many tasks never start has no dot; the table has it.",
        panels=tuple(panels),
        table=_cost_table(plan, fleets),
        key=(
            KeyEntry("the plan", "dot", policy_ink(0)),
            KeyEntry("smaller and larger", "ring", policy_ink(0)),
            KeyEntry("allowed wait", "line", "var(--warning)"),
        ),
        panel_width_px=420,
    )


def _cost_panel(plan: HistoryPlan, fleets: Sequence[FleetFound], index: int) -> Panel | None:
    level = plan.levels[index]
    values: list[Json] = []
    points: list[_Point] = []
    for fleet in fleets:
        wait_s = fleet.levels[index].wait_s
        if wait_s is None:
            continue
        which = "the plan" if fleet is plan.best else "smaller and larger"
        points.append(_Point(which, _month(fleet), wait_s))
        values.append(
            {
                "which": which,
                "x": round(_month(fleet), 2),
                "wait": round(wait_s, 3),
                "text": duration(wait_s),
                "nodes": nodes_words(fleet),
            }
        )
    if not points:
        return None
    allowed_s = level.within_us / 10**6
    x = _across(f"{plan.currency} per month for what is bought", [one.x for one in points])
    highest = max(_highest(points), allowed_s * _ROOM)
    y: Spec = {"field": "wait", "type": "quantitative", **wait_scale_and_axis(highest)}
    kinds = ("the plan", "smaller and larger")
    fill = _scale("which", kinds, [policy_ink(0), "var(--surface)"])
    tooltip: list[Json] = [
        {"field": "nodes", "title": "nodes"},
        {"field": "x", "title": f"{plan.currency} per month", "format": ",.2f"},
        {"field": "text", "title": "wait"},
    ]
    spec: Spec = {
        "data": {"values": values},
        "layer": [
            {
                "data": {"values": [{"wait": allowed_s}]},
                "mark": {"type": "rule", "color": "var(--warning)", "strokeDash": [6, 3], "strokeWidth": 1.5},
                "encoding": {"y": y},
            },
            {
                "data": {"values": [{"wait": allowed_s, "text": f"allowed: {duration(allowed_s)}"}]},
                "mark": {"type": "text", "align": "left", "dx": 6, "dy": -7, "color": "var(--warning)"},
                "encoding": {"x": {"value": 0}, "y": y, "text": {"field": "text"}},
            },
            {
                "mark": {
                    "type": "point",
                    "size": 90,
                    "opacity": 1,
                    "stroke": policy_ink(0),
                    "strokeWidth": 2,
                },
                "encoding": {"x": x, "y": y, "fill": fill, "tooltip": tooltip},
            },
        ],
    }
    return Panel(level.words, spec, LINE_CHART_HEIGHT_PX)


def _month(fleet: FleetFound) -> float:
    return fleet.cost_micro * MONTH_HOURS / MICRO_UNITS


def nodes_words(fleet: FleetFound) -> str:
    """What is bought, as a cell of a table has it."""
    return ", ".join(f"{one.count} x {type_words(one)}" for one in fleet.nodes) or "none"


def _cost_table(plan: HistoryPlan, fleets: Sequence[FleetFound]) -> Table:
    waits = [f"{level.percent}% of tasks {class_words(level.task_class)} wait" for level in plan.levels]
    return table(
        "Fleets that were replayed, by cost",
        ["Bought", "GPUs in all", f"{plan.currency} per month", *waits, "never start", "holds"],
        [
            [
                nodes_words(fleet),
                count(fleet.gpus),
                amount(_month(fleet), 2),
                *(_level_cell(one) for one in fleet.levels),
                count(fleet.never_started),
                "yes" if fleet.holds else "no",
            ]
            for fleet in fleets
        ],
    )


def _level_cell(found: LevelFound) -> str:
    return NEVER if found.wait_s is None else duration(found.wait_s)
