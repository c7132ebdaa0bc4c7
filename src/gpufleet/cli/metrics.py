"""``gpufleet metrics``: serve the metrics APIs of Kubernetes to autoscalers."""

import click

from gpufleet.cli.cluster_options import daemon_options
from gpufleet.cli.log_options import log_options
from gpufleet.cli.parameters import InputFile, Real
from gpufleet.cli.prometheus_options import prometheus_server_options

PEM = InputFile("a file in PEM")


@click.command(name="metrics")
@daemon_options("Where gpufleet's scheduler and agents run.")
@click.option(
    "--listen",
    default="127.0.0.1:6443",
    show_default=True,
    help="Where the APIs, /metrics, /healthz and /readyz are served; port 0 takes a free one.",
)
@click.option(
    "--metrics-certificate",
    type=PEM,
    metavar="FILE",
    required=True,
    help="The PEM certificate that is shown; read again when it changes.",
)
@click.option("--metrics-key", type=PEM, metavar="FILE", required=True, help="The certificate's key as PEM.")
@click.option(
    "--external-scaler",
    metavar="ADDRESS:PORT",
    help="Serve the external scaler of KEDA here, over gRPC.",
)
@prometheus_server_options(
    "Take figures of serving engines that have no page of their own from this Prometheus."
)
@click.option(
    "--scheduler-url",
    multiple=True,
    metavar="URL",
    help="Where the scheduler serves /metrics; repeat for more.  [default: its pods]",
)
@click.option(
    "--pages-ca-file",
    type=PEM,
    metavar="FILE",
    help="The authority of agents and scheduler that serve their metrics over HTTPS.",
)
@click.option(
    "--agents-on-nodes",
    is_flag=True,
    help="Ask port 9400 of a node where no pod is its agent.",
)
@click.option(
    "--old-after",
    type=Real(1, 3600),
    default=25.0,
    show_default=True,
    metavar="SECONDS",
    help="No value that is older is served.",
)
@log_options
def command(**options: object) -> int:
    """Serve custom.metrics.k8s.io and external.metrics.k8s.io to autoscalers.

    Use, memory and power of GPUs by pod and node, what waits in queues, and what serving engines say of
    themselves. The API server has to be told of it by APIServices (docs/metrics-apis.md); the chart does it.
    Runs until it is told to end.
    """
    from gpufleet.metrics.process import MetricsOptions, run_process

    return run_process(MetricsOptions(**options))  # type: ignore[arg-type]
