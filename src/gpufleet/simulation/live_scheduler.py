"""The live scheduler as a process of a simulated run: the very service that a cluster runs.

Nothing of it is replaced. Its transport, clock and chance are the simulation's, and the loop that it
runs on is ``virtual_loop``.
"""

from random import Random

from gpufleet.kube.clock import Clock
from gpufleet.kube.transport import Transport
from gpufleet.scheduler.service import run
from gpufleet.scheduler.settings import Settings


async def live_scheduler(identity: str, transport: Transport, clock: Clock, random: Random, /) -> None:
    """One start of the service; ends as the service ends."""
    await run(transport, clock, random, Settings(identity))
