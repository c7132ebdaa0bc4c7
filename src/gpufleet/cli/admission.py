"""``gpufleet admission``: judge and complete objects on their way into a cluster."""

from pathlib import Path

import click

from gpufleet.cli.admission_options import completion_options
from gpufleet.cli.cluster_options import cluster_options, daemon_options
from gpufleet.cli.log_options import log_options
from gpufleet.cli.parameters import InputFile, OneOf

OBJECTS = InputFile("a file of Kubernetes objects, or - for standard input", stream=True)
MODES = ["off", "audit", "warn", "deny"]
"""The values of the labels by which a namespace says how it is treated."""


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


@command.command(name="plan")
@click.argument("files", metavar="[FILE]...", nargs=-1, type=OBJECTS)
@click.option("-n", "--namespace", "namespaces", multiple=True, metavar="NAME", help="Only here; repeat.")
@click.option(
    "--mode",
    type=OneOf(MODES),
    default="deny",
    show_default=True,
    help="The label to plan for: gpufleet.io/admission.",
)
@click.option(
    "--images",
    type=OneOf(MODES),
    help="Plan for gpufleet.io/image-policy, too.  [default: the label of today]",
)
@click.option(
    "--registry", "registries", multiple=True, metavar="NAME", help="Allow images from here; repeat."
)
@click.option(
    "--managed", "completes", is_flag=True, help="As if every namespace had gpufleet.io/managed=true."
)
@completion_options
@click.option("-o", "--output", type=OneOf(["text", "json"]), default="text", help="[default: text]")
@cluster_options
def plan(
    files: tuple[Path, ...], output: str, kubeconfig: Path | None, context: str, **options: object
) -> int:
    """Show what a namespace would refuse, warn of and complete, of the work that is there already.

    Objects come from the cluster, or from FILEs (- is standard input), and then no cluster is asked. Nothing
    is written. Ends with code 1 if anything would be refused.
    """
    import datetime as dt

    from gpufleet.admission.plan.command import PlanOptions, admission_plan
    from gpufleet.cli.admission_output import show_plan
    from gpufleet.kube.connection import ClusterChoice

    if files and (kubeconfig is not None or context):
        raise click.UsageError("files are looked at without a cluster: --kubeconfig and --context are of one")
    cluster = ClusterChoice(kubeconfig, context)
    asked = PlanOptions(files=tuple(map(str, files)), cluster=cluster, **options)  # type: ignore[arg-type]
    answer = admission_plan(asked, dt.datetime.now(dt.UTC).date())
    show_plan(answer, output)
    return 1 if answer.refuses else 0


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
@click.option(
    "--registry", "registries", multiple=True, metavar="NAME", help="Allow images from here; repeat."
)
@click.option("--no-digests", is_flag=True, help="Let images be named by tag.")
@log_options
def serve(**options: object) -> int:
    """Answer the API server's reviews until told to end."""
    from gpufleet.admission.process import WebhookOptions, run_process

    return run_process(WebhookOptions(**options))  # type: ignore[arg-type]
