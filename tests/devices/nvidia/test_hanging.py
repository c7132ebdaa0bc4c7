"""A card of NVIDIA's that hangs stops neither the agent nor the other cards."""

import asyncio
import ctypes
import time
from collections.abc import Iterator

import pytest

from gpufleet.devices.device_errors import NoAnswerError
from gpufleet.devices.nvidia.backend import NvidiaBackend
from gpufleet.devices.threaded_backend import ThreadedBackend
from tests.devices.nvidia.machine import Machine

SHORT_S = 0.3


@pytest.fixture
def hanging(library: ctypes.CDLL, machine: Machine) -> Iterator[NvidiaBackend]:
    """A backend that its test leaves with a call under way, released at the end."""
    backend = NvidiaBackend(machine.folder, clock_s=time.monotonic, wall_s=time.time)
    yield backend
    machine.card(0, hang=None)
    session = backend._old[-1]
    assert session.over.wait(20)
    assert library.fakeInitialised() == 0
    assert library.fakeGpmBuffers() == 0


def test_a_card_that_hangs_is_unknown_and_the_others_go_on(hanging: NvidiaBackend, machine: Machine) -> None:
    stuck, well = machine.add(), machine.add()

    async def story() -> None:
        guarded = ThreadedBackend(hanging, limit_s=SHORT_S)
        await guarded.open()
        await guarded.fleet()
        machine.card(0, hang=1)
        with pytest.raises(NoAnswerError, match="no answer to a sample"):
            await guarded.sample(stuck)
        with pytest.raises(NoAnswerError, match="a sample has not come back yet"):
            await guarded.processes(stuck)
        assert (await guarded.sample(well)).gpu_busy_pct == 60
        await guarded.close()
        guarded.leave()

    asyncio.run(story())


def test_the_library_is_not_taken_away_under_a_call(
    hanging: NvidiaBackend, machine: Machine, library: ctypes.CDLL
) -> None:
    stuck = machine.add()

    async def story() -> None:
        guarded = ThreadedBackend(hanging, limit_s=SHORT_S)
        await guarded.open()
        machine.card(0, hang=1)
        with pytest.raises(NoAnswerError):
            await guarded.sample(stuck)
        await guarded.close()
        guarded.leave()
        assert library.fakeInitialised() == 1

    asyncio.run(story())


def test_a_card_answers_again_when_its_call_came_back(hanging: NvidiaBackend, machine: Machine) -> None:
    stuck = machine.add()

    async def story() -> None:
        guarded = ThreadedBackend(hanging, limit_s=SHORT_S)
        await guarded.open()
        machine.card(0, hang=1)
        with pytest.raises(NoAnswerError):
            await guarded.sample(stuck)
        machine.card(0, hang=None)
        while guarded.stuck(stuck):  # noqa: ASYNC110  what it waits for is the guard's own word
            await asyncio.sleep(0.01)
        assert (await guarded.sample(stuck)).gpu_busy_pct == 60
        await guarded.close()
        guarded.leave()

    asyncio.run(story())
