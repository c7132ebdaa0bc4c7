"""``gpufleet defragment``: which running pods to move; ``defragment`` finds and moves them."""

import sys
from pathlib import Path

import click

from gpufleet.cli.cluster_options import cluster_options, scheduler_option
from gpufleet.cli.parameters import POLICY, SNAPSHOT, OneOf, Real, Whole


@click.command(name="defragment")
@click.option("--for", "pod", metavar="POD", default="", help="A waiting pod that is to start by the moves.")
@click.option("-n", "--namespace", default="default", show_default=True, help="The namespace of that pod.")
@click.option(
    "--moves-max", type=Whole(1, 10_000), default=10, show_default=True, help="Pods to move at most."
)
@click.option("--apply", is_flag=True, help="Make the moves, one after the other; asks first.")
@click.option("--yes", is_flag=True, help="With --apply: do not ask.")
@click.option(
    "--settle",
    "settle_s",
    metavar="SECONDS",
    type=Real(1, 86_400),
    default=120.0,
    show_default=True,
    help="With --apply: how long a move may take until its pod runs again.",
)
@click.option("--snapshot", type=SNAPSHOT, help="A file of `gpufleet snapshot`, instead of a cluster.")
@click.option("-o", "--output", type=OneOf(["text", "json"]), default="text", help="[default: text]")
@cluster_options
@scheduler_option
@click.option("--policy", type=POLICY, default="gpufleet", show_default=True, help="The scheduler's policy.")
def command(
    pod: str,
    namespace: str,
    moves_max: int,
    apply: bool,
    yes: bool,
    settle_s: float,
    snapshot: Path | None,
    output: str,
    kubeconfig: Path | None,
    context: str,
    scheduler_name: str,
    policy: str,
) -> None:
    """Say which running pods to move so that larger ones fit, what that gains, and what it costs.

    A move ends a pod whose controller makes another one. It is proven first that the other one has a place.
    Pods without a controller, members of gangs, and pods that must not be preempted stay, as do those that a
    disruption budget protects or that have not run for the minimum time of their queue. Without --apply
    nothing is changed.
    """
    if snapshot is not None and (kubeconfig is not None or context or apply):
        raise click.UsageError("a snapshot is no cluster: --kubeconfig, --context and --apply are of those")
    if apply and not yes and not sys.stdin.isatty():
        raise click.UsageError("--apply asks first, and there is no terminal to answer: add --yes")
    from gpufleet.cli.defragment_output import show, tell
    from gpufleet.cli.rerun import log_lines
    from gpufleet.cluster.settings import Settings
    from gpufleet.defragment.applying import apply_plan
    from gpufleet.defragment.command import DefragmentRequest, of_cluster, of_snapshot
    from gpufleet.kube.connection import ClusterChoice

    request = DefragmentRequest(moves_max, pod, namespace)
    if snapshot is not None:
        with log_lines(snapshot) as lines:
            show(of_snapshot(request, lines, str(snapshot)), output)
        return
    cluster = ClusterChoice(kubeconfig, context)
    settings = Settings(identity="defragment", scheduler_name=scheduler_name, policy=policy)
    plan = of_cluster(request, cluster, settings)
    show(plan, output, applies=apply)
    if apply and plan.moves:
        # Asked on standard error, so that a file or pipe gets the plan alone.
        if yes or click.confirm("Make these moves?", err=True):
            apply_plan(plan, cluster, settings, settle_s, tell)
        else:
            tell("Nothing was changed.")
