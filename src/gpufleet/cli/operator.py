"""``gpufleet operator``: make GPU nodes what FleetPolicies say; ``gpufleet.operator`` does the work."""

import click

from gpufleet.cli.cluster_options import daemon_options, scheduler_option
from gpufleet.cli.log_options import log_options
from gpufleet.cli.prometheus_options import prometheus_server_options


@click.command(name="operator")
@daemon_options("Where its Lease is.")
@click.option("--identity", default="", help="Its name in the Lease.  [default: host and process]")
@click.option(
    "--listen",
    default="127.0.0.1:9403",
    show_default=True,
    help="Where /healthz and /readyz are served; port 0 takes a free one.",
)
@prometheus_server_options("Park idle work by what this Prometheus has measured (docs/parking.md).")
@click.option("--projects", is_flag=True, help="Keep the namespaces of GpuProjects (docs/projects.md).")
@scheduler_option
@log_options
def command(**options: object) -> int:
    """Make GPU nodes what FleetPolicies say, and keep them so.

    Writes labels, taints and names of configs, brings drivers of images node by node, and tells the status of
    each policy. Runtimes are not changed by this version: the status says which nodes need it. One process
    leads, others stand by. Runs until it is told to end.
    """
    from gpufleet.operator.process import OperatorOptions, run_process

    return run_process(OperatorOptions(**options))  # type: ignore[arg-type]
