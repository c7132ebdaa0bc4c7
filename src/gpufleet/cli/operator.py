"""``gpufleet operator``: make GPU nodes what FleetPolicies say; ``gpufleet.operator`` does the work."""

from pathlib import Path

import click

from gpufleet.cli.cluster_options import daemon_options, scheduler_option
from gpufleet.cli.log_options import log_options
from gpufleet.cli.parameters import InputFile
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
@click.option(
    "--jupyterhub",
    "hub_url",
    metavar="URL",
    help="The API of a JupyterHub, asked when people were last at work in its servers (docs/parking.md).",
)
@click.option("--jupyterhub-namespace", "hub_namespace", metavar="NAME", help="Where its servers run.")
@click.option(
    "--jupyterhub-token-file",
    "hub_token_file",
    type=InputFile("a file with a token"),
    help="File with the token for it.",
)
@click.option(
    "--jupyterhub-ca-file",
    "hub_authority_file",
    type=InputFile("a file of PEM certificates"),
    help="Certificate authority of that hub, if not one that the system trusts.",
)
@click.option("--projects", is_flag=True, help="Keep the namespaces of GpuProjects (docs/projects.md).")
@click.option(
    "--services",
    is_flag=True,
    help="Say which replica with GPUs ends first, and why others have no place (docs/metrics-apis.md).",
)
@scheduler_option
@log_options
def command(
    *,
    hub_url: str | None,
    hub_namespace: str | None,
    hub_token_file: Path | None,
    hub_authority_file: Path | None,
    **options: object,
) -> int:
    """Make GPU nodes what FleetPolicies say, and keep them so.

    Writes labels, taints and names of configs, brings drivers of images node by node, and tells the status of
    each policy. Runtimes are not changed by this version: the status says which nodes need it. One process
    leads, others stand by. Runs until it is told to end.
    """
    from gpufleet.operator.parking.hub_sessions import hub_if_any
    from gpufleet.operator.process import OperatorOptions, run_process

    hub = hub_if_any(hub_url, hub_namespace, hub_token_file, hub_authority_file)
    return run_process(OperatorOptions(jupyterhub=hub, **options))  # type: ignore[arg-type]
