"""The world of a run: the API server, its users and provisioners, the scheduler's processes, and their time.

Faults lay hands on it (``faults``), and ``scenario`` lets it run and has it judged.
"""

import asyncio
import traceback
from collections.abc import Awaitable, Callable
from random import Random
from typing import NamedTuple, Protocol

import msgspec

from gpufleet.kube.clock import Clock
from gpufleet.kube.transport import Transport
from gpufleet.model.model_errors import WorldError
from gpufleet.simulation import history
from gpufleet.simulation.actors import Actors
from gpufleet.simulation.admission_policies import LEASE_NAME, LEASE_NAMESPACE, SCHEDULER_USER, Policies
from gpufleet.simulation.api_server import ApiServer
from gpufleet.simulation.budget_actor import BudgetActor
from gpufleet.simulation.cluster_recipe import Recipe
from gpufleet.simulation.invariants import Broken
from gpufleet.simulation.network import Delays, SimulatedTransport
from gpufleet.simulation.process import SimulatedProcess
from gpufleet.simulation.refusal import JsonObject
from gpufleet.simulation.virtual_loop import VirtualClock, VirtualLoop
from gpufleet.simulation.volume_actors import VolumeActors

RESTART_WITHIN_S = (0.5, 5.0)


class Scheduler(Protocol):
    """How a scheduler process is started; it runs until it is cancelled or ends by itself."""

    def __call__(
        self, identity: str, transport: Transport, clock: Clock, random: Random, /
    ) -> Awaitable[None]:
        """Run the scheduler until it is cancelled or ends."""
        ...


class RunPlan(msgspec.Struct, frozen=True):
    """How a run goes. Faults act from ``faults_from_s`` for ``faults_last_s``; then there is calm."""

    recipe: Recipe = Recipe()
    schedulers: int = 1
    faults_from_s: float = 5.0
    faults_last_s: float = 60.0
    calm_s: float = 240.0
    gang_deadline_s: float = 600.0
    settle_s: float = 120.0
    delays: Delays = Delays()
    policies: bool = True


class Happened(NamedTuple):
    """Something worth telling, and when in virtual time."""

    at_s: float
    words: str

    def __str__(self) -> str:
        """One line of a story."""
        return f"{self.at_s:9.3f} s  {self.words}"


class SchedulerProcess:
    """One replica: started, killed, paused and started again, each time as a new process."""

    def __init__(self, world: "World", number: int) -> None:
        self.world = world
        self.number = number
        self.starts = 0
        self.clock = VirtualClock(world.loop)
        self.process = SimulatedProcess("", world.loop)
        self.task: asyncio.Task[None] | None = None
        self.start()

    @property
    def identity(self) -> str:
        """A name that no other start of any replica had."""
        return f"scheduler-{self.number}-{self.starts}"

    def start(self) -> None:
        """A new process with nothing of the old one."""
        self.starts += 1
        self.process = SimulatedProcess(self.identity, self.world.loop)
        # Drawn here, so that what one process does changes no other's random numbers.
        random = Random(f"{self.world.seed}/{self.identity}")
        way = SimulatedTransport(self.world.server, SCHEDULER_USER, random, self.world.plan.delays)
        transport = self.world.around(way, self)
        work = self.world.scheduler(self.identity, transport, self.clock, random)
        self.task = self.process.start(_as_coroutine(work))
        self.task.add_done_callback(self._ended)

    def kill(self) -> None:
        """SIGKILL, and a supervisor that starts it anew."""
        self.world.note(f"{self.identity} is killed")
        self.process.kill()
        self._restart()

    def _restart(self) -> None:
        delay_s = self.world.random.uniform(*RESTART_WITHIN_S)
        self.world.loop.call_later(delay_s, self.start, context=self.world.loop.own_context)

    def _ended(self, task: asyncio.Task[None]) -> None:
        """A process that ends by itself, as one that lost its leadership does, is started anew."""
        if self.world.over or not self.process.alive or task is not self.task:
            return
        error = None if task.cancelled() else task.exception()
        self.world.note(f"{self.identity} ends" + (f": {error!r}" if error is not None else ""))
        # Failures of the world are the faults' doing; any other error is a mistake of the scheduler.
        if error is not None and not isinstance(error, WorldError):
            self.world.crashed(self.identity, error)
        self._restart()


async def _as_coroutine(work: Awaitable[None]) -> None:
    await work


class World:
    """What faults may lay hands on.

    ``around`` gives each process of the scheduler its way to the API server, around the plain one.
    """

    def __init__(
        self,
        loop: VirtualLoop,
        seed: int,
        plan: RunPlan,
        scheduler: Scheduler,
        around: Callable[[Transport, SchedulerProcess], Transport],
    ) -> None:
        self.loop = loop
        self.seed = seed
        self.plan = plan
        self.random = Random(f"{seed}/world")
        self.clock = VirtualClock(loop)
        self.policies = Policies(guard=plan.policies, fence=plan.policies)
        self.server = ApiServer(self.clock, Random(f"{seed}/server"), self.policies)
        self.actors = Actors(self.server, Random(f"{seed}/actors"))
        self.volumes = VolumeActors(self.server, Random(f"{seed}/volumes"))
        self.budgets = BudgetActor(self.server, Random(f"{seed}/budgets"))
        self.scheduler = scheduler
        self.around = around
        self.processes: list[SchedulerProcess] = []
        self.poisoned: set[str] = set()
        self.swapped: set[str] = set()
        self.reported: dict[str, JsonObject] = {}
        self.happened: list[Happened] = []
        self.crashes: list[Broken] = []
        self.over = False
        self.blind_until_s = 0.0

    def note(self, words: str) -> None:
        """Write down what a fault did, for the story of a failing run."""
        self.happened.append(Happened(self.loop.time(), words))

    def crashed(self, identity: str, error: BaseException) -> None:
        """A process ended for a reason that is no failure of the world: a mistake of its own."""
        place = "".join(traceback.format_tb(error.__traceback__)[-1:]).strip()
        self.crashes.append(Broken("alive", self.loop.time(), 0, f"{identity} ended by {error!r} {place}"))

    def leader(self) -> SchedulerProcess | None:
        """The replica that the Lease names, None where it names none that runs."""
        lease = self.server.store.get(history.LEASES, (LEASE_NAMESPACE, LEASE_NAME))
        holder = (lease or {}).get("spec", {}).get("holderIdentity") or ""
        return next((one for one in self.processes if one.identity in holder), None)

    def start_schedulers(self) -> None:
        """Start as many processes as the plan says."""
        self.processes.extend(SchedulerProcess(self, number) for number in range(self.plan.schedulers))
