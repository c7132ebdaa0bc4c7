"""``gpufleet park``: give the GPUs of idle work back; ``operator.parking.questions`` does it."""

from pathlib import Path

import click

from gpufleet.cli.cluster_options import cluster_options


@click.command(name="park")
@click.argument("name")
@click.option("-n", "--namespace", default="", help="Its namespace.  [default: that of the context]")
@cluster_options
def command(name: str, namespace: str, kubeconfig: Path | None, context: str) -> None:
    """Park work now: its pods end, its volumes stay, and its GPUs are free.

    NAME is a Deployment, StatefulSet, Notebook or InferenceService, or KIND/NAME. A gang is parked whole.
    What is in memory, and in files outside of volumes, is lost. `gpufleet wake NAME` brings it back.
    """
    from gpufleet.cli.parked_output import show_park
    from gpufleet.kube.connection import ClusterChoice
    from gpufleet.operator.parking.questions import park

    show_park(park(ClusterChoice(kubeconfig, context, namespace), name))
