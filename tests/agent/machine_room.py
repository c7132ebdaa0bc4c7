"""A simulated machine with the monitor on it, in virtual time; tests tell a story and look.

async def story(room: Room) -> None:
    room.machine.lose("0")
    await room.after(1)
    assert room.verdicts()[0] is Verdict.UNHEALTHY

in_room(story)

``ThreadlessBackend`` stands where ``ThreadedBackend`` stands in the agent, and answers as it does, but for
the threads.
"""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from random import Random

from gpufleet.agent.gpus.gpu_monitor import Codes, GpuMonitor
from gpufleet.agent.gpus.health_record import HealthRecord
from gpufleet.agent.gpus.vendor_monitor import Pace
from gpufleet.agent.state.node_state import Gpu, NodeGpus
from gpufleet.devices.health import Verdict
from gpufleet.devices.simulated.description import read_description
from gpufleet.devices.simulated.machine import Machine, User
from gpufleet.model.identifiers import DeviceId
from gpufleet.simulation.node.threadless_backend import ThreadlessBackend
from gpufleet.simulation.virtual_loop import VirtualClock, VirtualLoop, run

EIGHT = "gpus: [{model: H100-80GB, count: 8, numaNodes: 2}]"


class Room:
    """The machine, the monitor, and all that it ever published.

    With ``state``, a folder, the monitor keeps the cards' health there. ``remembered`` are the errors that
    the API knows of.
    """

    def __init__(self, loop: VirtualLoop, text: str, pace: Pace, state: Path | None = None) -> None:
        self.clock = VirtualClock(loop)
        self.users: list[User] = []
        self.machine = Machine(read_description(text), loop.time, lambda: self.users)
        self.pace = pace
        self.state = state
        self.remembered: dict[DeviceId, tuple[int, ...]] = {}
        self.published: list[tuple[float, NodeGpus]] = []
        self.tasks: list[asyncio.Task[None]] = []
        self.begin("boot-1")

    def begin(self, boot_id: str) -> None:
        """Have a monitor, as a process that starts has one."""
        self.backend = ThreadlessBackend(self.machine, self.clock)
        self.monitor = GpuMonitor(
            "node-1",
            {self.machine.description.vendor: lambda: self.backend},
            self.clock,
            Random(1),
            pace=self.pace,
            boot_id=boot_id,
            record=None if self.state is None else HealthRecord(self.state, boot_id),
            remembered=self._remember,
        )
        self.tasks = [asyncio.ensure_future(part) for part in (self.record(), self.monitor.run())]

    async def end(self) -> None:
        """Let the monitor go, as a process that is killed does; nobody looks from now on."""
        for task in self.tasks:
            assert not task.done(), "the monitor ended by itself"
            task.cancel()
        await asyncio.wait(self.tasks)

    async def restart(self, boot_id: str = "boot-1") -> None:
        """Another process in place of this one."""
        await self.end()
        self.begin(boot_id)
        await self.after(0.1)

    async def _remember(self) -> Codes:
        return self.remembered

    @property
    def now(self) -> NodeGpus:
        """The newest word."""
        return self.monitor.gpus.value

    def gpu(self, index: int) -> Gpu:
        """One GPU as it was told last."""
        return next(gpu for gpu in self.now.gpus if gpu.facts.index == index)

    def verdicts(self) -> list[Verdict]:
        """The health of all GPUs."""
        return [gpu.health for gpu in self.now.gpus]

    def changes(self, index: int) -> list[tuple[float, Verdict]]:
        """When the health of a GPU was another one than before."""
        found: list[tuple[float, Verdict]] = []
        for at_s, value in self.published:
            for gpu in value.gpus:
                if gpu.facts.index == index and (not found or found[-1][1] is not gpu.health):
                    found.append((at_s, gpu.health))
        return found

    async def after(self, seconds: float) -> "Room":
        """Let time pass."""
        await self.clock.sleep(seconds)
        return self

    async def record(self) -> None:
        """Keep all that is published."""
        async for value in self.monitor.gpus.follow():
            self.published.append((self.clock.monotonic_s(), value))


def in_room(
    story: Callable[[Room], Awaitable[None]],
    text: str = EIGHT,
    pace: Pace | None = None,
    state: Path | None = None,
) -> None:
    """Let the monitor begin, tell the story, and end."""

    async def tell(loop: VirtualLoop) -> None:
        room = Room(loop, text, pace or Pace(), state)
        await room.after(0.1)
        await story(room)
        await room.end()

    run(tell)
