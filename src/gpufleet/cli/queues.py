"""``gpufleet queues``: the tree of queues, what each is owed and has, and which work waits in it.

``explain`` finds the answer; ``queues_output`` lays it out for people.
"""

from pathlib import Path

import click

from gpufleet.cli.cluster_options import cluster_options, scheduler_options
from gpufleet.cli.parameters import OneOf


def names(context: click.Context, _argument: click.Parameter, incomplete: str) -> list[str]:
    """Names of queues for the shell to suggest; none where the cluster cannot be asked."""
    from gpufleet.explain.command import Question, queue_names
    from gpufleet.kube.connection import ClusterChoice

    given = context.params
    cluster = ClusterChoice(given.get("kubeconfig"), str(given.get("context") or ""))
    return queue_names(Question(incomplete, cluster))


@click.command(name="queues")
@click.option("--queue", "-q", default="", metavar="NAME", help="One queue, all of it.", shell_complete=names)
@click.option(
    "--resource", "-r", default="", help="The resource to show.  [default: gpu, or the first that is named]"
)
@click.option(
    "-o",
    "--output",
    type=OneOf(["text", "wide", "json", "yaml"]),
    default="text",
    help="wide: every resource, limits and policies.  [default: text]",
)
@click.option(
    "--from",
    "source",
    type=OneOf(["auto", "engine", "status"]),
    default="auto",
    help="The engine over the cluster as it is, or what the scheduler wrote last.  [default: auto]",
)
@cluster_options
@scheduler_options
@click.option("--color", type=OneOf(["auto", "always", "never"]), default="auto", help="[default: auto]")
def command(
    queue: str,
    resource: str,
    output: str,
    source: str,
    kubeconfig: Path | None,
    context: str,
    scheduler_name: str,
    lease_namespace: str,
    color: str,
) -> None:
    """Show the tree of queues: quota, use, what is borrowed and lent, fair share, and what waits.

    Only reads. The engine that the scheduler decides with works out the answer; a user without the
    right to list pods and nodes gets what the scheduler wrote last. With --queue it shows everything of one
    queue, and the work that waits there, in its order.
    """
    from gpufleet.cli.queues_output import show
    from gpufleet.explain.command import Question, queues_of
    from gpufleet.explain.queue_inquiry import Wanted
    from gpufleet.kube.connection import ClusterChoice

    question = Question(
        queue,
        ClusterChoice(kubeconfig, context),
        scheduler_name=scheduler_name,
        lease_namespace=lease_namespace,
    )
    show(queues_of(question, Wanted(source)), output, resource, color, one=queue)
