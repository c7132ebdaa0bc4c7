"""``gpufleet cost``: what GPU nodes cost, who held them, and what of it computed nothing.

``ledger`` works it out; ``cost_input`` gathers what is known, ``cost_output`` lays the answer out.
"""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from gpufleet.cli.cluster_options import cluster_options
from gpufleet.cli.parameters import InputFile, LogParameter, LogSource, OneOf, OutputFile
from gpufleet.cli.price_options import PRICES, bill_option
from gpufleet.cli.prometheus_options import prometheus_server_options

if TYPE_CHECKING:
    from gpufleet.usage.prometheus.access import Access

LOG = LogParameter("a file that `gpufleet cost --save` or `--charges` wrote")
SAVE = OutputFile("a file to add to")
BUDGETS = InputFile("a table of budgets")
CHARGES = OutputFile("a file for charges")


@click.command(name="cost")
@click.argument("logs", metavar="[LOG]...", nargs=-1, type=LOG)
@click.option(
    "--prices",
    multiple=True,
    type=PRICES,
    help="A table of prices, or what SkyPilot, gpuhunt or AWS publish; may be given several times.",
)
@bill_option
@click.option(
    "--by",
    metavar="WHAT[,WHAT]...",
    help="queue, namespace, owner, gang, job, team, pod, node, model, device, bucket, reason, price, state,"
    " evidence, day, or label:KEY of pods.  [default: queue]",
)
@click.option(
    "--from", "begin", metavar="TIME", help="Such as 2026-11-22, in UTC.  [default: a day before the end]"
)
@click.option(
    "--until",
    metavar="TIME",
    help="Such as 2026-11-22T18:00:00Z.  [default: the last moment that is known]",
)
@click.option(
    "-o",
    "--output",
    type=OneOf(["text", "csv", "json", "focus", "focus-1.2"]),
    default="text",
    show_default=True,
    help="The form of the answer; focus is FOCUS 1.4 as CSV, of rows that --by does not put together.",
)
@click.option("--save", type=SAVE, help="Add all that was read to this file, and answer from it.")
@click.option(
    "--charges",
    type=CHARGES,
    help="Write every row of the time to this file, in Parquet; as a LOG it answers at once.",
)
@click.option(
    "--idle",
    is_flag=True,
    help="Rank jobs by what they held and did not use, with the command that says what would help.",
)
@click.option(
    "--budgets",
    type=BUDGETS,
    help="A table of budgets: what their periods cost so far, and what they will have cost.",
)
@click.option(
    "--unusual",
    is_flag=True,
    help="Show days that cost much more than such days usually do.",
)
@prometheus_server_options(
    "Take use and energy from this Prometheus, which scrapes gpufleet's agents or dcgm-exporter, or tokens."
)
@click.option(
    "--grid-intensity",
    metavar="G",
    help="Grams of CO2 a kWh of your grid; shows carbon beside energy.",
)
@click.option(
    "--per-million-tokens",
    is_flag=True,
    help="Show what a million tokens of vLLM, SGLang and TGI cost, by the model that they serve.",
)
@click.option(
    "--past",
    is_flag=True,
    help="Take what happened from this Prometheus too, as kube-state-metrics told it: estimates.",
)
@cluster_options
def command(
    logs: tuple[LogSource, ...],
    prices: tuple[Path, ...],
    bills: tuple[Path, ...],
    by: str | None,
    begin: str | None,
    until: str | None,
    output: str,
    save: Path | None,
    charges: Path | None,
    idle: bool,
    budgets: Path | None,
    unusual: bool,
    prometheus: "Access | None",
    grid_intensity: str | None,
    per_million_tokens: bool,
    past: bool,
    kubeconfig: Path | None,
    context: str,
) -> int:
    """Say what GPU nodes cost, who held them, and what of it computed nothing.

    Asks a cluster, or reads LOGs that --save or `gpufleet ledger` wrote: files, or the URL of a database.
    Run with --save every minute it knows the past as well. All groups add up to what the nodes cost.
    """
    from gpufleet.cli.cost_bills import billed, hours_within
    from gpufleet.cli.cost_charges import charges_among, check_alone, sums_of, write_rows
    from gpufleet.cli.cost_input import known, moment_of, priced
    from gpufleet.cli.cost_measured import Measured
    from gpufleet.cli.cost_question import question_of
    from gpufleet.cli.focus_output import FOCUS, show_focus, show_focus_of_charges
    from gpufleet.kube.connection import ClusterChoice
    from gpufleet.ledger.costs import cost_of

    asked = moment_of(begin, "--from"), moment_of(until, "--until")
    question = question_of(by, output, idle=idle, budgets=budgets, unusual=unusual, begin=begin)
    written = charges_among(logs)
    measured = Measured(prometheus, grid_intensity, by, tokens=per_million_tokens)
    others = {"--idle": idle, "--budgets": budgets, "--unusual": unusual, "--output": output in FOCUS}
    measured.check({**others, "LOG": bool(written)})
    if written:
        named = {"--prices": prices, "--bill": bills, "--save": save, "--charges": charges, "--past": past}
        if output in FOCUS and not (idle or unusual or budgets):
            check_alone(written, logs, named)
            show_focus_of_charges(written, question, asked, FOCUS[output])
            return 0
        cost = sums_of(written, asked, question, output, logs=logs, named=named)
        question.show(cost, output, ())
        return 0
    book, notes = priced(prices)
    # What days usually cost is told by weeks before, so all months of a database are needed.
    needed = (0, asked[1]) if unusual or budgets is not None else asked
    before = measured.past(asked) if past else None
    found = known(logs, save, ClusterChoice(kubeconfig, context), needed, before)
    span = question.span(asked, found.until_us)
    if bills:
        span = hours_within(span)
    division, told = billed(bills, found.intervals, book, span)
    found = measured.with_use(found, span, save)
    if charges is not None:
        write_rows(found, book, span, division, charges)
    if output in FOCUS and not idle:
        show_focus(found, book, span, FOCUS[output], division, (*notes, *told))
        return 0
    notes = (*notes, *told, *found.notes)
    if measured.is_asked and not idle:
        measured.show(found, book, span, division, output, notes)
        return 0
    question.show(cost_of(found.intervals, book, span, question.by, division), output, notes)
    return 0
