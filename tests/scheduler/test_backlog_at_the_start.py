"""A scheduler that starts among waiting pods learns what they are like before it places the first."""

import asyncio
from random import Random

from gpufleet.cluster.settings import LeaseTimes, Settings
from gpufleet.engine.event import DecisionsDeferred, Event, ValuationLearned
from gpufleet.engine.instruction import AnyInstruction, Bind
from gpufleet.scheduler.service import run as run_scheduler
from tests.scheduler.world import World, in_world

SETTINGS = Settings(identity="new", lease=LeaseTimes(15, 10.0, 2.0))


class Steps:
    """What the event log hears: which steps were deferred or brought a valuation, and what they bound."""

    def __init__(self) -> None:
        self.kinds: list[str] = []

    def __call__(
        self, _at_us: int, events: tuple[Event, ...], said: list[AnyInstruction], *, goes_on: bool
    ) -> None:
        """A step; with so few pods none is cut."""
        assert not goes_on
        binds = sum(isinstance(one, Bind) for one in said)
        for kind in (DecisionsDeferred, ValuationLearned):
            if any(isinstance(one, kind) for one in events):
                self.kinds.append(f"{kind.__name__} {binds}")
                return
        if binds:
            self.kinds.append(f"decided {binds}")


def kinds_of_steps(pods: int) -> list[str]:
    """What a scheduler does that starts among so many pods, each of one GPU."""
    steps = Steps()

    async def story(world: World) -> None:
        await world.stop()
        world.node("n", gpus=pods)
        for number in range(pods):
            world.pod(f"p{number}")
        life = run_scheduler(world.transport(), world.clock, Random(9), SETTINGS, record=steps)
        world.life = asyncio.create_task(life)
        await world.settle()
        assert len(world.bindings()) == pods

    in_world(story)
    return steps.kinds


def test_sixteen_pods_are_learned_from_first() -> None:
    assert kinds_of_steps(16) == ["DecisionsDeferred 0", "ValuationLearned 16"]


def test_fifteen_are_placed_at_once() -> None:
    assert kinds_of_steps(15) == ["decided 15"]
