"""A drain as a command: connects, looks whether a scheduler leads, and ends well when asked to.

A signal does not break a request off. Nodes stay closed then, and moves that were asked for and not begun
are asked for no more.
"""

import asyncio
import signal

from gpufleet.cluster.scheduler_lease import who_leads
from gpufleet.cluster.settings import Settings
from gpufleet.drain.carrying_out import Drainer, DrainOptions, StoppedError, Tell
from gpufleet.drain.facts import DrainRequest
from gpufleet.drain.plan import DrainPlan, Way
from gpufleet.kube.connection import ClusterChoice, connect
from gpufleet.model.model_errors import WorldError

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
"""All of them end the drain between two requests."""


def apply_drain(
    plan: DrainPlan,
    request: DrainRequest,
    cluster: ClusterChoice,
    settings: Settings,
    options: DrainOptions,
    tell: Tell,
) -> None:
    """Empty the nodes of a plan on the chosen cluster, in its order, and tell of it.

    Raises NotDrainedError where work is left, and KeyboardInterrupt after a signal.
    """
    try:
        asyncio.run(_apply(plan, request, cluster, settings, options, tell))
    except StoppedError as stopped:
        tell(str(stopped))
        raise KeyboardInterrupt from stopped


async def _apply(
    plan: DrainPlan,
    request: DrainRequest,
    cluster: ClusterChoice,
    settings: Settings,
    options: DrainOptions,
    tell: Tell,
) -> None:
    stop = asyncio.Event()
    for number in SIGNALS:
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    async with connect(cluster) as (client, _, _):
        leading = await who_leads(client, settings)
        # Only work that moves needs a scheduler: it keeps the places.
        if leading.problem and any(work.way is Way.MOVES for work in plan.work):
            raise WorldError(f"no node is drained, because no scheduler keeps places: {leading.problem}")
        drainer = Drainer(client, request, settings, options, tell, stop)
        try:
            await drainer.run([node.node for node in plan.nodes])
        # Also where it is cancelled: a move that has not begun must not go on without its drain.
        except BaseException:
            await drainer.take_back()
            raise
