"""``gpufleet kubeconfig``: where the kubeconfig of a local cluster is."""

import click

from gpufleet.cli.up import DEFAULT_NAME


@click.command(name="kubeconfig")
@click.option("--name", default=DEFAULT_NAME, show_default=True, help="Name of the cluster.")
@click.option("--content", is_flag=True, help="Print the file itself; it holds the administrator's key.")
def command(name: str, content: bool) -> None:
    """Print the path of a local cluster's kubeconfig.

    For example: export KUBECONFIG="$(gpufleet kubeconfig)"
    """
    from gpufleet.files.regular import read_regular
    from gpufleet.kube.kubeconfig import LARGEST_FILE_BYTES
    from gpufleet.localkube import persistent

    path = persistent.running(name).kubeconfig
    click.echo(read_regular(path, LARGEST_FILE_BYTES).decode() if content else str(path), nl=not content)
