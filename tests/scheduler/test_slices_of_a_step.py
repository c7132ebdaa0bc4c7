"""A step with much to do holds nothing up: what a slice decides is carried out before the next begins."""

import asyncio
from collections.abc import Callable
from random import Random

import pytest

from gpufleet.cluster.settings import LeaseTimes, Settings
from gpufleet.engine.event import Event
from gpufleet.engine.instruction import AnyInstruction, Bind
from gpufleet.scheduler import rounds
from gpufleet.scheduler.binder import Binder, BindTask
from gpufleet.scheduler.service import run as run_scheduler
from tests.scheduler.world import World, in_world

PODS = 12
DELETED_AT_CUT = 20
"""After all pods are heard of and the first of them has its place."""
SETTINGS = Settings(identity="sliced", lease=LeaseTimes(15, 10.0, 2.0))


class Slices:
    """What the event log hears: of each slice how many pods it started, and how many Bindings were handed on
    before it was decided.
    """

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.started: list[int] = []
        self.handed_on_before: list[int] = []
        self.cut = 0
        self.at_a_cut: Callable[[], None] = lambda: None
        self._handed_on = 0
        monkeypatch.setattr(rounds, "SLICE_WORK", 1)
        hand_on, slices = Binder.submit, self

        def counted(binder: Binder, task: BindTask) -> None:
            slices._handed_on += 1
            hand_on(binder, task)

        monkeypatch.setattr(Binder, "submit", counted)

    def __call__(
        self, _at_us: int, _events: tuple[Event, ...], said: list[AnyInstruction], *, goes_on: bool
    ) -> None:
        """A slice, or a whole step."""
        self.started.append(sum(isinstance(one, Bind) for one in said))
        self.handed_on_before.append(self._handed_on)
        self.cut += goes_on
        if goes_on and self.cut == DELETED_AT_CUT:
            self.at_a_cut()


def run_in(world: World, slices: Slices) -> None:
    """A scheduler that starts now."""
    life = run_scheduler(world.transport(), world.clock, Random(9), SETTINGS, record=slices)
    world.life = asyncio.create_task(life)


def test_pods_are_bound_once_each_while_the_step_still_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    slices = Slices(monkeypatch)

    async def story(world: World) -> None:
        await world.stop()
        world.node("n", gpus=PODS)
        for number in range(PODS):
            world.pod(f"p{number}")
        run_in(world, slices)
        await world.settle()
        assert slices.cut >= PODS
        assert max(slices.started) == 1
        assert sum(slices.started) == PODS
        assert len({path for path, _ in world.bindings()}) == len(world.bindings()) == PODS
        last = max(number for number, count in enumerate(slices.started) if count)
        assert slices.handed_on_before[last] == PODS - 1, "what slices decide is carried out late"

    in_world(story)


def test_a_pod_that_goes_between_two_slices_takes_no_place_for_long(monkeypatch: pytest.MonkeyPatch) -> None:
    slices = Slices(monkeypatch)

    async def story(world: World) -> None:
        await world.stop()
        world.node("n", gpus=1)
        for number in range(PODS):
            world.pod(f"p{number}")
        slices.at_a_cut = lambda: world.delete("p0")
        run_in(world, slices)
        await world.settle()
        assert slices.cut > DELETED_AT_CUT
        assert [world.node_of(f"p{number}") for number in range(1, PODS)].count("n") == 1

    in_world(story)
