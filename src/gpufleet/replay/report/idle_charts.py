"""Charts of the GPUs that stay idle at the end: what keeps them idle, on which type of node.

Figures are means over the seeds of a policy. One chart compares the policies, the other has a panel
for each policy with its types of node, all on one scale so that panels compare. ``page`` shows them.
"""

from collections.abc import Mapping, Sequence

import msgspec

from gpufleet.replay.report.chart import Chart, Json, KeyEntry, Panel, Spec
from gpufleet.replay.report.figures import amount, count
from gpufleet.replay.report.palette import reason_ink
from gpufleet.replay.report.selection import policy_names, runs_of
from gpufleet.replay.report.table import table
from gpufleet.replay.results import NodeTypeIdle, SweepResult

REASON_MEANINGS = {
    "cpu": "CPU short",
    "memory": "memory short",
    "cpu and memory": "both short",
    "scraps": "too small",
    "usable": "still usable",
}
# A bar and its gap, as high as a line of text.
_BAR_STEP_PX = 22
# The longest name of a type of node is cut here, so that bars begin below one another.
_LABEL_LIMIT_PX = 178
# The total stands behind the longest bar.
_ROOM_FOR_TOTAL = 1.2
# A shorter part has no room for its number.
_SMALLEST_LABELLED_SHARE = 0.1
# The others are summed up in one bar.
_TYPES_SHOWN = 7


class _IdleOfType(msgspec.Struct, frozen=True):
    """Means over the seeds of one policy for one type of node."""

    node_type: str
    nodes: int
    gpus: int
    idle_gpus: float
    by_reason: dict[str, float]


_IdleByPolicy = dict[str, list[_IdleOfType]]


def _mean_idle(found: Sequence[NodeTypeIdle], runs: int) -> _IdleOfType:
    """A type that a run does not list has no idle GPU there, so the sum is over all runs."""
    reasons = dict.fromkeys(reason for one in found for reason in one.idle_by_reason)
    return _IdleOfType(
        node_type=found[0].node_type,
        nodes=found[0].nodes,
        gpus=found[0].gpus,
        idle_gpus=sum(one.idle_gpus for one in found) / runs,
        by_reason={
            reason: sum(one.idle_by_reason.get(reason, 0.0) for one in found) / runs for reason in reasons
        },
    )


def _idle_by_policy(result: SweepResult) -> _IdleByPolicy:
    idle: _IdleByPolicy = {}
    for policy in policy_names(result):
        runs = [run for run in runs_of(result, policy) if run.idle_by_node_type]
        by_type: dict[str, list[NodeTypeIdle]] = {}
        for run in runs:
            for one in run.idle_by_node_type:
                by_type.setdefault(one.node_type, []).append(one)
        if by_type:
            idle[policy] = [_mean_idle(found, len(runs)) for found in by_type.values()]
    return idle


def _reasons(idle: _IdleByPolicy) -> list[str]:
    """The known reasons in their order, then any other that the result names."""
    found = {reason for types in idle.values() for one in types for reason in one.by_reason}
    known = [reason for reason in REASON_MEANINGS if reason in found]
    return known + sorted(found - set(known))


def _meaning(reason: str) -> str:
    return REASON_MEANINGS.get(reason, reason)


def _parts(parts_by_row: Mapping[str, Mapping[str, float]], reasons: Sequence[str], end: float) -> list[Json]:
    """One value for each part of each bar; parts that are wide enough carry their figure."""
    values: list[Json] = []
    for row, parts in parts_by_row.items():
        at = 0.0
        for reason in reasons:
            size = parts.get(reason, 0.0)
            if size > 0:
                values.append(
                    {
                        "row": row,
                        "reason": _meaning(reason),
                        "from": round(at, 3),
                        "to": round(at + size, 3),
                        "middle": round(at + size / 2, 3),
                        "gpus": amount(size),
                        "label": count(size) if size >= end * _SMALLEST_LABELLED_SHARE else "",
                    }
                )
            at += size
    return values


def _totals(parts_by_row: Mapping[str, Mapping[str, float]]) -> list[Json]:
    return [
        {"row": row, "to": round(total, 3), "label": amount(total, 0 if total >= 100 else 1)}
        for row, total in ((row, sum(parts.values())) for row, parts in parts_by_row.items() if parts)
    ]


def _bars(parts_by_row: Mapping[str, Mapping[str, float]], reasons: Sequence[str], end: float) -> Spec:
    """Stacked bars: a row for each key, a part for each reason, all on a scale from 0 to ``end``."""
    y: Spec = {
        "field": "row",
        "type": "nominal",
        "sort": None,
        "title": None,
        "scale": {"domain": list(parts_by_row), "padding": 0.22},
        "axis": {
            "domain": False,
            "ticks": False,
            "labelPadding": 8,
            "labelColor": "var(--text)",
            "labelLimit": _LABEL_LIMIT_PX,
            "labelFontSize": 11,
        },
    }
    x: Spec = {
        "field": "from",
        "type": "quantitative",
        "scale": {"domain": [0, end], "nice": False},
        "axis": {"title": "idle GPUs", "tickCount": 5},
    }
    color: Spec = {
        "field": "reason",
        "type": "nominal",
        "title": None,
        "scale": {
            "domain": [_meaning(reason) for reason in reasons],
            "range": [reason_ink(index) for index in range(len(reasons))],
        },
    }
    tooltip: list[Json] = [
        {"field": "row", "title": " "},
        {"field": "reason", "title": "idle because"},
        {"field": "gpus", "title": "GPUs"},
    ]
    bar: Spec = {"y": y, "x": x, "x2": {"field": "to"}, "color": color, "tooltip": tooltip}
    middle: Spec = {**x, "field": "middle"}
    text: Spec = {"y": y, "x": middle, "text": {"field": "label"}}
    total: Spec = {"y": y, "x": {**x, "field": "to"}, "text": {"field": "label"}}
    parts: Spec = {"type": "text", "fontSize": 11, "color": "var(--on-ink)"}
    beside: Spec = {"type": "text", "fontSize": 11, "align": "left", "dx": 5, "color": "var(--text)"}
    return {
        "data": {"values": _parts(parts_by_row, reasons, end)},
        "layer": [
            {"mark": "bar", "encoding": bar},
            {"mark": parts, "encoding": text},
            {"data": {"values": _totals(parts_by_row)}, "mark": beside, "encoding": total},
        ],
    }


def _key(reasons: Sequence[str]) -> tuple[KeyEntry, ...]:
    return tuple(KeyEntry(_meaning(reason), "box", reason_ink(index)) for index, reason in enumerate(reasons))


def _by_policy_chart(idle: _IdleByPolicy, reasons: list[str]) -> Chart:
    totals = {
        policy: {reason: sum(one.by_reason.get(reason, 0.0) for one in types) for reason in reasons}
        for policy, types in idle.items()
    }
    end = max(sum(parts.values()) for parts in totals.values()) * _ROOM_FOR_TOTAL or 1.0
    return Chart(
        name="idle-by-reason",
        title="What keeps GPUs idle",
        note="Idle GPUs at the end of a run, mean over the seeds, split over the typical tasks by how "
        "often they come. Short: the task would fit if the node had more CPU or memory. Too small: the "
        "task asks for more of a GPU. Still usable: the task fits.",
        panels=(Panel("", _bars(totals, reasons, end), _BAR_STEP_PX * len(totals)),),
        table=table(
            "Idle GPUs at the end by reason, mean over the seeds",
            ["Policy", *(_meaning(reason) for reason in reasons), "all"],
            [
                [policy, *(amount(parts[r]) for r in reasons), amount(sum(parts.values()))]
                for policy, parts in totals.items()
            ],
        ),
        key=_key(reasons),
    )


def _types_by_idle(idle: _IdleByPolicy) -> list[str]:
    """The types of node, that with most idle GPUs over all policies first."""
    total: dict[str, float] = {}
    for types in idle.values():
        for one in types:
            total[one.node_type] = total.get(one.node_type, 0.0) + one.idle_gpus
    return sorted(total, key=lambda name: (-total[name], name))


def _rows_of_types(types: Sequence[_IdleOfType], order: Sequence[str]) -> dict[str, dict[str, float]]:
    """A row for each type, in ``order``; past the first few, the rest share the last row."""
    parts = {one.node_type: one.by_reason for one in types}
    shown = order if len(order) <= _TYPES_SHOWN + 1 else order[:_TYPES_SHOWN]
    rows = {name: parts.get(name, {}) for name in shown}
    others = order[len(shown) :]
    if others:
        together: dict[str, float] = {}
        for name in others:
            for reason, gpus in parts.get(name, {}).items():
                together[reason] = together.get(reason, 0.0) + gpus
        rows[f"{len(others)} other types"] = together
    return rows


def _by_node_type_chart(idle: _IdleByPolicy, reasons: list[str]) -> Chart:
    order = _types_by_idle(idle)
    rows = {policy: _rows_of_types(types, order) for policy, types in idle.items()}
    end = max(sum(parts.values()) for by_type in rows.values() for parts in by_type.values())
    end = end * _ROOM_FOR_TOTAL or 1.0
    return Chart(
        name="idle-by-node-type",
        title="Where GPUs stay idle",
        note="The same idle GPUs by type of node, one panel a policy, all on one scale.",
        panels=tuple(
            Panel(policy, _bars(by_type, reasons, end), _BAR_STEP_PX * len(by_type))
            for policy, by_type in rows.items()
        ),
        panel_width_px=420,
        table=table(
            "Idle GPUs at the end by type of node and reason, mean over the seeds",
            ["Policy", "Node type", "nodes", "GPUs", "idle", *(_meaning(r) for r in reasons)],
            [
                [policy, one.node_type, count(one.nodes), count(one.gpus), amount(one.idle_gpus)]
                + [amount(one.by_reason.get(reason)) for reason in reasons]
                for policy, types in idle.items()
                for one in sorted(types, key=lambda one: order.index(one.node_type))
            ],
            label_columns=2,
        ),
        key=_key(reasons),
    )


def idle_charts(result: SweepResult) -> list[Chart]:
    """What keeps GPUs idle and where; empty where no run says."""
    idle = _idle_by_policy(result)
    reasons = _reasons(idle)
    if not reasons:
        return []
    return [_by_policy_chart(idle, reasons), _by_node_type_chart(idle, reasons)]
