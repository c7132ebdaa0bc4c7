"""``gpufleet import``: objects of other systems as FleetQueues or FleetPolicies.

``gpufleet.migration`` does the work.
"""

from pathlib import Path

import click

from gpufleet.cli.cluster_options import cluster_options
from gpufleet.cli.parameters import InputFile, OneOf

SYSTEMS = ["kueue", "kai", "volcano", "elasticquota", "nvidia", "amd", "intel"]

OBJECTS = InputFile("a file of Kubernetes objects, or - for standard input", stream=True)


@click.command(name="import")
@click.argument("system", type=OneOf(SYSTEMS))
@click.argument(
    "files",
    metavar="[FILE]...",
    nargs=-1,
    type=OBJECTS,
)
@click.option(
    "--report",
    type=OneOf(["text", "json", "none"]),
    default="text",
    show_default=True,
    help="What became of each field, on standard error.",
)
@cluster_options
def command(system: str, files: tuple[Path, ...], report: str, kubeconfig: Path | None, context: str) -> None:
    """Turn the queues of Kueue, KAI, Volcano or scheduler-plugins into FleetQueues.

    And what GPU operators of NVIDIA, AMD and Intel were told (ClusterPolicy, NVIDIADriver, DeviceConfig,
    GpuDevicePlugin) into FleetPolicies. Reads FILEs (- is standard input), or a cluster where none is given.
    The manifests go to standard output, fit for kubectl apply; nothing is changed in any cluster.
    """
    from gpufleet.migration.command import from_cluster, from_files
    from gpufleet.migration.report import as_json, as_text

    if files and (kubeconfig is not None or context):
        raise click.UsageError("either files or a cluster, not both")
    outcome = (
        from_files(system, tuple(map(str, files))) if files else from_cluster(system, kubeconfig, context)
    )
    if report == "text":
        click.echo(as_text(outcome.report), err=True)
    elif report == "json":
        click.echo(as_json(outcome.report), err=True)
    click.echo(outcome.manifests, nl=False)
