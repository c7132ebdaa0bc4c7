"""The moves of a plan as a command: connects, looks whether a scheduler leads, and ends well when asked to.

A signal does not break a request off: the one under way ends, the node is opened again, and then the command
ends. A second signal changes nothing of that.
"""

import asyncio
import signal

from gpufleet.cluster.scheduler_lease import who_leads
from gpufleet.cluster.settings import Settings
from gpufleet.defragment.moving import Mover, StoppedError, Tell
from gpufleet.defragment.plan import DefragmentPlan
from gpufleet.kube.connection import ClusterChoice, connect
from gpufleet.model.model_errors import WorldError

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
"""All of them end the moves between two requests, and the node is opened again."""


def apply_plan(
    plan: DefragmentPlan, cluster: ClusterChoice, settings: Settings, settle_s: float, tell: Tell
) -> None:
    """Make the moves on the chosen cluster, and tell of each.

    Raises MoveFailedError where one does not come out as planned, and KeyboardInterrupt after a signal.
    """
    try:
        asyncio.run(_apply(plan, cluster, settings, settle_s, tell))
    except StoppedError as stopped:
        tell(str(stopped))
        raise KeyboardInterrupt from stopped


async def _apply(
    plan: DefragmentPlan, cluster: ClusterChoice, settings: Settings, settle_s: float, tell: Tell
) -> None:
    stop = asyncio.Event()
    for number in SIGNALS:
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    async with connect(cluster) as (client, _, _):
        leading = await who_leads(client, settings)
        if leading.problem:
            raise WorldError(f"no pod is moved, because no scheduler would place it again: {leading.problem}")
        await Mover(client, settle_s, tell, stop).make(plan.moves)
