"""``gpufleet wake``: bring parked work back, through its queue.

``operator.parking.questions`` wakes it; ``whatif`` says beforehand when it would start.
"""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from gpufleet.cli.cluster_options import cluster_options, scheduler_option

if TYPE_CHECKING:
    from gpufleet.kube.connection import ClusterChoice


@click.command(name="wake")
@click.argument("name")
@click.option("-n", "--namespace", default="", help="Its namespace.  [default: that of the context]")
@click.option("--plan", is_flag=True, help="Say when it would start, and wake nothing.")
@click.option("--no-estimate", is_flag=True, help="Wake it without looking for when it starts.")
@cluster_options
@scheduler_option
def command(
    name: str,
    namespace: str,
    plan: bool,
    no_estimate: bool,
    kubeconfig: Path | None,
    context: str,
    scheduler_name: str,
) -> None:
    """Wake parked work: it gets its pods back, which wait in their queue as new work does.

    NAME is as `gpufleet parked` shows it, or KIND/NAME. A gang comes back whole. Before, the engine says when
    and where it would start, on a copy of the cluster.
    """
    from gpufleet.cli.parked_output import show_estimate, show_wake
    from gpufleet.kube.connection import ClusterChoice
    from gpufleet.operator.parking.questions import wake

    if plan and no_estimate:
        raise click.UsageError("--plan is the estimate, which --no-estimate leaves out")
    cluster = ClusterChoice(kubeconfig, context, namespace)
    if not no_estimate:
        show_estimate(_estimate(cluster, name, scheduler_name))
    if not plan:
        show_wake(wake(cluster, name))


def _estimate(cluster: "ClusterChoice", name: str, scheduler_name: str) -> tuple[str, ...]:
    """When and where the work would start, in sentences."""
    from gpufleet.cli.parked_output import estimate_lines
    from gpufleet.cluster.settings import Settings
    from gpufleet.model.model_errors import InputError, WorldError
    from gpufleet.operator.parking.questions import manifests_to_wake
    from gpufleet.whatif.command import of_cluster
    from gpufleet.whatif.request import Request, Submitted

    work, namespace = manifests_to_wake(cluster, name)
    if not work:
        return ("No estimate: KServe makes the pods of an InferenceService, and they are not known before.",)
    request = Request(submit=(Submitted(name, work),), namespace=namespace)
    settings = Settings(identity="wake", scheduler_name=scheduler_name)
    try:
        return tuple(estimate_lines(of_cluster(request, cluster, settings)))
    except (InputError, WorldError) as error:
        # Work may be another scheduler's, and a right to wake it is no right to read the whole cluster.
        return (f"No estimate: {error}",)
