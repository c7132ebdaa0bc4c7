"""Charts of a replay in time: how many tasks wait, and how many GPUs are allocated.

They show the first seed of each policy; the table lists every run. ``page`` shows them.
"""

from collections.abc import Callable, Sequence
from math import ceil

from gpufleet.replay.report.chart import Chart, Panel
from gpufleet.replay.report.figures import count, duration, percent
from gpufleet.replay.report.policy_lines import (
    LINE_CHART_HEIGHT_PX,
    Axis,
    LinePoint,
    PolicyLine,
    line_spec,
    policy_key,
)
from gpufleet.replay.report.selection import first_timelines, policy_names, runs_of
from gpufleet.replay.report.table import Table, table
from gpufleet.replay.results import SweepResult, Timeline

# Traces last for weeks: the axis is in days.
_DAY_S = 86_400.0


def _series_chart(
    result: SweepResult,
    name: str,
    title: str,
    note: str,
    axis_title: str,
    series_of: Callable[[Timeline], Sequence[float]],
    end: float | None,
) -> Chart | None:
    timelines = {p: one for p, one in first_timelines(result).items() if one.time_s}
    if not timelines:
        return None
    names = policy_names(result)
    lines = [
        PolicyLine(
            policy,
            names.index(policy),
            tuple(
                LinePoint(time_s / _DAY_S, value)
                for time_s, value in zip(one.time_s, series_of(one), strict=True)
            ),
        )
        for policy, one in timelines.items()
    ]
    highest = max(point.y for line in lines for point in line.points)
    last_day = max(line.points[-1].x for line in lines)
    y_axis = Axis(axis_title, 0.0, end if end is not None else float(ceil(highest * 1.05) or 1))
    spec = line_spec(lines, names, Axis("time, days", 0.0, last_day or 1.0), y_axis)
    return Chart(
        name=name,
        title=title,
        note=note,
        panels=(Panel("", spec, LINE_CHART_HEIGHT_PX),),
        table=_timeline_table(result),
        key=policy_key(names),
        reading="Lines are the first seed of each policy; a point is the mean over its interval.",
    )


def _timeline_table(result: SweepResult) -> Table:
    return table(
        "The fleet over the whole time, by run",
        ["Policy", "Seed", "mean GPUs allocated", "longest queue shown", "time to finish"],
        [
            [
                run.policy,
                str(run.seed),
                percent(run.timeline.mean_gpu_alloc_pct),
                count(max(run.timeline.queue_length, default=None)),
                duration(run.timeline.makespan_s),
            ]
            for policy in policy_names(result)
            for run in runs_of(result, policy)
            if run.timeline is not None
        ],
        label_columns=2,
    )


def series_charts(result: SweepResult) -> list[Chart]:
    """Queue length and GPUs allocated over time; empty where no run has a timeline."""
    charts = [
        _series_chart(
            result,
            "queue-over-time",
            "Tasks waiting",
            "Tasks that had come and not yet started.",
            "tasks in the queue",
            lambda timeline: timeline.queue_length,
            None,
        ),
        _series_chart(
            result,
            "allocation-over-time",
            "GPUs allocated over time",
            "GPUs given to tasks, fractions counted as such.",
            "allocated, % of GPUs",
            lambda timeline: timeline.gpu_alloc_pct,
            100.0,
        ),
    ]
    return [chart for chart in charts if chart is not None]
