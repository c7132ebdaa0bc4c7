"""``gpufleet agent``: run the agent of one node."""

from pathlib import Path

import click

PATH = click.Path(path_type=Path)


@click.command(name="agent")
@click.option(
    "--node-name", "node", envvar="NODE_NAME", required=True, help="The Node it is on.  [env: NODE_NAME]"
)
@click.option(
    "--kubeconfig", type=PATH, help="Instead of KUBECONFIG, ~/.kube/config, or the pod's own account."
)
@click.option("--context", default="", help="The kubeconfig's context to use.")
@click.option("--config", type=PATH, help="How the GPUs are shared: a file, read again whenever it changes.")
@click.option("--simulated", type=PATH, help="A machine described in this file, in place of the real GPUs.")
@click.option(
    "--metrics-address",
    default=":9400",
    show_default=True,
    help="Where /metrics, /healthz and /readyz are served; port 0 takes a free one.",
)
@click.option("--kubelet-root", type=PATH, default="/var/lib/kubelet", show_default=True)
@click.option("--cdi-folder", type=PATH, default="/var/run/cdi", show_default=True)
@click.option(
    "--state-folder",
    type=PATH,
    default="/var/lib/gpufleet",
    show_default=True,
    help="What has to outlive this process.",
)
@click.option(
    "--sample-every-s",
    type=click.FloatRange(1),
    default=10.0,
    show_default=True,
    help="How often each GPU is asked for its readings.",
)
@click.option(
    "--accounting/--no-accounting",
    default=False,
    show_default=True,
    help="Ask for the processes on each GPU, for metrics of shares; needs the host's process ids.",
)
@click.option(
    "--log-level", type=click.Choice(["debug", "info", "warning", "error"]), default="info", show_default=True
)
@click.option(
    "--log-format", type=click.Choice(["json", "text"]), help="[default: text on a terminal, json elsewhere]"
)
def command(**options: object) -> int:
    """Serve the GPUs of one node: to its kubelet, to the scheduler, to whoever measures them.

    Runs until it is told to end. A GPU, a driver or a server that fails is waited for.
    """
    from gpufleet.agent.process import run_process
    from gpufleet.agent.settings import AgentSettings

    return run_process(AgentSettings(**options))  # type: ignore[arg-type]
