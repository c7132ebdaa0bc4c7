"""``gpufleet mig``: how cards are cut into MIG instances; ``gpufleet.repartition`` finds it out."""

from pathlib import Path

import click

from gpufleet.cli.cluster_options import cluster_options
from gpufleet.cli.parameters import SNAPSHOT, OneOf


@click.group(name="mig")
def command() -> None:
    """Say how cards would be cut into MIG instances."""


@command.command(name="plan")
@click.option("--snapshot", type=SNAPSHOT, help="A file of `gpufleet snapshot`, instead of a cluster.")
@click.option("-o", "--output", type=OneOf(["text", "json"]), default="text", help="[default: text]")
@cluster_options
def plan(snapshot: Path | None, output: str, kubeconfig: Path | None, context: str) -> None:
    """Say which cards would be cut for the pods that wait for MIG instances, step by step.

    Instances in use are never touched, and a card out of MIG mode is cut only where it is idle and no other
    card has room. Nothing is changed.
    """
    if snapshot is not None and (kubeconfig is not None or context):
        raise click.UsageError("either a snapshot or a cluster, not both")
    from gpufleet.cli.mig_output import show
    from gpufleet.cli.rerun import log_lines
    from gpufleet.cluster.settings import Settings
    from gpufleet.kube.connection import ClusterChoice
    from gpufleet.repartition.command import of_cluster, of_snapshot

    if snapshot is not None:
        with log_lines(snapshot) as lines:
            answer = of_snapshot(lines, str(snapshot))
    else:
        answer = of_cluster(ClusterChoice(kubeconfig, context), Settings(identity="mig-plan"))
    show(answer, output)
