"""``gpufleet check``: whether gpufleet is installed and at work in a cluster; `helm test` runs it too."""

from pathlib import Path

import click

from gpufleet.cli.output import echo_line


@click.command(name="check")
@click.option(
    "-n", "--namespace", default="gpufleet-system", show_default=True, help="Where gpufleet is installed."
)
@click.option(
    "--kubeconfig", type=click.Path(path_type=Path), help="Instead of KUBECONFIG and ~/.kube/config."
)
@click.option("--context", default="", help="The kubeconfig's context to use.")
def command(namespace: str, kubeconfig: Path | None, context: str) -> int:
    """Say whether gpufleet is installed and at work in a cluster. Changes nothing.

    Ends with code 3 if something is not as it should be.
    """
    import asyncio

    return asyncio.run(_check(namespace, kubeconfig, context))


async def _check(namespace: str, kubeconfig: Path | None, context: str) -> int:
    import random

    from gpufleet.cli.main import ExitCode
    from gpufleet.kube.client import Client
    from gpufleet.kube.clock import MachineClock
    from gpufleet.kube.following_access import find_access
    from gpufleet.kube.http_transport import HttpTransport
    from gpufleet.kube.installation import findings
    from gpufleet.kube.kubeconfig import Overrides

    access = find_access(kubeconfig=kubeconfig, overrides=Overrides(context=context))
    transport = HttpTransport(access, connections=2)
    code = ExitCode.DONE
    try:
        async for finding in findings(Client(transport, MachineClock(), random.Random()), namespace):
            echo_line(f"{'ok' if finding.good else 'NOT ok':8}{finding.sentence}")
            code = code if finding.good else ExitCode.WORLD_FAILED
    finally:
        await transport.close()
    return code
