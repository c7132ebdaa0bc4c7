"""Lays out who holds GPUs and does not use them, with the command that says how each would need fewer."""

import csv
import io
from collections.abc import Iterable, Iterator

from gpufleet.cli.cost_output import NO_VALUE, UNKNOWN, exact, exact_hours, rounded_texts, stamp
from gpufleet.cli.output import echo_data, echo_json, echo_line
from gpufleet.cli.queues_table import Column, laid_out
from gpufleet.ledger.costs import Cost
from gpufleet.ledger.idle_board import IdleJob, idle_jobs
from gpufleet.ledger.node_hour import HOUR_US
from gpufleet.model.device import WHOLE_GPU_MILLI
from gpufleet.model.model_errors import InputError
from gpufleet.model.money import MICRO_UNITS

GPU_HOUR = HOUR_US * WHOLE_GPU_MILLI
"""The quantity of a GPU for an hour."""

FORMS = ("text", "csv", "json")
"""Forms of the answer; FOCUS has no column of use."""

FIGURES = ("namespace", "job", "model", "gpu_hours", "measured", "idle", "idle_cost", "command")
"""Columns of a file."""


def show_idle(cost: Cost, output: str, notes: Iterable[str]) -> None:
    """Print the answer. Raises InputError for a form that it has not."""
    if output not in FORMS:
        expected = ", ".join(FORMS)
        raise InputError("no form of what is idle", field="--output", value=output, expected=expected)
    jobs = idle_jobs(cost.groups)
    if output == "json":
        echo_json(
            {
                "from": stamp(cost.span.from_us),
                "until": stamp(cost.span.until_us or 0),
                "currency": cost.currency or None,
                "jobs": [_figures(one) for one in jobs],
                "notes": list(notes),
            }
        )
        return
    if output == "csv":
        file = io.StringIO()
        writer = csv.DictWriter(file, [*FIGURES, "currency"], lineterminator="\n")
        writer.writeheader()
        writer.writerows({**_figures(one), "currency": cost.currency} for one in jobs)
        echo_data(file.getvalue())
    else:
        for line in _lines(jobs, cost):
            echo_line(line)
    for note in notes:
        echo_line(f"note: {note}", err=True)


def _figures(job: IdleJob) -> dict[str, str | None]:
    return {
        "namespace": job.namespace,
        "job": job.job,
        "model": job.model,
        "gpu_hours": exact_hours(job.held),
        "measured": exact_hours(job.measured),
        "idle": exact_hours(job.idle),
        "idle_cost": exact(job.idle_micro),
        "command": job.command,
    }


def _lines(jobs: tuple[IdleJob, ...], cost: Cost) -> Iterator[str]:
    if not jobs:
        yield "No job is known to have held a GPU that it did not use."
        return
    columns = [Column("JOB"), Column("MODEL"), Column("GPU-HOURS", right=True), Column("IDLE", right=True)]
    hours, idle = (
        rounded_texts(list(figures), GPU_HOUR)
        for figures in ((one.held for one in jobs), (one.idle for one in jobs))
    )
    cells = [hours, idle, [f"{_percent(one)} %" for one in jobs]]
    columns.append(Column("OF MEASURED", right=True))
    if any(one.idle_micro is not None for one in jobs):
        amounts = rounded_texts([one.idle_micro or 0 for one in jobs], MICRO_UNITS)
        columns.append(Column(f"COST {cost.currency}", right=True))
        cells.append(
            [UNKNOWN if one.idle_micro is None else text for one, text in zip(jobs, amounts, strict=True)]
        )
    columns.append(Column("WHAT WOULD HELP"))
    cells.append([one.command for one in jobs])
    names = [[one.job or f"{one.namespace}/{NO_VALUE}", one.model or NO_VALUE] for one in jobs]
    rows = zip(names, zip(*cells, strict=True), strict=True)
    for line in laid_out(columns, (([*name, *figures], "") for name, figures in rows), None):
        yield line.text


def _percent(job: IdleJob) -> int:
    """The idle part of the measured time, rounded down: all of it is only what never computed."""
    return 100 * job.idle // job.measured
