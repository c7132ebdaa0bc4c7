"""``gpufleet down``: end a local cluster and remove everything of it."""

import click

from gpufleet.cli.up import DEFAULT_NAME


@click.command(name="down")
@click.option("--name", default=DEFAULT_NAME, show_default=True, help="Name of the cluster.")
@click.option("--all", "every", is_flag=True, help="All local clusters.")
def command(name: str, every: bool) -> None:
    """End a local cluster and remove everything of it: processes, keys, data.

    What a crash left behind is removed too. Binaries stay in the cache.
    """
    from gpufleet.localkube import persistent
    from gpufleet.localkube.processes.folders import cluster_folder, lock_of

    if not every and not lock_of(cluster_folder(name)).exists():
        persistent.existing(name)
    for one in persistent.names() if every else [name]:
        persistent.remove(one)
        click.echo(f"down: the cluster {one} is gone", err=True)
