"""``gpufleet advise``: what would be cheaper; ``gpufleet.advise.sharing`` knows which sharing pays."""

from pathlib import Path

import click

from gpufleet.cli.parameters import InputFile, OneOf, Whole
from gpufleet.cli.prometheus_options import SECONDS, Question, prometheus_options, use_of_prometheus


@click.group(name="advise")
def command() -> None:
    """Say from measured use what would be cheaper, and what is right as it is."""


@command.command(name="sharing")
@click.argument("use", metavar="[USE]", type=InputFile("a table of use"), required=False)
@prometheus_options
@click.option(
    "-n", "--namespace", "namespaces", multiple=True, help="Judge pods of this one; may be repeated."
)
@click.option(
    "--kind",
    "kinds",
    metavar="WORKLOAD=KIND",
    multiple=True,
    help="What a workload is for, such as lab/*=notebook; may be repeated.",
)
@click.option(
    "--isolate",
    metavar="WORKLOAD",
    multiple=True,
    help="A workload of tenants that must not disturb one another; may be repeated.",
)
@click.option("--nodes", type=InputFile("a node list"), help="The fleet: a node list as the replay reads it.")
@click.option(
    "--step", "step_s", type=SECONDS, default="60s", show_default=True, help="The length of an instant."
)
@click.option(
    "--risk",
    "risk_max_pct",
    type=Whole(0, 100),
    default=5,
    help="In how many percent of the instants a GPU may be wanted beyond 100 %.  [default: 5]",
)
@click.option(
    "--price",
    "prices",
    metavar="MODEL=AMOUNT",
    multiple=True,
    help="Of one GPU for an hour; may be repeated.",
)
@click.option("-o", "--output", type=OneOf(["text", "json"]), default="text", help="[default: text]")
def sharing(
    use: Path | None,
    prometheus_url: str | None,
    window_s: int,
    until: str | None,
    token_file: Path | None,
    authority_file: Path | None,
    prometheus_cluster: str,
    namespaces: tuple[str, ...],
    kinds: tuple[str, ...],
    isolate: tuple[str, ...],
    nodes: Path | None,
    step_s: int,
    risk_max_pct: int,
    prices: tuple[str, ...],
    output: str,
) -> None:
    """Say for each workload whether it needs a whole GPU, a fraction, turns, MPS or a MIG instance.

    USE is a table (CSV or Parquet) of what pods used over time; --prometheus takes it from a server
    instead. The advice is placed on the fleet by the engine before a saving is named, and what to apply is
    printed.
    """
    if (use is None) == (prometheus_url is None):
        raise click.UsageError("name either a table of use or --prometheus URL")
    from gpufleet.advise.sharing.statements import Statement, read_statement
    from gpufleet.cli.price_option import read_price
    from gpufleet.cli.sharing_output import show
    from gpufleet.cli.sharing_question import Terms, advise_from_prometheus, advise_from_table

    statements = (*map(read_statement, kinds), *map(Statement, isolate))
    terms = Terms(nodes, step_s, risk_max_pct, dict(map(read_price, prices)), statements)
    if use is not None:
        advice = advise_from_table(use, terms, namespaces)
    else:
        question = Question(prometheus_url, token_file, authority_file, prometheus_cluster, until, window_s)
        advice = advise_from_prometheus(use_of_prometheus(question, step_s, namespaces), terms)
    show(advice, as_json=output == "json")
