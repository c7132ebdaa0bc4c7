"""The live scheduler as a process of a simulated run: the very service that a cluster runs.

Nothing of it is replaced. Its transport, clock and chance are the simulation's, and the loop that it
runs on is ``virtual_loop``. ``LIVE`` is what it is put through: more kinds of work than the plain
``Plan``, and a deadline of gangs short enough to pass within a run.
"""

from random import Random

from gpufleet.kube.clock import Clock
from gpufleet.kube.transport import Transport
from gpufleet.scheduler.service import run
from gpufleet.scheduler.settings import Settings
from gpufleet.simulation.cluster_recipe import Recipe
from gpufleet.simulation.scenario import Plan

LIVE = Plan(recipe=Recipe(claims=3, drains=2, arrive_within_s=40.0), gang_deadline_s=60.0)


async def live_scheduler(identity: str, transport: Transport, clock: Clock, random: Random, /) -> None:
    """One start of the service; ends as the service ends."""
    await run(transport, clock, random, Settings(identity, gang_deadline_s=LIVE.gang_deadline_s))
