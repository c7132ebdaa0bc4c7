"""``gpufleet web``: the state of a fleet as a page in the browser; ``gpufleet.web`` serves it."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from gpufleet.cli.cluster_options import cluster_options, scheduler_options
from gpufleet.cli.parameters import InputFile, OneOf, OwnPath
from gpufleet.cli.prometheus_options import prometheus_server_options

if TYPE_CHECKING:
    from gpufleet.usage.prometheus.access import Access

PEM = InputFile("a file in PEM")


@click.command(name="web")
@click.option(
    "--listen",
    default="127.0.0.1:9480",
    show_default=True,
    help="Where the page is served; port 0 takes a free one.",
)
@click.option(
    "--login",
    type=OneOf(["local", "cluster"]),
    default="local",
    show_default=True,
    help="local: for you alone, with the rights of your kubeconfig; cluster: for all users of the cluster, "
    "each with the rights of that user's token.",
)
@click.option(
    "--host",
    "hosts",
    multiple=True,
    metavar="NAME[:PORT]",
    help="A name under which browsers reach it, as in their address line; repeat for more. With --login "
    "cluster alone.  [default: any]",
)
@click.option(
    "--trusted-proxy",
    "proxies",
    multiple=True,
    metavar="ADDRESS",
    help="A proxy that logs people in: requests from this address or network name their user in header "
    "fields. Repeat for more. With --login cluster alone.",
)
@click.option("--proxy-user-field", default="X-Forwarded-User", show_default=True, help="The user's name.")
@click.option(
    "--proxy-groups-field",
    default="X-Forwarded-Groups",
    show_default=True,
    help="The user's groups, with commas between.",
)
@click.option(
    "--proxy-user-prefix", default="", help="What the API server puts before names of the login's users."
)
@click.option(
    "--proxy-groups-prefix", default="", help="What the API server puts before names of the login's groups."
)
@cluster_options
@scheduler_options
@prometheus_server_options("Take use from this Prometheus instead of the agents, and the alerts that fire.")
@click.option("--certificate", type=PEM, metavar="FILE", help="Serve HTTPS with this PEM certificate.")
@click.option("--key", type=PEM, metavar="FILE", help="The certificate's key as PEM.")
@click.option("--url-file", type=OwnPath("a path"), help="Write the URL to this file too.")
@click.option(
    "--log-level",
    type=OneOf(["debug", "info", "warning", "error"]),
    default="warning",
    show_default=True,
    help="What is logged to standard error.",
)
@click.option("--log-format", type=OneOf(["json", "text"]), help="[default: text on a terminal, else json]")
def command(
    listen: str,
    login: str,
    hosts: tuple[str, ...],
    proxies: tuple[str, ...],
    proxy_user_field: str,
    proxy_groups_field: str,
    proxy_user_prefix: str,
    proxy_groups_prefix: str,
    kubeconfig: Path | None,
    context: str,
    scheduler_name: str,
    lease_namespace: str,
    prometheus: "Access | None",
    certificate: Path | None,
    key: Path | None,
    url_file: Path | None,
    log_level: str,
    log_format: str | None,
) -> int:
    """Show the fleet in the browser: nodes and cards, queues, work and why it waits, plans, problems.

    Prints the URL to open, which is good until the command ends. The page is live and only reads.
    """
    from gpufleet.daemon.listening import address_of
    from gpufleet.kube.connection import ClusterChoice
    from gpufleet.model.model_errors import InputError
    from gpufleet.web.login.trusted_proxy import trusted_proxy
    from gpufleet.web.process import run_process
    from gpufleet.web.request import Request

    # Under another name a page of another site could reach this one (DNS rebinding).
    if hosts and login == "local":
        raise InputError(
            "only this machine's own names are served",
            field="--host",
            value=hosts[0],
            expected="--login cluster beside it",
        )
    if proxies and login == "local":
        raise InputError(
            "only the caller of the command logs in",
            field="--trusted-proxy",
            value=proxies[0],
            expected="--login cluster beside it",
        )
    fields = (proxy_user_field, proxy_groups_field, proxy_user_prefix, proxy_groups_prefix)
    host, port = address_of(listen, "--listen")
    request = Request(
        host,
        port,
        ClusterChoice(kubeconfig, context),
        login == "cluster",
        hosts,
        trusted_proxy(proxies, *fields),
        scheduler_name,
        lease_namespace,
        prometheus,
        certificate,
        key,
        url_file,
        log_level,
        log_format,
    )
    return run_process(request, click.echo)
