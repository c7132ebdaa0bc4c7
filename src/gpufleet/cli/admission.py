"""``gpufleet admission``: judge and complete objects on their way into a cluster, and say what would come of
it.
"""

import click

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
