"""``gpufleet plan``: which nodes to buy for the work that waits; ``gpufleet.plan`` finds it out.

What is about a history is in ``cli.plan_history``.
"""

from pathlib import Path

import click

from gpufleet.cli.cluster_options import cluster_options, scheduler_option
from gpufleet.cli.parameters import POLICY, SNAPSHOT, InputFile, OneOf
from gpufleet.cli.plan_history import or_history

TABLE = InputFile("a table of types of instances")


@click.command(name="plan")
@click.option(
    "--submit",
    metavar="FILE",
    multiple=True,
    type=InputFile("a file of YAML, or - for standard input", stream=True),
    help="Work that is to come: Pods, Jobs, Deployments, ReplicaSets, StatefulSets, and what they name.",
)
@click.option("-n", "--namespace", default="default", show_default=True, help="Of work that names none.")
@click.option(
    "--set-quota", metavar="QUEUE.RESOURCE=VALUE", multiple=True, help="Plan with another nominal quota."
)
@click.option("--remove-node", metavar="NODE", multiple=True, help="Plan without this node.")
@click.option(
    "--remove-pool",
    metavar="POOL",
    multiple=True,
    help="Plan without the nodes of a pool: its name, or LABEL=VALUE of its nodes.",
)
@click.option(
    "--catalogue",
    type=TABLE,
    help="What can be bought, with prices, as CSV.  [default: a table of November 2026]",
)
@click.option(
    "--pools",
    type=InputFile("a file of NodePools and NodeOverlays, or - for standard input", stream=True),
    help="Buy only what these NodePools of Karpenter allow, at the prices of the catalogue.",
)
@click.option(
    "--cluster-pools", is_flag=True, help="Buy what the NodePools and NodeOverlays of the cluster allow."
)
@click.option(
    "--spot-share",
    metavar="PERCENT",
    help="At most so many percent of the GPUs on spot of one type in one zone.  [default: 100]",
)
@click.option("--type", "names", metavar="TYPE", multiple=True, help="Buy these types only.  [default: all]")
@click.option("--by", metavar="DURATION", help="How long work may wait: 4h.  [default: not at all]")
@click.option("--snapshot", type=SNAPSHOT, help="A file of `gpufleet snapshot`, instead of a cluster.")
@click.option("-o", "--output", type=OneOf(["text", "json"]), default="text", help="[default: text]")
@cluster_options
@scheduler_option
@click.option("--policy", type=POLICY, default="gpufleet", show_default=True, help="The scheduler's policy.")
@or_history
def command(
    submit: tuple[Path, ...],
    namespace: str,
    set_quota: tuple[str, ...],
    remove_node: tuple[str, ...],
    remove_pool: tuple[str, ...],
    catalogue: Path | None,
    pools: Path | None,
    cluster_pools: bool,
    spot_share: str | None,
    names: tuple[str, ...],
    by: str | None,
    snapshot: Path | None,
    output: str,
    kubeconfig: Path | None,
    context: str,
    scheduler_name: str,
    policy: str,
    checkpoint: tuple[str, ...],
    on_demand: tuple[str, ...],
) -> None:
    """Say which nodes to buy so that all work that waits starts, what they cost, and what no purchase helps.

    The engine of the scheduler judges each set of nodes on a copy of the cluster, with its queues, gangs and
    priorities: a purchase that starts half a gang is none. Nothing is bought, and nothing is changed.

    With --history it is the cheapest fleet that keeps a service level for recorded work, proven by replay.
    """
    from gpufleet.cli.plan_pools import read_offers
    from gpufleet.cli.whatif import submitted
    from gpufleet.kube.codec.durations import read_duration
    from gpufleet.plan.instance_types import catalogue_of, chosen
    from gpufleet.whatif.quotas import check_set_quota
    from gpufleet.whatif.request import Request, read_set_quota

    _check_together(snapshot, pools, cluster_pools=cluster_pools, is_cluster=bool(kubeconfig or context))
    by_s = 0.0 if by is None else read_duration(by, "--by") / 1e6
    kinds = chosen(catalogue_of(catalogue), names)
    quotas = tuple(read_set_quota(text) for text in set_quota)
    work = tuple(submitted(path) for path in submit)
    request = Request((), remove_node, quotas, work, namespace, remove_pool)
    for quota in quotas:
        check_set_quota(quota)
    from gpufleet.cli.plan_output import show
    from gpufleet.cli.rerun import log_lines
    from gpufleet.cluster.settings import Settings
    from gpufleet.kube.connection import ClusterChoice
    from gpufleet.plan.command import Question, of_cluster, of_snapshot
    from gpufleet.plan.history.spot_choice import read_spot_question
    from gpufleet.plan.waiting_spot import read_spot_share

    where = ClusterChoice(kubeconfig, context) if cluster_pools else None
    offers = read_offers(kinds, pools, where, remove_pool)
    question = Question(
        request,
        kinds if offers is None else offers.catalogue,
        by_s,
        {} if offers is None else offers.left,
        () if offers is None else offers.notes,
        read_spot_question(checkpoint, on_demand),
        100 if spot_share is None else read_spot_share(spot_share),
    )
    if snapshot is not None:
        with log_lines(snapshot) as lines:
            answer = of_snapshot(question, lines, str(snapshot))
    else:
        settings = Settings(identity="plan", scheduler_name=scheduler_name, policy=policy)
        answer = of_cluster(question, ClusterChoice(kubeconfig, context), settings)
    show(answer, output)


def _check_together(
    snapshot: Path | None, pools: Path | None, *, cluster_pools: bool, is_cluster: bool
) -> None:
    """Raises UsageError for options that exclude each other."""
    if snapshot is not None and is_cluster:
        raise click.UsageError("either a snapshot or a cluster, not both")
    if snapshot is not None and cluster_pools:
        raise click.UsageError("a snapshot holds no NodePools: give --pools FILE in place of --cluster-pools")
    if pools is not None and cluster_pools:
        raise click.UsageError("either --pools FILE or --cluster-pools, not both")
