"""``gpufleet doctor``: what is wrong with the GPUs of a cluster; ``gpufleet.doctor`` does the work."""

from pathlib import Path

import click

from gpufleet.cli.cluster_options import cluster_options
from gpufleet.cli.parameters import OneOf


@click.command(name="doctor")
@click.option("-o", "--output", type=OneOf(["text", "json"]), default="text", help="[default: text]")
@click.option("-v", "--verbose", is_flag=True, help="Also what is right, and what could not be judged.")
@click.option(
    "--fail-on",
    type=OneOf(["risk", "broken", "never"]),
    default="risk",
    help="End with code 1 for what is a risk or broken, or only for what is broken.  [default: risk]",
)
@click.option("--checks", "lists_checks", is_flag=True, help="List all checks.")
@cluster_options
@click.option("--color", type=OneOf(["auto", "always", "never"]), default="auto", help="[default: auto]")
def command(
    output: str,
    verbose: bool,
    fail_on: str,
    lists_checks: bool,
    kubeconfig: Path | None,
    context: str,
    color: str,
) -> int:
    """Walk through a cluster and say what is wrong with its GPUs: causes first, each with its mend.

    Only reads. Ends with code 0 if nothing is wrong, 1 if something is, 3 if the cluster cannot be reached.
    """
    from gpufleet.cli.doctor_output import checks_table, progress, show

    if lists_checks:
        click.echo(checks_table(), nl=False)
        return 0
    from gpufleet.doctor.command import examine

    with progress() as told:
        diagnosis = examine(kubeconfig, context, told)
    show(diagnosis, output, color, verbose=verbose)
    return 1 if diagnosis.fails(fail_on) else 0
