"""``gpufleet check``: whether gpufleet is installed and at work in a cluster; `helm test` runs it too."""

from pathlib import Path

import click

from gpufleet.cli.cluster_options import cluster_options
from gpufleet.cli.output import echo_line


@click.command(name="check")
@click.option(
    "-n", "--namespace", default="gpufleet-system", show_default=True, help="Where gpufleet is installed."
)
@cluster_options
def command(namespace: str, kubeconfig: Path | None, context: str) -> int:
    """Say whether gpufleet is installed and at work in a cluster. Changes nothing.

    Ends with code 3 if something is not as it should be.
    """
    import asyncio

    return asyncio.run(_check(namespace, kubeconfig, context))


async def _check(namespace: str, kubeconfig: Path | None, context: str) -> int:
    from gpufleet.cli.main import ExitCode
    from gpufleet.kube.connection import ClusterChoice, connect
    from gpufleet.kube.installation import findings

    code = ExitCode.DONE
    async with connect(ClusterChoice(kubeconfig, context)) as connection:
        async for finding in findings(connection.client, namespace):
            echo_line(f"{'ok' if finding.good else 'NOT ok':8}{finding.sentence}")
            code = code if finding.good else ExitCode.WORLD_FAILED
    return code
