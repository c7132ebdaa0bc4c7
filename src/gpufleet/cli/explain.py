"""``gpufleet explain``: why a pod or a group waits, and what would help.

The answer goes to standard output, everything else to standard error. ``explain`` finds the
answer; ``explain_output`` lays it out for people.
"""

from pathlib import Path

import click

from gpufleet.cli.cluster_options import cluster_options, scheduler_options
from gpufleet.cli.parameters import OneOf


def names(context: click.Context, _argument: click.Argument, incomplete: str) -> list[str]:
    """Names of pods for the shell to suggest; none where the cluster cannot be asked."""
    from gpufleet.explain.command import Question, pod_names
    from gpufleet.kube.connection import ClusterChoice

    given = context.params
    choice = ClusterChoice(given.get("kubeconfig"), given.get("context") or "", given.get("namespace") or "")
    return pod_names(Question(incomplete, choice))


@click.command(name="explain")
@click.argument("name", metavar="POD|GROUP", shell_complete=names)
@click.option("-n", "--namespace", default="", help="Its namespace.  [default: that of the context]")
@click.option("-o", "--output", type=OneOf(["text", "json", "yaml"]), default="text", help="[default: text]")
@cluster_options
@scheduler_options
@click.option("--color", type=OneOf(["auto", "always", "never"]), default="auto", help="[default: auto]")
def command(
    name: str,
    namespace: str,
    output: str,
    kubeconfig: Path | None,
    context: str,
    scheduler_name: str,
    lease_namespace: str,
    color: str,
) -> None:
    """Say why a pod, a gang or a controller's pods wait, and what would help.

    POD|GROUP is NAME, pod/NAME, job/NAME, deployment/NAME or podgroup/NAME. Only reads; what it says rests
    on the same engine as the scheduler's decisions. With -o json every reason lists its nodes.
    """
    from gpufleet.cli.explain_output import show
    from gpufleet.explain.command import Question, answer_of
    from gpufleet.kube.connection import ClusterChoice

    cluster = ClusterChoice(kubeconfig, context, namespace)
    question = Question(name, cluster, scheduler_name, lease_namespace)
    show(answer_of(question), output, color)
