"""The chart of tasks accepted by class: CPU-only, shares of a GPU, and 1, 2, 4 or 8 whole GPUs.

A policy can look good by refusing what is hard to place, so acceptance stands beside allocation.
Each class has a panel; a policy's dot at load 100 and ring at load 130 are joined by a line.
``page`` shows it.
"""

from collections.abc import Sequence
from math import floor

from gpufleet.replay.report.chart import Chart, Panel
from gpufleet.replay.report.figures import mean_deviation
from gpufleet.replay.report.policy_dots import Dot, DotMark, dots_key, dots_panel
from gpufleet.replay.report.selection import policy_names
from gpufleet.replay.report.table import Table, table
from gpufleet.replay.results import (
    CLASS_LOAD_POINTS_PCT,
    TASK_CLASSES,
    MeanDeviation,
    PolicySummary,
    SweepResult,
)

CLASS_TITLES = {"all": "all tasks", "cpu": "CPU only", "share": "share of a GPU", "1": "1 GPU"}
_FORMS = dict(zip(map(str, CLASS_LOAD_POINTS_PCT), ("dot", "ring"), strict=True))


def class_title(task_class: str) -> str:
    """A class of tasks in words: ``8`` is ``8 GPUs``."""
    return CLASS_TITLES.get(task_class, f"{task_class} GPUs")


def _accepted(summary: PolicySummary, task_class: str, load: str) -> MeanDeviation | None:
    return summary.accepted_pct_by_class.get(task_class, {}).get(load)


def _classes(result: SweepResult) -> list[str]:
    """The known classes in their order, then any other, of those with a figure."""
    found = {name for one in result.policies for name, by in one.accepted_pct_by_class.items() if by}
    known = [name for name in TASK_CLASSES if name in found]
    return known + sorted(found - set(known))


def _loads(result: SweepResult, classes: Sequence[str]) -> list[str]:
    return [
        load
        for load in _FORMS
        if any(_accepted(one, name, load) for one in result.policies for name in classes)
    ]


def _mark(load: str) -> DotMark:
    return DotMark(f"at load {load}", _FORMS[load])


def _panel(result: SweepResult, task_class: str, loads: Sequence[str], low: float) -> Panel:
    dots = [
        Dot(summary.policy, _mark(load).label, found.mean, mean_deviation(found) + "%")
        for summary in result.policies
        for load in loads
        if (found := _accepted(summary, task_class, load)) is not None
    ]
    return dots_panel(
        class_title(task_class),
        dots,
        policy_names(result),
        [_mark(load) for load in loads],
        {
            "scale": {"domain": [low, 100], "nice": False, "zero": False},
            "axis": {"title": "accepted, % of arrived", "tickCount": 5},
        },
    )


def _table(result: SweepResult, classes: Sequence[str], loads: Sequence[str]) -> Table:
    pairs = [(name, load) for name in classes for load in loads]
    return table(
        "Accepted tasks by class, percent of those that arrived, mean ± deviation over the seeds",
        ["Policy", *(f"{class_title(name)}, load {load}" for name, load in pairs)],
        [
            [summary.policy, *(mean_deviation(_accepted(summary, *pair)) for pair in pairs)]
            for summary in result.policies
        ],
    )


def _scale_low(result: SweepResult, classes: Sequence[str], loads: Sequence[str]) -> float:
    """Where the axis starts: the full ten below the lowest mean, so that differences show."""
    found = [_accepted(one, name, at) for one in result.policies for name in classes for at in loads]
    lowest = min(one.mean for one in found if one is not None)
    return float(max(0, floor((lowest - 1) / 10) * 10))


def class_charts(result: SweepResult) -> list[Chart]:
    """Acceptance by class of task; empty where no policy has a figure."""
    classes = _classes(result)
    loads = _loads(result, classes)
    if not loads:
        return []
    low = _scale_low(result, classes, loads)
    return [
        Chart(
            name="acceptance-by-class",
            title="Accepted, by class of task",
            note="Percent of the tasks that had arrived by that load, mean over the seeds.",
            panels=tuple(_panel(result, name, loads, low) for name in classes),
            table=_table(result, classes, loads),
            key=dots_key([_mark(load) for load in loads]),
        )
    ]
