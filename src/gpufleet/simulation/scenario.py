"""One run from a seed: a cluster, its users, scheduler processes, and the faults that were asked for.

Faults start after a while and end; then everything is left alone until the world should have settled,
and the judge reads the history. The same seed gives the same run, byte for byte: ``Outcome.digest``.
"""

import asyncio
import hashlib
import traceback
from collections.abc import Awaitable, Callable, Iterable, Sequence
from random import Random
from typing import NamedTuple, Protocol, runtime_checkable

import msgspec

from gpufleet.kube.clock import Clock
from gpufleet.kube.transport import Transport
from gpufleet.model.model_errors import WorldError
from gpufleet.simulation import (
    cluster_recipe,
    history,
    invariants,
    priority_recipe,
    team_recipe,
    virtual_loop,
)
from gpufleet.simulation.actors import Actors
from gpufleet.simulation.admission import LEASE_NAME, LEASE_NAMESPACE, SCHEDULER_USER, Policies
from gpufleet.simulation.api_server import ApiServer
from gpufleet.simulation.budget_actor import BudgetActor
from gpufleet.simulation.cluster_recipe import Recipe
from gpufleet.simulation.faults.interference import Fault, FaultyTransport
from gpufleet.simulation.history import History, Rules
from gpufleet.simulation.invariants import Broken
from gpufleet.simulation.network import Delays, SimulatedTransport
from gpufleet.simulation.process import SimulatedProcess
from gpufleet.simulation.refusal import JsonObject
from gpufleet.simulation.virtual_loop import VirtualClock, VirtualLoop
from gpufleet.simulation.volume_actors import VolumeActors, refuses_none

RESTART_WITHIN_S = (0.5, 5.0)
REFUSED_VOLUMES = 0.3
"""How often the provisioner turns a node down."""


class Scheduler(Protocol):
    """How a scheduler process is started; it runs until it is cancelled or ends by itself."""

    def __call__(
        self, identity: str, transport: Transport, clock: Clock, random: Random, /
    ) -> Awaitable[None]:
        """Run the scheduler until it is cancelled or ends."""
        ...


@runtime_checkable
class SelfRecorded(Protocol):
    """A scheduler that can tell afterwards what broke inside, where the judge cannot look."""

    def broken(self) -> Iterable[Broken]:
        """What broke since this was asked last."""
        ...


class RunObserver(Protocol):
    """Looks on at a run and does nothing to it."""

    def watch(self, world: "World") -> None:
        """Look on from the beginning of a run."""
        ...

    def broken(self) -> Iterable[Broken]:
        """What it saw broken in the last run."""
        ...

    def summary(self) -> str:
        """How much it looked at, in all runs."""
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


class Outcome(msgspec.Struct, frozen=True):
    """What came of a run."""

    seed: int
    faults: tuple[str, ...]
    broken: tuple[Broken, ...]
    digest: str
    bound: int
    waiting: int
    virtual_s: float
    restarts: int
    acted: dict[str, int]
    happened: tuple[Happened, ...]
    history: History

    @property
    def held(self) -> bool:
        """Whether every promise held."""
        return not self.broken


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
        transport = FaultyTransport(way, self.world.faults, self)
        work = self.world.scheduler(self.identity, transport, self.clock, random)
        self.task = self.process.start(_as_coroutine(work))
        self.task.add_done_callback(self._ended)

    def kill(self) -> None:
        """SIGKILL, and a supervisor that starts it anew."""
        self.world.tell(f"{self.identity} is killed")
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
        self.world.tell(f"{self.identity} ends" + (f": {error!r}" if error is not None else ""))
        if error is not None and not isinstance(error, WorldError):
            self.world.crashed(self.identity, error)
        self._restart()


async def _as_coroutine(work: Awaitable[None]) -> None:
    await work


class World:
    """What faults may lay hands on."""

    def __init__(
        self,
        loop: VirtualLoop,
        seed: int,
        plan: RunPlan,
        scheduler: Scheduler,
        faults: Sequence[Fault],
        observer: RunObserver | None = None,
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
        self.observer = observer
        self.faults = tuple(faults)
        self.processes: list[SchedulerProcess] = []
        self.poisoned: set[str] = set()
        self.swapped: set[str] = set()
        self.reported: dict[str, JsonObject] = {}
        self.happened: list[Happened] = []
        self.crashes: list[Broken] = []
        self.over = False
        self.blind_until_s = 0.0

    def tell(self, words: str) -> None:
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

    async def run(self) -> Outcome:
        """The whole run."""
        if self.observer is not None:
            self.observer.watch(self)
        cluster_recipe.build(self.server, self.plan.recipe, self.random)
        team_recipe.build_teams(self.server, self.plan.recipe)
        reports = self.server.store.all(history.NODE_DEVICES)
        self.reported = {name: report["spec"] for (_, name), report in reports.items()}
        # Chance of its own: the draws of faults do not shift which volumes are refused.
        moody = Random(f"{self.seed}/provisioner")
        self.volumes.refuses = lambda _claim, _node: moody.random() < REFUSED_VOLUMES
        for fault in self.faults:
            await fault.prepare(self)
        acting = [self.loop.create_task(one.run()) for one in (self.actors, self.volumes, self.budgets)]
        self.processes.extend(SchedulerProcess(self, number) for number in range(self.plan.schedulers))
        arrivals = cluster_recipe.arrivals(self.plan.recipe, self.random)
        arrivals += team_recipe.team_arrivals(self.plan.recipe, self.random)
        arrivals += priority_recipe.priority_arrivals(self.plan.recipe, self.random)
        for at_s, arrival in arrivals:
            self.loop.call_later(at_s, cluster_recipe.ask_for, self.actors, arrival)
        await asyncio.sleep(self.plan.faults_from_s)
        driving = [self.loop.create_task(fault.drive(self)) for fault in self.faults]
        for fault in self.faults:
            fault.active = True
        await asyncio.sleep(self.plan.faults_last_s)
        for fault in self.faults:
            fault.active = False
            await fault.undo(self)
        for task in driving:
            task.cancel()
        # Waited for, so that a fault that failed by itself is raised below and not lost with the cancelled
        # ones.
        await asyncio.gather(*driving, return_exceptions=True)
        _raise_first(driving)
        self.volumes.refuses = refuses_none
        blinding = [fault.blinds_s for fault in self.faults if fault.blinds_s is not None]
        self.blind_until_s = self.loop.time() + max(blinding) if blinding else 0.0
        calm_since_s = max(self.loop.time(), self.plan.recipe.arrive_within_s)
        await asyncio.sleep(self.plan.calm_s)
        self.over = True
        for task in acting:
            task.cancel()
        return self._judge(calm_since_s)

    def _judge(self, calm_since_s: float) -> Outcome:
        rules = Rules(
            scheduler_name=self.plan.recipe.scheduler_name,
            scheduler_users=frozenset({SCHEDULER_USER}),
            gang_deadline_s=self.plan.gang_deadline_s,
            settle_s=self.plan.settle_s,
            calm_since_s=calm_since_s,
            blind_until_s=self.blind_until_s,
            poisoned=frozenset(self.poisoned),
            swapped=frozenset(self.swapped),
        )
        found = history.of_server(self.server, rules)
        pods = found.final(history.PODS).values()
        inside = self.scheduler.broken() if isinstance(self.scheduler, SelfRecorded) else ()
        seen = () if self.observer is None else self.observer.broken()
        return Outcome(
            self.seed,
            tuple(fault.name for fault in self.faults),
            (*self.crashes, *inside, *seen, *invariants.judge(found)),
            _digest(found),
            sum(bool(pod["spec"].get("nodeName")) for pod in pods),
            sum(not pod["spec"].get("nodeName") for pod in pods),
            self.loop.time(),
            sum(one.starts - 1 for one in self.processes),
            {fault.name: fault.acted for fault in self.faults},
            tuple(self.happened),
            found,
        )


def _raise_first(tasks: Sequence["asyncio.Task[None]"]) -> None:
    """A fault that failed makes the run worthless."""
    for task in tasks:
        if not task.cancelled() and (error := task.exception()) is not None:
            raise error


def _digest(found: History) -> str:
    """The whole history as one number: equal runs have equal digests."""
    digest = hashlib.sha256()
    for written in found.writes:
        digest.update(msgspec.json.encode((written.revision, written.at_s, written.name, written.value)))
    for request in found.requests:
        digest.update(msgspec.json.encode((request.at_s, request.method, request.target, request.code)))
    return digest.hexdigest()


def run_scenario(
    scheduler: Scheduler,
    seed: int,
    make_faults: Callable[[Random], Sequence[Fault]] = lambda _: (),
    plan: RunPlan | None = None,
    observer: RunObserver | None = None,
) -> Outcome:
    """Run a scheduler through one seed. Raises SimulationError where the run itself fails."""
    chosen = RunPlan() if plan is None else plan

    async def work(loop: VirtualLoop) -> Outcome:
        faults = make_faults(Random(f"{seed}/faults"))
        needed = max([chosen.schedulers, *(fault.schedulers for fault in faults)])
        lasts_s = max([chosen.faults_last_s, *(fault.lasts_s for fault in faults)])
        fitted = msgspec.structs.replace(chosen, schedulers=needed, faults_last_s=lasts_s)
        return await World(loop, seed, fitted, scheduler, faults, observer).run()

    return virtual_loop.run(work, seed)
