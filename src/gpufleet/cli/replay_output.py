"""What ``gpufleet replay`` shows and writes: progress, the table, files.

Progress goes to standard error and only to a terminal; the table is the command's answer and goes
to standard output, unless that is where the JSON is wanted. Files appear complete or not at all.
"""

import os
import sys
from collections.abc import Iterable
from pathlib import Path

from rich import box
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from gpufleet.cli.output import terminal_of
from gpufleet.files.atomic_write import check_target, make_folder, write_whole
from gpufleet.model import visible
from gpufleet.model.phrases import counted
from gpufleet.replay.plan import SweepPlan, titles
from gpufleet.replay.results import MeanDeviation, SweepResult
from gpufleet.replay.run_request import RunRequest
from gpufleet.replay.sweep import RunOutcome, sweep

DASH = "-"
STDOUT = "-"
"""The name of the JSON file that means standard output."""
RESULTS = "results.json"
SHOWN_LOADS = ("100", "130")
# Enough to see what is wrong with a table; JSON has all.
SKIPPED_ROWS_SHOWN = 10
# Short words and no lines between columns: with deviations, a table has to fit 80 columns.
LEGEND = """\
at ...   GPUs allocated, % of the cluster, when so much had been asked for
scrap    idle GPU that typical tasks cannot use, % of the cluster, at 100 %
refused  what had been asked for when the first task was refused, %
8-GPU    tasks of 8 whole GPUs accepted until 100 %, %
time     seconds for all decisions of a run"""
SEEDS_LEGEND = "±        standard deviation over {} seeds"
TIMELINE_LEGEND = """\
never    tasks that found no room until they were withdrawn, or the trace ended
wait     seconds from creation to start: mean, 99th percentile, longest
in use   allocated GPUs, % of the cluster, mean over the whole time"""


class ProgressListener:
    """Moves a bar as runs go on; with a single run, as its tasks arrive."""

    def __init__(self, progress: Progress, planned: SweepPlan) -> None:
        self._single = len(planned.requests) == 1
        self._progress = progress
        total = len(planned.requests)
        if self._single:
            total = max(1, len(planned.trace.tasks))
        self._bar = progress.add_task(titles(planned.requests), total=total)

    def arrived(self, request: RunRequest, tasks: int) -> None:  # noqa: ARG002
        """Tasks of a run have arrived."""
        if self._single:
            total = self._progress.tasks[0].total or 0
            self._progress.update(self._bar, completed=tasks, total=max(total, tasks))

    def finished(self, request: RunRequest) -> None:  # noqa: ARG002
        """A run is done."""
        if self._single:
            self._progress.update(self._bar, completed=self._progress.tasks[0].total)
        else:
            self._progress.advance(self._bar)


class Output:
    """Everything that leaves the command."""

    def __init__(self, *, quiet: bool, out: Path | None, json_path: str | None) -> None:
        self._quiet = quiet
        self._out = out
        self._json_path = json_path
        answers = sys.stderr if json_path == STDOUT else sys.stdout
        self._answers = Console(highlight=False, file=terminal_of(answers))
        self._messages = Console(highlight=False, file=terminal_of(sys.stderr))

    def check_targets(self, *paths: Path | None) -> None:
        """Make the folder for the results, and find out now whether they can be written."""
        if self._out is not None:
            make_folder(self._out)
            check_target(self._out / RESULTS)
        if self._json_path is not None and self._json_path != STDOUT:
            check_target(self._json_path)
        for path in filter(None, paths):
            check_target(path)

    def tell_notes(self, planned: SweepPlan) -> None:
        """What was found in the input that does no harm."""
        self.tell(dict.fromkeys(planned.trace.notes + planned.replayed.notes))

    def tell(self, notes: Iterable[str]) -> None:
        """Notes, a line each."""
        for note in notes:
            self._messages.print(visible.visible_line(f"note: {note}"), soft_wrap=True, markup=False)

    def sweep(self, planned: SweepPlan, jobs: int | None, ray_address: str | None) -> RunOutcome:
        """Do the runs, with a progress bar on a terminal."""
        columns = (
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
        )
        hidden = self._quiet or not self._messages.is_terminal
        with Progress(*columns, console=self._messages, disable=hidden, transient=True) as progress:
            listener = ProgressListener(progress, planned)
            if ray_address is not None:
                from gpufleet.replay.ray_sweep import sweep_on_ray

                return sweep_on_ray(planned.requests, ray_address, jobs, listener)
            cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
            return sweep(planned.requests, jobs or cores, listener)

    def write(self, result: SweepResult) -> None:
        """Write what was asked for; a sweep that ended early writes what it has."""
        text = json_text(result)
        if self._out is not None:
            write_whole(self._out / RESULTS, text.encode())
        if self._json_path == STDOUT:
            sys.stdout.buffer.write(text.encode())
            sys.stdout.flush()
        elif self._json_path is not None:
            write_whole(self._json_path, text.encode())
        if self._out is not None:
            self._write_report(result, self._out)

    def _write_report(self, result: SweepResult, out: Path) -> None:
        if result.runs:
            from gpufleet.replay.report import write_report

            if not self._quiet:
                self._messages.print("drawing the report ...", style="dim")
            files = write_report(result, out)
            if not self._quiet:
                self._messages.print(
                    visible.visible_line(f"report: {files.page}"), soft_wrap=True, markup=False
                )

    def show(self, result: SweepResult) -> None:
        """The answer as a table."""
        if self._quiet or not result.runs:
            return
        fleet = f"{counted(result.nodes, 'node')}, {counted(result.gpus, 'GPU')}"
        what = f"{result.pods_file} on {result.nodes_file}: {fleet}"
        self._answers.print(visible.visible_line(what), soft_wrap=True, markup=False)
        if result.mode == "timeline":
            self._answers.print(timeline_table(result))
            self._answers.print(TIMELINE_LEGEND, style="dim")
            self._show_costs(result)
        else:
            seeds = max(len(one.seeds) for one in result.policies)
            self._answers.print(saturate_table(result))
            self._answers.print(LEGEND, style="dim")
            if seeds > 1:
                self._answers.print(SEEDS_LEGEND.format(seeds), style="dim")

    def _show_costs(self, result: SweepResult) -> None:
        """What each run cost, where prices were given."""
        if not any(run.timeline is not None and run.timeline.cost is not None for run in result.runs):
            return
        from gpufleet.cli.replay_prices import LEGEND as COST_LEGEND
        from gpufleet.cli.replay_prices import cost_table, unpriced_note

        self._answers.print(cost_table(result, plain_table("policy")))
        self._answers.print(COST_LEGEND, style="dim")
        self.tell(unpriced_note(result))

    def tell_skipped(self, result: SweepResult) -> None:
        """Rows of the input that were left out."""
        rows = result.skipped_rows
        for row in rows[:SKIPPED_ROWS_SHOWN]:
            self._messages.print(
                visible.visible_line(f"left out: {row.file}, row {row.row}: {row.problem}"),
                soft_wrap=True,
                markup=False,
            )
        if len(rows) > SKIPPED_ROWS_SHOWN:
            self._messages.print(f"left out: {len(rows) - SKIPPED_ROWS_SHOWN} more rows, see the JSON")

    def tell_missing(self, outcome: RunOutcome) -> None:
        """What an interrupt or a failure left undone."""
        done, missing = len(outcome.results), outcome.missing()
        why = "interrupted; " if outcome.interrupted else ""
        sentence = f"gpufleet: {why}{done} of {done + len(missing)} runs are done, missing: "
        self._messages.print(
            visible.visible_line(sentence + "; ".join(missing)), soft_wrap=True, markup=False
        )


def json_text(result: SweepResult) -> str:
    """The whole result as JSON."""
    return visible.json_text(result, indent=1) + "\n"


def figure(value: MeanDeviation | None, digits: int = 2) -> str:
    """A mean with its deviation, a dash where there is none."""
    if value is None:
        return DASH
    spread = f" ±{value.deviation:.{digits}f}" if value.deviation is not None else ""
    return f"{value.mean:.{digits}f}{spread}"


def plain_table(first: str, *others: str) -> Table:
    """An empty table: a column of names, then figures."""
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 1, 0, 0))
    table.add_column(first, no_wrap=True)
    for name in others:
        table.add_column(name, justify="right", no_wrap=True)
    return table


def saturate_table(result: SweepResult) -> Table:
    """Allocation at the loads that matter, and when each policy first refused."""
    loads = [load for load in SHOWN_LOADS if any(load in one.alloc_pct for one in result.policies)]
    table = plain_table("policy", *[f"at {load} %" for load in loads], "scrap", "refused", "8-GPU", "time")
    for one in result.policies:
        eights = one.accepted_pct_by_class.get("8", {}).get("100")
        table.add_row(
            one.policy,
            *[figure(one.alloc_pct.get(load)) for load in loads],
            figure(one.frag_pct_of_cluster.get("100")),
            figure(one.first_refusal_load, 1),
            DASH if eights is None else f"{eights.mean:.1f}",
            f"{one.decision_seconds.mean:.2f}",
        )
    return table


def timeline_table(result: SweepResult) -> Table:
    """Waits and utilisation of every run."""
    evicts = any(run.timeline is not None and run.timeline.evictions for run in result.runs)
    more = ["evicted"] if evicts else []
    table = plain_table("policy", "seed", "started", "never", *more, "mean wait", "p99", "longest", "in use")
    for run in result.runs:
        if run.timeline is None:
            continue
        waits = run.timeline.waits_by_class["all"]
        times = [
            DASH if value is None else f"{value:.0f}" for value in (waits.mean_s, waits.p99_s, waits.max_s)
        ]
        table.add_row(
            run.policy,
            str(run.seed),
            str(waits.started),
            str(waits.never_started),
            *([str(run.timeline.evictions)] if evicts else []),
            *times,
            f"{run.timeline.mean_gpu_alloc_pct:.1f}",
        )
    return table
