"""What ``gpufleet replay`` shows and writes: progress, the table, files.

Progress goes to standard error and only to a terminal; the table is the command's answer and goes
to standard output. Files appear complete or not at all.
"""

import os
from pathlib import Path

import msgspec
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from gpufleet.model.errors import InputError
from gpufleet.replay.atomic_write import atomic_write
from gpufleet.replay.errors import FileWriteError, shown_path
from gpufleet.replay.plan import Plan, titles
from gpufleet.replay.results import MeanDeviation, PolicySummary, SweepResult
from gpufleet.replay.run_request import RunRequest
from gpufleet.replay.sweep import Outcome, sweep

DASH = "-"
LEGEND = """\
scrap: idle GPU that typical tasks cannot use, % of all GPUs, at 100 %   refuses: load at the first refusal
8-GPU: tasks of 8 GPUs accepted until 100 %   time: of all decisions of a run   ±: over seeds"""


class ProgressListener:
    """Moves a bar as runs go on; with a single run, as its tasks arrive."""

    def __init__(self, progress: Progress, planned: Plan) -> None:
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

    def __init__(self, *, quiet: bool) -> None:
        self._quiet = quiet
        self._answers = Console(highlight=False)
        self._messages = Console(stderr=True, highlight=False)

    def check_targets(self, out: Path | None, json_path: str | None) -> None:
        """Make the folder for the results, and find out now whether they can be written."""
        if out is not None:
            try:
                out.mkdir(parents=True, exist_ok=True)
            except OSError as error:
                raise FileWriteError(
                    f"{shown_path(out)}: this folder cannot be made ({error.strerror}); name another"
                ) from error
        if json_path is not None and not Path(os.path.realpath(json_path)).parent.is_dir():
            raise InputError(
                "no such folder", field="--json", value=json_path, expected="a folder that exists"
            )

    def sweep(self, planned: Plan, jobs: int | None, ray_address: str | None) -> Outcome:
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

                return sweep_on_ray(planned.requests, ray_address, listener)
            cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
            return sweep(planned.requests, jobs or cores, listener)

    def write(self, result: SweepResult, out: Path | None, json_path: str | None) -> None:
        """Write what was asked for; an interrupted sweep writes what it has."""
        if json_path is not None:
            write_json(result, Path(json_path))
        if out is None:
            return
        write_json(result, out / "results.json")
        if result.runs:
            from gpufleet.replay.report import write_report

            if not self._quiet:
                self._messages.print("drawing the report ...", style="dim")
            files = write_report(result, out)
            if not self._quiet:
                self._messages.print(f"report: {files.page}", soft_wrap=True)

    def show(self, result: SweepResult) -> None:
        """The answer as a table."""
        if self._quiet or not result.runs:
            return
        what = f"{result.pods_file} on {result.nodes_file} ({result.nodes} nodes, {result.gpus} GPUs)"
        self._answers.print(what, soft_wrap=True)
        if result.mode == "timeline":
            self._answers.print(timeline_table(result))
        else:
            self._answers.print(saturate_table(result))
            self._answers.print(LEGEND)
        for row in result.skipped_rows[:10]:
            self._messages.print(f"left out: {row.file}, row {row.row}: {row.problem}", soft_wrap=True)
        if len(result.skipped_rows) > 10:
            self._messages.print(f"left out: {len(result.skipped_rows) - 10} more rows, see the JSON")

    def tell_interrupted(self, result: SweepResult) -> None:
        """What an interrupt left undone."""
        done = len(result.runs)
        self._messages.print(
            f"gpufleet: interrupted; {done} of {done + len(result.missing)} runs are done, missing: "
            + "; ".join(result.missing),
            soft_wrap=True,
            markup=False,
        )


def write_json(result: SweepResult, path: Path) -> None:
    """The whole result as JSON."""
    text = msgspec.json.format(msgspec.json.encode(result), indent=1).decode()
    with atomic_write(path) as file:
        file.write(text + "\n")


def figure(value: MeanDeviation | None, digits: int = 2) -> str:
    """A mean with its deviation, a dash where there is none."""
    if value is None:
        return DASH
    spread = f" ±{value.deviation:.{digits}f}" if value.deviation is not None else ""
    return f"{value.mean:.{digits}f}{spread}"


def saturate_table(result: SweepResult) -> Table:
    """Allocation at the loads that matter, and when each policy first refused."""
    table = Table(
        title=f"GPUs allocated, % of {result.gpus}, when so much was asked for", title_justify="left"
    )
    table.add_column("policy")
    loads = [load for load in ("80", "100", "130") if any(load in one.alloc_pct for one in result.policies)]
    for load in loads:
        table.add_column(f"at {load} %", justify="right")
    table.add_column("scrap", justify="right")
    table.add_column("refuses", justify="right")
    table.add_column("8-GPU", justify="right")
    table.add_column("time", justify="right")
    for one in result.policies:
        table.add_row(one.policy, *[figure(one.alloc_pct.get(load)) for load in loads], *rest_of_row(one))
    return table


def rest_of_row(one: PolicySummary) -> list[str]:
    """The columns after the allocations."""
    eights = one.accepted_pct_by_class.get("8", {}).get("100")
    return [
        figure(one.frag_pct_of_cluster.get("100")),
        figure(one.first_refusal_load, 1),
        DASH if eights is None else f"{eights.mean:.1f} %",
        f"{one.decision_seconds.mean:.2f} s",
    ]


def timeline_table(result: SweepResult) -> Table:
    """Waits and utilisation of every run."""
    table = Table(title="The trace in its own time", title_justify="left")
    for name in ("policy", "seed", "started", "never", "mean wait", "p99 wait", "longest", "GPUs in use"):
        table.add_column(name, justify="left" if name == "policy" else "right")
    for run in result.runs:
        if run.timeline is None:
            continue
        waits = run.timeline.waits_by_class["all"]
        times = [
            DASH if value is None else f"{value:.0f} s" for value in (waits.mean_s, waits.p99_s, waits.max_s)
        ]
        table.add_row(
            run.policy,
            str(run.seed),
            str(waits.started),
            str(waits.never_started),
            *times,
            f"{run.timeline.mean_gpu_alloc_pct:.1f} %",
        )
    return table
