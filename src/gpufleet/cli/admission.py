"""``gpufleet admission``: judge and complete objects on their way into a cluster."""

import click

from gpufleet.cli.admission_options import completion_options
from gpufleet.cli.cluster_options import daemon_options
from gpufleet.cli.log_options import log_options
from gpufleet.cli.parameters import OneOf


@click.group(name="admission")
def command() -> None:
    """Judge and complete GPU work on its way into the cluster."""


@command.command(name="policies")
@click.option(
    "--default",
    type=OneOf(["off", "audit", "warn"]),
    default="warn",
    show_default=True,
    help="How namespaces without the label gpufleet.io/admission are treated.",
)
@click.option(
    "--registry", "registries", multiple=True, metavar="NAME", help="Allow images from here; repeat."
)
def policies(default: str, registries: tuple[str, ...]) -> int:
    """Print the admission policies as YAML, for a cluster without the chart."""
    from gpufleet.admission.documents import as_yaml

    click.echo(as_yaml(default, registries), nl=False)
    return 0


@command.command(name="serve")
@daemon_options("Where its Secret and its Service are.")
@click.option("--listen", default="127.0.0.1:9445", show_default=True, help="Where reviews are answered.")
@click.option("--service", default="gpufleet-admission", show_default=True, help="The name of its Service.")
@click.option(
    "--name",
    default="gpufleet-admission",
    show_default=True,
    help="The name of its Secret and of its webhook configurations.",
)
@completion_options
@log_options
def serve(**options: object) -> int:
    """Answer the API server's reviews until told to end."""
    from gpufleet.admission.process import WebhookOptions, run_process

    return run_process(WebhookOptions(**options))  # type: ignore[arg-type]
