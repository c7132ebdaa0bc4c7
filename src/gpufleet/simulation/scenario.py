"""One run from a seed: a cluster, its users, scheduler processes, and the faults that were asked for.

Faults start after a while and end; then everything is left alone until the world should have settled,
and the judge reads the history. The same seed gives the same run, byte for byte: ``Outcome.digest``.
``world`` is what runs.
"""

import asyncio
import hashlib
from collections.abc import Callable, Iterable, Sequence
from random import Random
from typing import Protocol, runtime_checkable

import msgspec

from gpufleet.simulation import (
    cluster_recipe,
    history,
    invariants,
    priority_recipe,
    team_recipe,
    virtual_loop,
)
from gpufleet.simulation.admission_policies import SCHEDULER_USER
from gpufleet.simulation.faults.interference import Fault, FaultyTransport
from gpufleet.simulation.history import History, Rules
from gpufleet.simulation.invariants import Broken
from gpufleet.simulation.virtual_loop import VirtualLoop
from gpufleet.simulation.volume_actors import refuses_none
from gpufleet.simulation.world import Happened, RunPlan, Scheduler, World

REFUSED_VOLUMES = 0.3
"""How often the provisioner turns a node down."""


@runtime_checkable
class SelfRecorded(Protocol):
    """A scheduler that can tell afterwards what broke inside, where the judge cannot look."""

    def broken(self) -> Iterable[Broken]:
        """What broke since this was asked last."""
        ...


class RunObserver(Protocol):
    """Looks on at a run and does nothing to it."""

    def watch(self, world: World) -> None:
        """Look on from the beginning of a run."""
        ...

    def broken(self) -> Iterable[Broken]:
        """What it saw broken in the last run."""
        ...

    def summary(self) -> str:
        """How much it looked at, in all runs."""
        ...


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


class ScenarioRun:
    """One run of a world, with its faults and with what looks on."""

    def __init__(
        self,
        loop: VirtualLoop,
        seed: int,
        plan: RunPlan,
        scheduler: Scheduler,
        faults: Sequence[Fault],
        observer: RunObserver | None = None,
    ) -> None:
        self.faults = tuple(faults)
        self.observer = observer
        self.world = World(
            loop, seed, plan, scheduler, lambda way, process: FaultyTransport(way, self.faults, process)
        )

    async def run(self) -> Outcome:
        """The whole run."""
        world = self.world
        if self.observer is not None:
            self.observer.watch(world)
        cluster_recipe.build(world.server, world.plan.recipe, world.random)
        team_recipe.build_teams(world.server, world.plan.recipe)
        reports = world.server.store.all(history.NODE_DEVICES)
        world.reported = {name: report["spec"] for (_, name), report in reports.items()}
        # Chance of its own: the draws of faults do not shift which volumes are refused.
        moody = Random(f"{world.seed}/provisioner")
        world.volumes.refuses = lambda _claim, _node: moody.random() < REFUSED_VOLUMES
        for fault in self.faults:
            await fault.prepare(world)
        acting = [world.loop.create_task(one.run()) for one in (world.actors, world.volumes, world.budgets)]
        world.start_schedulers()
        arrivals = cluster_recipe.arrivals(world.plan.recipe, world.random)
        arrivals += team_recipe.team_arrivals(world.plan.recipe, world.random)
        arrivals += priority_recipe.priority_arrivals(world.plan.recipe, world.random)
        for at_s, arrival in arrivals:
            world.loop.call_later(at_s, cluster_recipe.ask_for, world.actors, arrival)
        await asyncio.sleep(world.plan.faults_from_s)
        driving = [world.loop.create_task(fault.drive(world)) for fault in self.faults]
        for fault in self.faults:
            fault.active = True
        await asyncio.sleep(world.plan.faults_last_s)
        for fault in self.faults:
            fault.active = False
            await fault.undo(world)
        for task in driving:
            task.cancel()
        # Waited for, so that a fault that failed by itself is raised below and not lost with the cancelled
        # ones.
        await asyncio.gather(*driving, return_exceptions=True)
        _raise_first(driving)
        world.volumes.refuses = refuses_none
        blinding = [fault.blinds_s for fault in self.faults if fault.blinds_s is not None]
        world.blind_until_s = world.loop.time() + max(blinding) if blinding else 0.0
        # Work that still comes after the faults disturbs the calm as well.
        calm_since_s = max(world.loop.time(), world.plan.recipe.arrive_within_s)
        await asyncio.sleep(world.plan.calm_s)
        world.over = True
        for task in acting:
            task.cancel()
        return self._judge(calm_since_s)

    def _judge(self, calm_since_s: float) -> Outcome:
        world = self.world
        rules = Rules(
            scheduler_name=world.plan.recipe.scheduler_name,
            scheduler_users=frozenset({SCHEDULER_USER}),
            gang_deadline_s=world.plan.gang_deadline_s,
            settle_s=world.plan.settle_s,
            calm_since_s=calm_since_s,
            blind_until_s=world.blind_until_s,
            poisoned=frozenset(world.poisoned),
            swapped=frozenset(world.swapped),
        )
        found = history.of_server(world.server, rules)
        pods = found.final(history.PODS).values()
        inside = world.scheduler.broken() if isinstance(world.scheduler, SelfRecorded) else ()
        seen = () if self.observer is None else self.observer.broken()
        return Outcome(
            world.seed,
            tuple(fault.name for fault in self.faults),
            (*world.crashes, *inside, *seen, *invariants.judge(found)),
            _digest(found),
            sum(bool(pod["spec"].get("nodeName")) for pod in pods),
            sum(not pod["spec"].get("nodeName") for pod in pods),
            world.loop.time(),
            sum(one.starts - 1 for one in world.processes),
            {fault.name: fault.acted for fault in self.faults},
            tuple(world.happened),
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
        # A fault that finds too little to disturb would prove nothing.
        needed = max([chosen.schedulers, *(fault.schedulers for fault in faults)])
        lasts_s = max([chosen.faults_last_s, *(fault.lasts_s for fault in faults)])
        fitted = msgspec.structs.replace(chosen, schedulers=needed, faults_last_s=lasts_s)
        return await ScenarioRun(loop, seed, fitted, scheduler, faults, observer).run()

    return virtual_loop.run(work, seed)
