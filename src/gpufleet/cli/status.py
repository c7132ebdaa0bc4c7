"""``gpufleet status``: the local clusters, whether they run, and which of their programs."""

import click


@click.command(name="status")
def command() -> None:
    """Show the local clusters: address, version, and whether each program runs."""
    from gpufleet.localkube import persistent

    names = persistent.names()
    if not names:
        click.echo("there is no local cluster; `gpufleet up` starts one", err=True)
    for name in names:
        state = persistent.state(name)
        kubernetes = f"Kubernetes {state.kubernetes}" if state.kubernetes else "of an unknown version"
        if not state.running:
            click.echo(f"{name}: does not run any more; `gpufleet down --name {name}` removes what is left")
            continue
        click.echo(f"{name}: {kubernetes} at {state.url}, logs in {state.folder / 'logs'}")
        for program, pid, restarts, alive in state.programs:
            how = f"runs as process {pid}" if alive else "is down and will be started again"
            again = f", restarts: {restarts}" if restarts else ""
            click.echo(f"  {program} {how}{again}")
        if state.real_node is not None:
            programs = ", ".join(
                f"{program} as process {pid}" for program, pid in state.real_node.programs().items()
            )
            click.echo(f"  node {state.real_node.name} at {state.real_node.address}: {programs or 'is down'}")
