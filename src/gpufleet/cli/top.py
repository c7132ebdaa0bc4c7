"""``gpufleet top``: what GPUs do, who holds them, who waits and why; live on a terminal, once in a pipe.

``gpufleet.top`` reads and lays out; ``top_output`` prints one reading.
"""

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from gpufleet.cli.cluster_options import cluster_options, scheduler_options
from gpufleet.cli.parameters import LabelSelectorText, OneOf, Real
from gpufleet.cli.prometheus_options import prometheus_server_options

if TYPE_CHECKING:
    from gpufleet.model.labels import LabelSelector
    from gpufleet.usage.prometheus.access import Access


@click.command(name="top")
@click.argument(
    "view", type=OneOf(["node", "queue", "gang", "pod", "idle"]), default="node", metavar="[VIEW]"
)
@click.option(
    "-n",
    "--namespace",
    "namespaces",
    multiple=True,
    metavar="NAME",
    help="Only this namespace; repeat for more.",
)
@click.option(
    "-A",
    "--all-namespaces",
    is_flag=True,
    help="Refuse to show less than all.  [default: all that you may list]",
)
@click.option("--sort-by", default="", metavar="COLUMN", help="A column such as use, memory, power or age.")
@click.option("--reverse", is_flag=True, help="The other way round.")
@click.option(
    "--filter", "filtered", default="", metavar="TEXT", help="Lines with this text; !TEXT: those without."
)
@click.option(
    "-l",
    "--selector",
    type=LabelSelectorText(),
    metavar="LABELS",
    help="Only nodes, or pods, with these labels, as kubectl takes them.",
)
@click.option("-o", "--output", type=OneOf(["text", "wide", "json"]), default="text", help="[default: text]")
@click.option("--no-headers", is_flag=True, help="No headings, in a pipe.")
@click.option("--once", is_flag=True, help="One reading, on a terminal too.")
@click.option(
    "--interval",
    "interval_s",
    type=Real(0.5, 3600),
    default=2.0,
    show_default=True,
    metavar="SECONDS",
    help="Between two reads.",
)
@prometheus_server_options("Take use from this Prometheus instead of the agents.")
@cluster_options
@scheduler_options
@click.option("--color", type=OneOf(["auto", "always", "never"]), default="auto", help="[default: auto]")
def command(
    view: str,
    namespaces: tuple[str, ...],
    all_namespaces: bool,
    sort_by: str,
    reverse: bool,
    filtered: str,
    selector: "LabelSelector | None",
    output: str,
    no_headers: bool,
    once: bool,
    interval_s: float,
    prometheus: "Access | None",
    kubeconfig: Path | None,
    context: str,
    scheduler_name: str,
    lease_namespace: str,
    color: str,
) -> int:
    """Show nodes, queues, gangs, pods or idle GPUs: what they use, who waits, and why.

    VIEW is node, queue, gang, pod or idle. On a terminal it is live, and ? tells the keys; in a pipe it is
    one table. Only reads, with your own rights; what is not known is ?. Use comes from gpufleet's agents, or
    from the Prometheus server that scrapes them.
    """
    from gpufleet.cli.terminal import with_color
    from gpufleet.cli.top_output import show
    from gpufleet.kube.connection import ClusterChoice
    from gpufleet.top.command import read_once, watch
    from gpufleet.top.request import TopRequest

    request = TopRequest(
        view=view,
        cluster=ClusterChoice(kubeconfig, context),
        namespaces=tuple(dict.fromkeys(namespaces)),
        all_namespaces=all_namespaces,
        sort_by=sort_by,
        reverse=reverse,
        filter=filtered,
        selector=selector,
        wide=output == "wide",
        interval_s=interval_s,
        prometheus=prometheus,
        scheduler_name=scheduler_name,
        lease_namespace=lease_namespace,
    )
    # Keys come from standard input, so both have to be a terminal.
    if output != "json" and not once and sys.stdout.isatty() and sys.stdin.isatty():
        return watch(request, colored=with_color(color))
    show(read_once(request), request, output, headings=not no_headers, colored=with_color(color))
    return 0
