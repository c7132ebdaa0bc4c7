"""``gpufleet cost``: what GPU nodes cost, who held them, and what of it computed nothing.

``ledger`` works it out; ``cost_input`` gathers what is known, ``cost_output`` lays the answer out.
"""

from pathlib import Path

import click

from gpufleet.cli.cluster_options import cluster_options
from gpufleet.cli.parameters import InputFile, OneOf, OutputFile

LOG = InputFile("a file that `gpufleet cost --save` wrote")
PRICES = InputFile("a table of prices, or a provider's list of them")
SAVE = OutputFile("a file to add to")


@click.command(name="cost")
@click.argument("logs", metavar="[LOG]...", nargs=-1, type=LOG)
@click.option(
    "--prices",
    multiple=True,
    type=PRICES,
    help="A table of prices, or what SkyPilot, gpuhunt or AWS publish; may be given several times.",
)
@click.option(
    "--by",
    default="queue",
    show_default=True,
    metavar="WHAT[,WHAT]...",
    help="queue, namespace, owner, gang, pod, node, model, device, bucket, reason, price, day, or"
    " label:KEY of pods.",
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
@cluster_options
def command(
    logs: tuple[Path, ...],
    prices: tuple[Path, ...],
    by: str,
    begin: str | None,
    until: str | None,
    output: str,
    save: Path | None,
    kubeconfig: Path | None,
    context: str,
) -> None:
    """Say what GPU nodes cost, who held them, and what of it computed nothing.

    Asks a cluster, or reads LOGs that --save wrote. Run with --save every minute it knows the past as well.
    Only reads the cluster. All groups add up to what the nodes cost by their prices, to a millionth.
    """
    from gpufleet.cli.cost_input import groupings, known, moment_of, priced, span_of
    from gpufleet.cli.cost_output import show
    from gpufleet.cli.focus_output import FOCUS, show_focus
    from gpufleet.kube.connection import ClusterChoice
    from gpufleet.ledger.costs import cost_of

    by_names = groupings(by)
    asked = moment_of(begin, "--from"), moment_of(until, "--until")
    book, notes = priced(prices)
    found = known(logs, save, ClusterChoice(kubeconfig, context))
    span = span_of(*asked, found.until_us)
    if output in FOCUS:
        show_focus(found, book, span, FOCUS[output], notes)
        return
    show(cost_of(found.intervals, book, span, by_names), output, (*notes, *found.notes))
