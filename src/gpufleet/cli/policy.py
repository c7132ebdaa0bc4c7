"""``gpufleet policy``: what FleetPolicies would change, and how far they are.

``operator.questions`` finds out, ``policy_output`` lays it out.
"""

from pathlib import Path

import click

from gpufleet.cli.parameters import KUBECONFIG, InputFile, OneOf

OBJECTS = InputFile("a file of Kubernetes objects, or - for standard input", stream=True)


@click.group(name="policy")
def command() -> None:
    """Say what FleetPolicies would change on nodes, and how far they are. Nothing is written."""


@command.command(name="plan")
@click.argument("files", metavar="[FILE]...", nargs=-1, type=OBJECTS)
@click.option(
    "--offline", is_flag=True, help="Take Nodes and NodeDevices from the files too, and ask no cluster."
)
@click.option(
    "--host-facts",
    type=InputFile("a file of facts of hosts"),
    metavar="FILE",
    help="Facts of hosts, images and the cluster for preflight, which the API does not tell.",
)
@click.option("-o", "--output", type=OneOf(["text", "json"]), default="text", help="[default: text]")
@click.option("--kubeconfig", type=KUBECONFIG, help="Instead of KUBECONFIG and ~/.kube/config.")
@click.option("--context", default="", help="The kubeconfig's context to use.")
def plan(
    files: tuple[Path, ...],
    offline: bool,
    host_facts: Path | None,
    output: str,
    kubeconfig: Path | None,
    context: str,
) -> None:
    """Show what policies would change on each node, before and after, and what stands in the way.

    Policies of FILEs (- is standard input) take the place of those of their name in the cluster. Nothing is
    written, neither by this command nor by the operator because of it.
    """
    from gpufleet.cli.policy_output import show_plan
    from gpufleet.kube.connection import ClusterChoice
    from gpufleet.operator.questions import PolicySource, plan_of

    if offline and not files:
        raise click.UsageError("--offline takes all objects from files, and none is named")
    if offline and (kubeconfig is not None or context):
        raise click.UsageError("--offline asks no cluster: --kubeconfig and --context are of those")
    facts = "" if host_facts is None else str(host_facts)
    source = PolicySource(tuple(map(str, files)), ClusterChoice(kubeconfig, context), offline, facts)
    show_plan(plan_of(source), output)


@command.command(name="status")
@click.argument("policies", metavar="[POLICY]...", nargs=-1)
@click.option("-o", "--output", type=OneOf(["text", "json"]), default="text", help="[default: text]")
@click.option("--kubeconfig", type=KUBECONFIG, help="Instead of KUBECONFIG and ~/.kube/config.")
@click.option("--context", default="", help="The kubeconfig's context to use.")
def status(policies: tuple[str, ...], output: str, kubeconfig: Path | None, context: str) -> None:
    """Show how far each policy is, in sum and by node, as the operator told it last."""
    from gpufleet.cli.policy_output import show_status
    from gpufleet.kube.connection import ClusterChoice
    from gpufleet.operator.questions import status_of

    show_status(status_of(ClusterChoice(kubeconfig, context), policies), output, named=bool(policies))
