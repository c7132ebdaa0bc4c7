"""One story of a node, told again and again: each time the agent dies at another of its steps.

A story without a death counts the steps: all writes to the disk and to the API server and all calls between
kubelet and agent, each before and after. Then the story is told once for each step, and the agent dies there.
In the story pods start, run, end and are deleted by force, containers start again, and the kubelet restarts
with and without its checkpoint. Where the book has no free device, the story waits for one; a container that
could not start is not ended. ``judge`` holds the promises when all is at rest.
"""

import asyncio
import tempfile
from collections.abc import Iterator
from pathlib import Path

import msgspec

from gpufleet.model.device import WHOLE_GPU_MILLI
from gpufleet.simulation import virtual_loop
from gpufleet.simulation.invariants import Broken
from gpufleet.simulation.node.world import RUNS_ON_S, NodeWorld
from gpufleet.simulation.refusal import JsonObject
from gpufleet.simulation.simulation_errors import SimulationError
from gpufleet.simulation.virtual_loop import VirtualLoop

STARTS_AGAIN_AFTER_S = 1.0
POLL_EVERY_S = 0.5
TRIES_MAX = 240
"""An agent that starts again reports its devices within far less than these two minutes."""

PAUSE_S = 2.0
"""Between two happenings: the kubelet admits and starts a pod within less."""

CALM_S = 60.0
"""Longer than any pause after a failure, and than a device counts as held whose pod is gone."""


class StoryOutcome(msgspec.Struct, frozen=True):
    """What came of telling the story once; ``deaths`` are the steps at which the agent died."""

    shares: bool
    deaths: tuple[str, ...]
    steps: tuple[str, ...]
    broken: tuple[Broken, ...]
    running: int
    story: tuple[str, ...]


class StoryRun:
    """The story, told once. ``dies_at`` is the number of the step at which the agent dies, None for never."""

    def __init__(self, loop: VirtualLoop, folder: Path, *, shares: bool, dies_at: int | None) -> None:
        self.world = NodeWorld(loop, "story", folder, shares=shares, on_death=lambda: STARTS_AGAIN_AFTER_S)
        self.world.crashes.left = dies_at
        self.milli = 250 if shares else WHOLE_GPU_MILLI

    async def run(self) -> StoryOutcome:
        """From the first start of the agent to the last judgement."""
        world = self.world
        acting = world.loop.create_task(world.kubelet.run())
        world.start_agent()
        await self._pods_come_and_go()
        await self._kubelet_forgets()
        steps = tuple(world.crashes.passed)
        # What comes now is the judge's own doing: the agent lives, so that it can be judged.
        world.crashes.left = None
        await asyncio.sleep(CALM_S)
        world.judge_rest()
        running = len(world.kubelet.using)
        await world.restart_all()
        await world.serve_once_more(self.milli)
        world.over = True
        acting.cancel()
        return StoryOutcome(
            world.shares,
            tuple(world.crashed),
            steps,
            tuple(world.broken),
            running,
            tuple(world.story),
        )

    async def _pods_come_and_go(self) -> None:
        lasting = await self._bind(1, RUNS_ON_S)
        await asyncio.sleep(PAUSE_S)
        await self._bind(1 if self.world.shares else 2, PAUSE_S)
        await asyncio.sleep(2 * PAUSE_S)
        self._end_container(lasting)
        await asyncio.sleep(PAUSE_S)
        deleted = await self._bind(1, RUNS_ON_S)
        await asyncio.sleep(PAUSE_S)
        self.world.delete_by_force(deleted)
        await asyncio.sleep(PAUSE_S)

    async def _kubelet_forgets(self) -> None:
        # All that is free, so that a device is given twice where one that is held is reported free.
        lasting = await self._bind(1 if self.world.shares else 2, RUNS_ON_S)
        await asyncio.sleep(PAUSE_S)
        for forgets in (True, False):
            self.world.note(f"the kubelet restarts{' without its checkpoint' if forgets else ''}")
            self.world.kubelet.stop()
            await asyncio.sleep(1.0)
            self.world.kubelet.restart(forgets=forgets)
            await asyncio.sleep(PAUSE_S)
            self._end_container(lasting)
            await asyncio.sleep(PAUSE_S)

    async def _bind(self, size: int, runs_for_s: float) -> JsonObject:
        """Bind a pod as soon as its devices are free."""
        for _ in range(TRIES_MAX):
            free = self.world.free_devices(self.milli)
            if len(free) >= size:
                return self.world.bind_granted(free[:size], self.milli, runs_for_s)
            await asyncio.sleep(POLL_EVERY_S)
        raise SimulationError(f"no {size} devices are free within {TRIES_MAX * POLL_EVERY_S:g} s")

    def _end_container(self, pod: JsonObject) -> None:
        uid = pod["metadata"]["uid"]
        if uid in self.world.kubelet.using:
            self.world.note(f"the container of {uid} ends")
            self.world.kubelet.end_container(uid)


def run_story(*, shares: bool, dies_at: int | None = None) -> StoryOutcome:
    """Tell the story once. Raises SimulationError where the run itself fails."""
    with tempfile.TemporaryDirectory(prefix="gpufleet-node-") as folder:

        async def work(loop: VirtualLoop) -> StoryOutcome:
            return await StoryRun(loop, Path(folder), shares=shares, dies_at=dies_at).run()

        return virtual_loop.run(work, 0, threads=True)


def run_every_death(*, shares: bool, only_after: bool = False) -> Iterator[tuple[str, StoryOutcome]]:
    """Each of the steps, with the story in which the agent dies there.

    ``only_after`` leaves out the moments before a step. What disk, API server and kubelet have is then as it
    was after the step before.
    """
    # The story without a death has all steps: until its death each telling is the same.
    for number, step in enumerate(run_story(shares=shares).steps):
        if not (only_after and step.startswith("before")):
            yield step, run_story(shares=shares, dies_at=number)
