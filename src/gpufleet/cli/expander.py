"""``gpufleet expander``: choose groups of nodes for Cluster Autoscaler."""

import click

from gpufleet.cli.cluster_options import daemon_options, scheduler_option
from gpufleet.cli.log_options import log_options
from gpufleet.cli.parameters import InputFile

PEM = InputFile("a file in PEM")
TABLE = InputFile("a table of types of instances")


@click.command(name="expander")
@daemon_options("Where the scheduler's Lease is.")
@scheduler_option
@click.option(
    "--listen",
    default="127.0.0.1:9485",
    show_default=True,
    help="Where /metrics, /healthz and /readyz are served; port 0 takes a free one.",
)
@click.option(
    "--expander",
    metavar="ADDRESS:PORT",
    default="127.0.0.1:9486",
    show_default=True,
    help="Where Cluster Autoscaler asks, over gRPC with TLS; port 0 takes a free one.",
)
@click.option(
    "--certificate",
    type=PEM,
    metavar="FILE",
    required=True,
    help="The PEM certificate that is shown to the autoscaler; read again when it changes.",
)
@click.option("--key", type=PEM, metavar="FILE", required=True, help="The certificate's key as PEM.")
@click.option(
    "--catalogue",
    type=TABLE,
    help="Prices of types of instances, as CSV.  [default: a table of November 2026]",
)
@log_options
def command(**options: object) -> int:
    """Choose the group of nodes that Cluster Autoscaler enlarges, as its gRPC expander.

    The engine of the scheduler judges what each option of the autoscaler would start. The cheapest one that
    starts something is chosen; one that starts nothing, such as room for half a gang, is not bought. Runs
    until it is told to end. It only reads.
    """
    from gpufleet.expander.process import ExpanderOptions, run_process

    return run_process(ExpanderOptions(**options))  # type: ignore[arg-type]
