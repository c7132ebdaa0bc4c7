"""``gpufleet drain``: which work leaves nodes and where it goes, and making it so; ``drain`` does both."""

from pathlib import Path

import click

from gpufleet.cli.cluster_options import cluster_options, scheduler_option
from gpufleet.cli.parameters import POLICY, SNAPSHOT, OneOf, Whole


@click.command(name="drain")
@click.argument("nodes", metavar="NODE...", nargs=-1, required=True)
@click.option("--dry-run", is_flag=True, help="Show the plan, and change nothing.")
@click.option(
    "--nodes-at-once", type=Whole(1, 10_000), help="Nodes to close at the same time.  [default: all]"
)
@click.option(
    "--deadline",
    "deadline_s",
    metavar="SECONDS",
    type=Whole(0, 30 * 86_400),
    default=3600,
    show_default=True,
    help="How long to wait for work that ends by itself.",
)
@click.option(
    "--away",
    "away_s",
    metavar="SECONDS",
    type=Whole(0, 30 * 86_400),
    help="After how long an empty node takes work again; without it no node comes back.",
)
@click.option(
    "--checkpoint",
    "checkpoint_s",
    metavar="SECONDS",
    type=Whole(0, 86_400),
    default=300,
    show_default=True,
    help="How long work may take to save itself when it is asked.",
)
@click.option(
    "--without-places",
    is_flag=True,
    help="At the deadline, evict also what fits nowhere else: it waits then.",
)
@click.option("--only-gpus", is_flag=True, help="Leave work without GPUs where it is.")
@click.option(
    "--snapshot", type=SNAPSHOT, help="A file of `gpufleet snapshot`, instead of a cluster: the plan alone."
)
@click.option("-o", "--output", type=OneOf(["text", "json"]), default="text", help="[default: text]")
@cluster_options
@scheduler_option
@click.option("--policy", type=POLICY, default="gpufleet", show_default=True, help="The scheduler's policy.")
def command(
    nodes: tuple[str, ...],
    dry_run: bool,
    nodes_at_once: int | None,
    deadline_s: int,
    away_s: int | None,
    checkpoint_s: int,
    without_places: bool,
    only_gpus: bool,
    snapshot: Path | None,
    output: str,
    kubeconfig: Path | None,
    context: str,
    scheduler_name: str,
    policy: str,
) -> None:
    """Empty nodes with little loss: gangs move whole, to places that are kept before they end.

    Nodes are closed, work that ends by itself before the deadline is waited for, and the scheduler moves the
    rest. Run again after an interruption, it goes on with the same deadline. Nodes stay closed.

    The plan says what is waited for because it ends before the deadline, what moves where, what stays and
    why, whether the rest of the fleet has room, and how many GPU-hours are lost. Pods of DaemonSets stay, as
    under kubectl drain.
    """
    if snapshot is not None and (kubeconfig is not None or context):
        raise click.UsageError("a snapshot is no cluster: --kubeconfig and --context are of those")
    from gpufleet.cli.drain_output import show, tell
    from gpufleet.cli.rerun import log_lines
    from gpufleet.cluster.settings import Settings
    from gpufleet.drain.applying import apply_drain
    from gpufleet.drain.carrying_out import DrainOptions
    from gpufleet.drain.facts import DrainRequest, of_cluster, of_snapshot
    from gpufleet.drain.question import DrainRules
    from gpufleet.kube.connection import ClusterChoice

    rules = DrainRules(nodes_at_once or len(nodes), deadline_s, away_s)
    request = DrainRequest(nodes, rules, only_gpus)
    if snapshot is not None:
        with log_lines(snapshot) as lines:
            show(of_snapshot(request, lines, str(snapshot)), output)
        return
    settings = Settings(identity="drain", scheduler_name=scheduler_name, policy=policy)
    cluster = ClusterChoice(kubeconfig, context)
    plan = of_cluster(request, cluster, settings)
    show(plan, output)
    if not dry_run:
        apply_drain(plan, request, cluster, settings, DrainOptions(checkpoint_s, without_places), tell)
