"""The tables of the report: standings, means at each load, every run, and how it was run.

Figures are those of the summary and of the runs, only written out. ``page`` shows them.
"""

from collections.abc import Callable, Sequence

from gpufleet.replay.report.class_charts import class_title
from gpufleet.replay.report.figures import (
    ABSENT,
    amount,
    count,
    duration,
    mean_deviation,
    percent,
)
from gpufleet.replay.report.saturate_headline import busy_gpus, headline_loads
from gpufleet.replay.report.selection import by_alloc
from gpufleet.replay.report.table import Table, table
from gpufleet.replay.results import (
    LOAD_POINTS_PCT,
    MeanDeviation,
    PolicySummary,
    RunResult,
    SweepResult,
)


def _behind(result: SweepResult, summary: PolicySummary, load: str) -> str:
    best = by_alloc(result, load)[0]
    mine, most = busy_gpus(result, summary, load), busy_gpus(result, best, load)
    if mine is None or most is None:
        return ABSENT
    return "most" if mine >= most else f"{count(most - mine)} fewer"


def ranking_table(result: SweepResult) -> Table | None:
    """The policies from most busy GPUs to least; None where there is no figure to rank by."""
    loads = headline_loads(result)
    if not loads:
        return None
    ranked = by_alloc(result, loads[0])
    compared = loads if len(ranked) > 1 else []
    rows = [
        [
            one.policy,
            *(count(busy_gpus(result, one, load)) for load in loads),
            *(_behind(result, one, load) for load in compared),
            "none" if one.first_refusal_load is None else mean_deviation(one.first_refusal_load, 1),
        ]
        for one in ranked
    ]
    columns = [
        *(f"busy GPUs, load {load}" for load in loads),
        *(f"against the most, load {load}" for load in compared),
    ]
    return table(
        f"Standings: busy GPUs of {count(result.gpus)}, mean over the seeds",
        ["Policy", *columns, "first refused at load"],
        rows,
    )


def _load_keys(
    result: SweepResult, values_of: Callable[[PolicySummary], dict[str, MeanDeviation]]
) -> list[str]:
    """The loads to list: the usual points, and any other that a summary has."""
    found = {load for summary in result.policies for load in values_of(summary)}
    usual = [str(load) for load in LOAD_POINTS_PCT if str(load) in found]
    return usual + sorted(found - set(usual), key=float)


def _by_load_table(
    result: SweepResult,
    caption: str,
    values_of: Callable[[PolicySummary], dict[str, MeanDeviation]],
) -> Table | None:
    loads = _load_keys(result, values_of)
    if not loads:
        return None
    return table(
        caption,
        ["Policy", *(f"load {load}" for load in loads)],
        [
            [one.policy, *(mean_deviation(values_of(one).get(load)) for load in loads)]
            for one in result.policies
        ],
    )


def summary_tables(result: SweepResult) -> list[Table]:
    """What the summary says of each policy."""
    alloc = _by_load_table(
        result,
        "GPUs allocated, percent, mean ± deviation over the seeds",
        lambda one: one.alloc_pct,
    )
    fragments = _by_load_table(
        result,
        "Fragments, percent of all GPUs, mean ± deviation over the seeds",
        lambda one: one.frag_pct_of_cluster,
    )
    speed = table(
        "Time to decide, seconds a run, mean ± deviation over the seeds",
        ["Policy", "seeds", "deciding, s"],
        [
            [one.policy, count(len(one.seeds)), mean_deviation(one.decision_seconds)]
            for one in result.policies
        ],
    )
    return [found for found in (alloc, fragments) if found is not None] + [speed]


def _run_row(run: RunResult, loads: Sequence[str]) -> list[str]:
    failures = ", ".join(f"{reason}: {count(n)}" for reason, n in run.failures_by_reason.items())
    return [
        run.policy,
        str(run.seed),
        *(count(number) for number in (run.arrived, run.placed, run.failed)),
        "none" if run.first_refusal_load is None else amount(run.first_refusal_load),
        *(percent(run.alloc_pct.get(load)) for load in loads),
        *(percent(run.frag_pct_of_cluster.get(load)) for load in loads),
        duration(run.decision_seconds),
        duration(run.wall_seconds),
        f"{count(run.peak_rss_mib)} MiB",
        failures or ABSENT,
    ]


def runs_table(result: SweepResult) -> Table:
    """Every run with its own figures."""
    loads = headline_loads(result)
    return table(
        "Every run",
        [
            *("Policy", "Seed", "arrived", "placed", "refused", "first refused at load"),
            *(f"allocated, load {load}" for load in loads),
            *(f"fragments, load {load}" for load in loads),
            *("deciding", "whole run", "peak memory", "refused because"),
        ],
        [_run_row(run, loads) for run in result.runs],
        label_columns=2,
    )


def run_classes_table(result: SweepResult) -> Table | None:
    """Accepted of arrived by class for every run; None where no run counted classes."""
    pairs = list(
        dict.fromkeys(
            (name, load)
            for run in result.runs
            for name, by_load in run.accepted_by_class.items()
            for load in by_load
        )
    )
    if not pairs:
        return None
    rows = []
    for run in result.runs:
        counts = [run.accepted_by_class.get(name, {}).get(load) for name, load in pairs]
        cells = [ABSENT if c is None else f"{count(c.accepted)} of {count(c.arrived)}" for c in counts]
        rows.append([run.policy, str(run.seed), *cells])
    columns = [f"{class_title(name)}, load {load}" for name, load in pairs]
    return table("Accepted of arrived tasks, by run", ["Policy", "Seed", *columns], rows, label_columns=2)


def how_it_was_run(result: SweepResult) -> list[tuple[str, str]]:
    """What is needed to run it again."""
    return [
        ("Command", result.command),
        ("gpufleet", result.gpufleet_version),
        ("Mode", result.mode),
        ("Nodes", result.nodes_file),
        ("Tasks", result.pods_file),
        ("Load", f"{result.load * 100:g}% of the GPUs"),
        ("Seeds", ", ".join(str(seed) for seed in sorted({run.seed for run in result.runs}))),
        ("Result format", result.schema),
    ]


def skipped_rows_table(result: SweepResult) -> Table:
    """The rows of the input files that were left out."""
    return table(
        "Rows that were left out",
        ["File", "Row", "Problem"],
        [[skipped.file, str(skipped.row), skipped.problem] for skipped in result.skipped_rows],
        label_columns=1,
    )
