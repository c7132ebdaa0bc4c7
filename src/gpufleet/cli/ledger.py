"""``gpufleet ledger``: keep what happens to every GPU; ``gpufleet.ledger`` does the work."""

import click

from gpufleet.cli.cluster_options import daemon_options
from gpufleet.cli.log_options import log_options
from gpufleet.cli.parameters import InputFile, OutputFolder
from gpufleet.cli.price_options import PRICES
from gpufleet.cli.prometheus_options import prometheus_server_options


@click.command(name="ledger")
@click.option("--folder", type=OutputFolder("a folder"), help="Where the months are kept, a file each.")
@click.option(
    "--database",
    metavar="URL",
    help="The PostgreSQL database where they are kept instead; PGPASSWORD or PGPASSFILE has the password.",
)
@click.option(
    "--prices", multiple=True, type=PRICES, help="As of `gpufleet cost`, for --budgets; read anew each time."
)
@click.option(
    "--budgets",
    type=InputFile("a table of budgets"),
    help="A table of budgets; those with `holds` hold new work of queues once they are spent.",
)
@prometheus_server_options(
    "Measure use by this Prometheus, which scrapes gpufleet's agents or dcgm-exporter, hour by hour."
)
@daemon_options("Where its Lease is.")
@click.option("--identity", default="", help="Its name in the Lease.  [default: host and process]")
@click.option(
    "--listen",
    default="127.0.0.1:9405",
    show_default=True,
    help="Where /metrics, /healthz and /readyz are served; port 0 takes a free one.",
)
@log_options
def command(**options: object) -> int:
    """Keep what happens to every GPU in a folder or a database, for `gpufleet cost` to answer from.

    Follows pods, nodes, NodeDevices and FleetQueues and only reads them; with --budgets it also writes into
    the status of a FleetQueue that its budget is spent. A day after its end a month becomes
    Parquet with a checksum. One process leads, others stand by. Runs until it is told to end.
    """
    from gpufleet.ledger.process import LedgerOptions, run_process

    return run_process(LedgerOptions(**options))  # type: ignore[arg-type]
