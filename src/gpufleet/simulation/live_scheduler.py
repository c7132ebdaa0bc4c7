"""The live scheduler as a process of a simulated run: the very service that a cluster runs.

Nothing of it is replaced. Its transport, clock and chance are the simulation's, and the loop that it
runs on is ``virtual_loop``. Every step of its engine is recorded; when the run is over each life's
engine is run anew from its events alone, and has to say the same, byte for byte (I8).

``LIVE`` is what it is put through: more kinds of work than the plain ``RunPlan``, and a deadline of gangs
short enough to pass within a run. ``TEAMS`` is about queues that take back from each other, ``PRIORITIES``
about work of no queue that makes room by priority.
"""

from collections.abc import Iterable, Iterator
from random import Random

import msgspec

from gpufleet.cluster.settings import Settings
from gpufleet.engine.event import Event
from gpufleet.engine.instruction import AnyInstruction
from gpufleet.engine.policy import find_policy
from gpufleet.engine.preempt.by_name import find_search
from gpufleet.engine.scheduler import Engine
from gpufleet.engine.work_slices import SLICE_WORK
from gpufleet.kube.clock import Clock
from gpufleet.kube.transport import Transport
from gpufleet.scheduler.rounds import Rounds
from gpufleet.scheduler.service import run
from gpufleet.scheduler.status import Status
from gpufleet.simulation.cluster_recipe import Recipe
from gpufleet.simulation.faults.catalogue import BY_NAME
from gpufleet.simulation.invariants import Broken
from gpufleet.simulation.world import RunPlan

LIVE = RunPlan(recipe=Recipe(claims=3, drains=2, arrive_within_s=40.0), gang_deadline_s=60.0)
TEAMS = RunPlan(
    recipe=Recipe(
        nodes=2,
        gpus_per_node=4,
        single_pods=0,
        workloads=0,
        gangs=0,
        too_large_pods=0,
        teams=2,
        arrive_within_s=40.0,
    ),
    gang_deadline_s=60.0,
    calm_s=400.0,
    settle_s=300.0,
)
"""One team has borrowed all GPUs, and others want back what they are owed."""


PRIORITIES = RunPlan(
    recipe=Recipe(
        nodes=3,
        gpus_per_node=4,
        single_pods=0,
        workloads=0,
        gangs=0,
        too_large_pods=0,
        important_pods=8,
        arrive_within_s=50.0,
    ),
    gang_deadline_s=60.0,
)
"""Pods of no queue fill the cluster, and work of higher priority makes room for itself."""

PLANS = {"priorities": PRIORITIES}
"""Plans that a command line may ask for, whatever the faults."""


def plan_for(names: Iterable[str]) -> RunPlan:
    """The plan in which these faults have something to disturb."""
    return TEAMS if any(BY_NAME[name].of_teams for name in names) else LIVE


class RecordedStep(msgspec.Struct):
    """One step of an engine, and what its slices said, each in bytes of its own."""

    at_us: int
    events: tuple[Event, ...]
    said: list[bytes]
    goes_on: bool


class Life(msgspec.Struct):
    """All steps of one leadership of one process."""

    identity: str
    policy: str
    victims: str
    steps: list[RecordedStep] = []
    status: Status = msgspec.field(default_factory=Status)

    def record(
        self, at_us: int, events: tuple[Event, ...], instructions: list[AnyInstruction], *, goes_on: bool
    ) -> None:
        """Keep one step of the engine, or one more slice of it: its events and what it said."""
        if not (self.steps and self.steps[-1].goes_on):
            self.steps.append(RecordedStep(at_us, events, [], goes_on))
        self.steps[-1].said.append(msgspec.json.encode(instructions))
        self.steps[-1].goes_on = goes_on

    def broken(self) -> Iterator[Broken]:
        """I8: the first step at which an engine that hears the same says something else."""
        engine = Engine(find_policy(self.policy), victims=find_search(self.victims))
        for number, step in enumerate(self.steps):
            slices = engine.slices(step.at_us, step.events, SLICE_WORK)
            said = [msgspec.json.encode(part) for part in slices]
            # A process that ended within a step kept what it had decided until then.
            if said[: len(step.said)] != step.said or (len(said) > len(step.said) and not step.goes_on):
                words = f"{self.identity}, step {number}: {step.said!r} when it ran, {said!r} when run again"
                yield Broken("I8", step.at_us / 1_000_000, 0, words)
                return


class LiveScheduler:
    """Starts processes of the scheduler; ``settings`` but for the identity are the same for all."""

    def __init__(self, settings: Settings | None = None) -> None:
        self.settings = settings or Settings("", gang_deadline_s=LIVE.gang_deadline_s)
        self.lives: list[Life] = []

    async def __call__(self, identity: str, transport: Transport, clock: Clock, random: Random, /) -> None:
        """One start of the service; ends as the service ends."""
        settings = msgspec.structs.replace(self.settings, identity=identity)
        life = Life(identity, settings.policy, settings.victims)
        self.lives.append(life)
        await run(transport, clock, random, settings, record=life.record, status=life.status)

    def rounds_of(self, identity: str) -> Rounds | None:
        """The rounds of a process that leads and has listed everything."""
        return next((one.status.rounds for one in self.lives if one.identity == identity), None)

    def broken(self) -> Iterator[Broken]:
        """What broke inside, of all lives since this was asked last."""
        lives, self.lives = self.lives, []
        for life in lives:
            yield from life.broken()
