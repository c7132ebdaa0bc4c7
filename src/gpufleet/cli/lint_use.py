"""The measured use that ``gpufleet lint`` is given: a table, or a Prometheus server."""

from pathlib import Path

import click

from gpufleet.cli.output import echo_line
from gpufleet.cli.price_option import read_price
from gpufleet.cli.prometheus_options import Question, use_of_prometheus
from gpufleet.lint.objects.measured_use import MeasuredUse
from gpufleet.model.model_errors import InputError
from gpufleet.usage.samples import Sample

STEP_S = 300
"""A server is asked for the highest use in each five minutes, which is fine enough to judge hours."""


def measured_use(table: Path | None, question: Question, prices: tuple[str, ...]) -> MeasuredUse | None:
    """What was measured, None if the command was given none; raises InputError or WorldError."""
    if table is not None and question.url is not None:
        raise click.UsageError("either --metrics or --prometheus, not both")
    if table is None and question.url is None:
        if prices:
            raise click.UsageError("--price needs measured use: --metrics or --prometheus")
        return None
    samples: tuple[Sample, ...]
    if table is not None:
        # What reads tables takes a while to import, and most runs of lint have none.
        from gpufleet.cli.use_input import read_use

        found, notes = read_use(table)
        samples = tuple(found)
    else:
        use = use_of_prometheus(question, STEP_S)
        samples, notes = use.samples, use.notes
    for note in notes:
        echo_line(note, err=True)
    if not samples:
        raise InputError("no sample", where=str(table), expected="at least one row of use")
    return MeasuredUse(samples, prices=dict(map(read_price, prices)))
