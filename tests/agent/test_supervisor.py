"""A part that fails is started again and stops no other; readiness names it until it has run for a while."""

import asyncio
from collections.abc import Awaitable, Callable
from random import Random

from gpufleet.agent.supervisor import TRUSTED_AFTER_S, AgentPart, Supervisor
from gpufleet.simulation.virtual_loop import VirtualClock, VirtualLoop, run

HOUR_S = 3600.0


class Bench:
    """Supervisor that do as a test says."""

    def __init__(self, loop: VirtualLoop) -> None:
        self.clock = VirtualClock(loop)
        self.begun: list[float] = []
        self.worked_s = 0.0

    async def failing(self) -> None:
        """Fails at once."""
        self.begun.append(self.clock.monotonic_s())
        raise ValueError("no such thing\n")

    async def ending(self) -> None:
        """Ends at once."""

    async def failing_once(self) -> None:
        """Fails the first time."""
        self.begun.append(self.clock.monotonic_s())
        if len(self.begun) == 1:
            raise OSError("disk is full")
        await self.clock.sleep(HOUR_S)

    async def working(self) -> None:
        """Works until cancelled."""
        while True:
            await self.clock.sleep(1)
            self.worked_s += 1


def told(
    parts: Callable[[Bench], list[AgentPart]], story: Callable[[Bench, Supervisor], Awaitable[None]]
) -> None:
    async def tell(loop: VirtualLoop) -> None:
        bench = Bench(loop)
        kept = Supervisor(parts(bench), bench.clock, Random(1))
        running = asyncio.create_task(kept.run())
        await story(bench, kept)
        assert not running.done()
        running.cancel()
        await asyncio.wait([running])

    run(tell)


def test_a_part_that_fails_is_started_again_ever_more_slowly_and_stops_no_other() -> None:
    async def story(bench: Bench, parts: Supervisor) -> None:
        await bench.clock.sleep(HOUR_S)
        assert bench.worked_s >= HOUR_S - 1
        pauses = [later - before for before, later in zip(bench.begun, bench.begun[1:], strict=False)]
        assert pauses[0] <= 1
        assert 30 <= pauses[-1] <= 60
        assert parts.problems() == ("bad: it failed: 'no such thing\\n'",)
        assert parts.restarts == len(bench.begun)

    told(lambda bench: [AgentPart("bad", bench.failing), AgentPart("good", bench.working)], story)


def test_a_part_is_trusted_again_when_it_has_run_for_a_while() -> None:
    async def story(bench: Bench, parts: Supervisor) -> None:
        await bench.clock.sleep(1.5)
        assert len(bench.begun) == 2
        assert parts.problems() == ("disk: it failed: 'disk is full'",)
        await bench.clock.sleep(TRUSTED_AFTER_S)
        assert parts.problems() == ()

    told(lambda bench: [AgentPart("disk", bench.failing_once)], story)


def test_a_part_that_ends_is_a_part_that_fails() -> None:
    async def story(bench: Bench, parts: Supervisor) -> None:
        await bench.clock.sleep(1)
        assert parts.problems() == ("short: it ended by itself",)

    told(lambda bench: [AgentPart("short", bench.ending)], story)


def test_what_keeps_a_part_from_its_work_is_named_though_it_runs() -> None:
    async def story(bench: Bench, parts: Supervisor) -> None:
        await bench.clock.sleep(1)
        assert parts.problems() == ("kubelet: there is none",)

    told(lambda bench: [AgentPart("kubelet", bench.working, lambda: ("there is none",))], story)
