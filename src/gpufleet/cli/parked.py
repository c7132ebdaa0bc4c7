"""``gpufleet parked``: what is parked, warned or waking; ``operator.parking.questions`` finds it."""

from pathlib import Path

import click

from gpufleet.cli.cluster_options import cluster_options
from gpufleet.cli.parameters import OneOf


@click.command(name="parked")
@click.option("-n", "--namespace", default="", help="Of this namespace.  [default: that of the context]")
@click.option("-A", "--all-namespaces", "everywhere", is_flag=True, help="Of all namespaces.")
@click.option("-o", "--output", type=OneOf(["text", "json"]), default="text", help="[default: text]")
@cluster_options
def command(namespace: str, everywhere: bool, output: str, kubeconfig: Path | None, context: str) -> None:
    """Show work that is parked, that will be, or that is on its way back."""
    from gpufleet.cli.parked_output import show_parked
    from gpufleet.kube.connection import ClusterChoice
    from gpufleet.operator.parking.questions import parked_work

    if namespace and everywhere:
        raise click.UsageError("either one namespace or all, not both")
    cluster = ClusterChoice(kubeconfig, context, namespace)
    show_parked(parked_work(cluster, everywhere=everywhere), output, everywhere=everywhere)
