"""``gpufleet snapshot``: the state of a cluster in one file; ``cluster.snapshots`` does the work."""

from datetime import UTC, datetime
from pathlib import Path

import click

from gpufleet.cli.cluster_options import cluster_options, scheduler_option
from gpufleet.cli.parameters import POLICY, OutputFile

STANDARD_OUTPUT = "-"


@click.command(name="snapshot")
@click.option(
    "-o",
    "--output",
    metavar="FILE",
    type=OutputFile("a file to write, or - for standard output", stream=True),
    help="Where to write it, packed if it ends with .gz; - is standard output, unpacked."
    "  [default: gpufleet-snapshot-TIME.gz here]",
)
@cluster_options
@scheduler_option
@click.option("--policy", type=POLICY, default="gpufleet", show_default=True, help="The scheduler's policy.")
def command(
    output: Path | None, kubeconfig: Path | None, context: str, scheduler_name: str, policy: str
) -> None:
    """Write all that decisions depend on in a cluster to one file, and what would be decided now.

    For `gpufleet whatif --snapshot FILE`, `gpufleet rerun FILE` and bug reports. Only reads. There is no
    environment, argument or secret of a pod in it; names, labels, amounts and grants are.
    """
    from gpufleet.cluster.settings import Settings
    from gpufleet.cluster.snapshots.command import gaps, snapshot_of
    from gpufleet.files.atomic_write import check_target
    from gpufleet.kube.connection import ClusterChoice
    from gpufleet.model.phrases import counted
    from gpufleet.replay.log_file import log_file

    path = output or Path(f"gpufleet-snapshot-{datetime.now(UTC):%Y%m%dT%H%M%SZ}.gz")
    to_stream = str(path) == STANDARD_OUTPUT
    if not to_stream:
        check_target(path)
    cluster = ClusterChoice(kubeconfig, context)
    settings = Settings(identity="snapshot", scheduler_name=scheduler_name, policy=policy)
    taken = snapshot_of(cluster, settings)
    if to_stream:
        for line in taken.lines:
            click.echo(line, nl=False)
    else:
        with log_file(path) as file:
            file.writelines(taken.lines)
        click.echo(f"{path}: {counted(taken.nodes, 'node')} and {counted(taken.pods, 'pod')}")
    missing = gaps(taken.forbidden)
    if missing:
        click.echo(f"gpufleet: {missing}", err=True)
