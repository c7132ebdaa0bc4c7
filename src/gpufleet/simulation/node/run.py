"""One run of a node from a seed: pods come and go, the agent dies at its writes, the kubelet forgets.

Then everything is left alone until all should agree, and the judge looks (``judge``). The same seed gives the
same run. ``world`` is the node.
"""

import asyncio
import shutil
import tempfile
from pathlib import Path
from random import Random

import msgspec

from gpufleet.model.device import WHOLE_GPU_MILLI
from gpufleet.simulation import virtual_loop
from gpufleet.simulation.invariants import Broken
from gpufleet.simulation.node.world import RUNS_ON_S, NodeWorld
from gpufleet.simulation.refusal import JsonObject
from gpufleet.simulation.virtual_loop import VirtualLoop

LEARNS_WITHIN_S = 10.0
"""So long after its folder was lost, an agent has started again and knows the pods that run."""

FOLDER_LOST = 0.1
"""How often the agent's folder is lost with its process."""

STARTS_AGAIN_WITHIN_S = (0.5, 4.0)


class NodePlan(msgspec.Struct, frozen=True):
    """How a run goes: trouble from ``trouble_from_s`` for ``trouble_for_s``, then calm until all agree."""

    trouble_from_s: float = 5.0
    trouble_for_s: float = 90.0
    calm_s: float = 120.0
    crash_one_in: int = 25
    """The agent dies at one of so many of its writes."""


class NodeOutcome(msgspec.Struct, frozen=True):
    """What came of a run."""

    seed: int
    shares: bool
    broken: tuple[Broken, ...]
    crashes: tuple[str, ...]
    kubelet_starts: int
    started: int
    refused: int
    steps: int
    story: tuple[str, ...]

    @property
    def held(self) -> bool:
        """Whether every promise held."""
        return not self.broken


class NodeRun:
    """The trouble of one run."""

    def __init__(self, loop: VirtualLoop, seed: int, folder: Path, plan: NodePlan) -> None:
        self.seed = seed
        self.plan = plan
        self.random = Random(f"{seed}/node")
        shares = bool(self.random.getrandbits(1))
        self.world = NodeWorld(loop, str(seed), folder, shares=shares, on_death=self._on_death)
        self.remembers_from_s = 0.0

    async def run(self) -> NodeOutcome:
        """The whole run."""
        world = self.world
        acting = world.loop.create_task(world.kubelet.run())
        world.start_agent()
        await asyncio.sleep(self.plan.trouble_from_s)
        troubles = [
            world.loop.create_task(one) for one in (self._place(), self._forget(), self._crash_often())
        ]
        await asyncio.sleep(self.plan.trouble_for_s)
        for one in troubles:
            one.cancel()
        await asyncio.gather(*troubles, return_exceptions=True)
        world.crashes.left = None
        if not world.kubelet.up:
            world.kubelet.restart(forgets=False)
        await asyncio.sleep(self.plan.calm_s)
        world.judge_rest()
        await world.restart_all()
        await world.serve_once_more(self._thousandths())
        world.over = True
        acting.cancel()
        return NodeOutcome(
            self.seed,
            world.shares,
            tuple(world.broken),
            tuple(world.crashed),
            world.kubelet.starts,
            world.started,
            len(world.kubelet.failed),
            len(world.crashes.passed),
            tuple(world.story),
        )

    def _on_death(self) -> float:
        world = self.world
        # Of pods that left the API while their containers run, the folder is the only memory.
        vanished = world.kubelet.using.keys() - world.kubelet.pods.keys()
        if self.random.random() < FOLDER_LOST and not vanished:
            world.note("its folder is lost")
            shutil.rmtree(world.folder / "state", ignore_errors=True)
            self.remembers_from_s = world.loop.time() + LEARNS_WITHIN_S
        return self.random.uniform(*STARTS_AGAIN_WITHIN_S)

    async def _crash_often(self) -> None:
        while True:
            await asyncio.sleep(self.random.uniform(0.0, 6.0))
            # One death at a time: a new countdown would put off the one that is under way.
            if self.world.crashes.left is None and self.world.process.alive:
                self.world.crashes.left = self.random.randrange(self.plan.crash_one_in)

    async def _forget(self) -> None:
        """The kubelet restarts now and then, and may lose its checkpoint; a container starts again."""
        while True:
            await asyncio.sleep(self.random.uniform(5.0, 25.0))
            if self.random.random() < 0.5 and self.world.kubelet.using:
                uid = self.random.choice(sorted(self.world.kubelet.using))
                if uid in self.world.kubelet.pods:
                    self.world.note(f"the container of {uid} ends")
                    self.world.kubelet.end_container(uid)
                continue
            forgets = self.random.random() < 0.4
            self.world.note(f"the kubelet restarts{' without its checkpoint' if forgets else ''}")
            self.world.kubelet.stop()
            await asyncio.sleep(self.random.uniform(0.5, 4.0))
            self.world.kubelet.restart(forgets=forgets)

    async def _place(self) -> None:
        """Pods are bound, and some are deleted by force."""
        world = self.world
        while True:
            await asyncio.sleep(self.random.uniform(0.2, 4.0))
            running = [pod for pod in world.living() if pod["metadata"]["uid"] in world.kubelet.using]
            if running and self.random.random() < 0.1 and world.loop.time() >= self.remembers_from_s:
                world.delete_by_force(self.random.choice(running))
                continue
            self._place_one()

    def _place_one(self) -> JsonObject | None:
        """Grant what is free and bind a pod; None where too little is free."""
        world, runs_for_s = self.world, self.random.choice((5.0, 20.0, 60.0, RUNS_ON_S))
        # Another scheduler's pod: it has no grant, and gets whatever the kubelet chooses.
        if not world.shares and self.random.random() < 0.15:
            return world.bind(None, 1, runs_for_s)
        size = 1 if world.shares else self.random.choice((1, 1, 2))
        milli = self._thousandths()
        free = world.free_devices(milli)
        if len(free) < size:
            return None
        return world.bind_granted(self.random.sample(free, size), milli, runs_for_s)

    def _thousandths(self) -> int:
        return self.random.choice((250, 500)) if self.world.shares else WHOLE_GPU_MILLI


def run_node(seed: int, plan: NodePlan | None = None) -> NodeOutcome:
    """Run one seed. Raises SimulationError where the run itself fails."""
    with tempfile.TemporaryDirectory(prefix="gpufleet-node-") as folder:

        async def work(loop: VirtualLoop) -> NodeOutcome:
            return await NodeRun(loop, seed, Path(folder), plan or NodePlan()).run()

        return virtual_loop.run(work, seed, threads=True)
