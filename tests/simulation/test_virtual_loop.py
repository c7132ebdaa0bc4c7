"""Virtual time: asyncio's own primitives on a loop whose clock jumps, and processes that stop on it."""

import asyncio
from datetime import timedelta
from random import Random

import pytest

from gpufleet.simulation import virtual_loop
from gpufleet.simulation.process import SimulatedProcess
from gpufleet.simulation.simulation_errors import DeadlockError, SimulationError
from gpufleet.simulation.virtual_loop import STARTED_AT, THREAD_WITHIN_S, VirtualClock, VirtualLoop, run

YEAR_S = 365 * 24 * 3600.0


def test_a_year_of_sleep_ends_at_once_and_exactly() -> None:
    async def work(loop: VirtualLoop) -> float:
        await asyncio.sleep(YEAR_S)
        return loop.time()

    assert run(work) == YEAR_S


def test_timeouts_queues_events_and_groups_work() -> None:
    told: list[str] = []

    async def work(loop: VirtualLoop) -> None:
        queue: asyncio.Queue[int] = asyncio.Queue()
        opened = asyncio.Event()

        async def produce() -> None:
            for number in range(3):
                await asyncio.sleep(1)
                await queue.put(number)
            opened.set()

        async def consume() -> None:
            await opened.wait()
            for _ in range(3):
                number = await queue.get()
                told.append(f"{number} at {loop.time():g}")

        async with asyncio.TaskGroup() as group:
            group.create_task(produce())
            group.create_task(consume())
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(5):
                await asyncio.Event().wait()
        told.append(f"end at {loop.time():g}")

    run(work)
    assert told == ["0 at 3", "1 at 3", "2 at 3", "end at 8"]


def test_a_deadlock_tells_where_each_task_waits() -> None:
    async def waits_for_no_task() -> None:
        await asyncio.Event().wait()

    async def work(_: VirtualLoop) -> None:
        await waits_for_no_task()

    with pytest.raises(DeadlockError, match="wait line"):
        run(work)


def test_a_task_that_fails_unheard_fails_the_run() -> None:
    async def fails() -> None:
        raise ValueError("unheard")

    async def work(_: VirtualLoop) -> None:
        task = asyncio.create_task(fails())
        await asyncio.sleep(1)
        del task

    with pytest.raises(SimulationError, match="unheard"):
        run(work)


def test_where_threads_are_allowed_their_work_is_done_at_moments_that_the_seed_chooses() -> None:
    async def work(loop: VirtualLoop) -> list[tuple[float, int]]:
        async def one(number: int) -> tuple[float, int]:
            await asyncio.to_thread(int)
            return loop.time(), number

        return sorted(await asyncio.gather(*(one(number) for number in range(4))))

    told = [run(work, seed, threads=True) for seed in (1, 1, 2)]
    assert told[0] == told[1] != told[2]
    assert 0 < told[0][0][0] < told[0][3][0] <= THREAD_WITHIN_S


def test_threads_are_refused() -> None:
    async def work(_: VirtualLoop) -> None:
        await asyncio.to_thread(print)

    with pytest.raises(SimulationError, match="threads"):
        run(work)


def test_cancelling_a_group_walks_its_tasks_in_the_same_order_every_time() -> None:
    async def work(_: VirtualLoop) -> list[int]:
        ended: list[int] = []

        async def waits(number: int) -> None:
            try:
                await asyncio.Event().wait()
            finally:
                ended.append(number)

        async def fails() -> None:
            await asyncio.sleep(1)
            raise KeyError

        async def group_of_many() -> None:
            async with asyncio.TaskGroup() as group:
                for number in range(50):
                    group.create_task(waits(number))
                group.create_task(fails())

        with pytest.raises(ExceptionGroup):
            await group_of_many()
        return ended

    assert run(work) == run(work) == list(range(50))


def test_timers_of_one_instant_run_in_the_order_of_the_seed() -> None:
    async def work(loop: VirtualLoop) -> list[int]:
        order: list[int] = []
        for number in range(20):
            loop.call_at(1.0, order.append, number)
        await asyncio.sleep(2)
        return order

    assert run(work) == list(range(20))
    assert run(work, seed=7) == run(work, seed=7) != list(range(20))


def ticking(loop: VirtualLoop, ticks: list[float]) -> SimulatedProcess:
    """A process that writes down the time each second."""

    async def tick() -> None:
        while True:
            ticks.append(loop.time())
            await asyncio.sleep(1)

    process = SimulatedProcess("ticks", loop)
    process.start(tick())
    return process


def test_a_paused_process_sees_time_jump_when_it_wakes() -> None:
    async def work(loop: VirtualLoop) -> list[float]:
        ticks: list[float] = []
        process = ticking(loop, ticks)
        await asyncio.sleep(1.5)
        process.pause()
        await asyncio.sleep(30)
        process.resume()
        await asyncio.sleep(1.2)
        return ticks

    assert run(work) == [0.0, 1.0, 31.5, 32.5]


def test_a_killed_process_never_runs_again_not_even_its_finally() -> None:
    async def work(loop: VirtualLoop) -> list[str]:
        told: list[str] = []

        async def victim() -> None:
            try:
                await asyncio.sleep(1)
                told.append("lived on")
            finally:
                told.append("cleaned up")

        process = SimulatedProcess("victim", loop)
        process.start(victim())
        await asyncio.sleep(0.5)
        process.kill()
        await asyncio.sleep(10)
        return list(told)

    assert run(work) == []


def test_a_starved_process_does_everything_late_and_in_order() -> None:
    async def work(loop: VirtualLoop) -> list[tuple[int, float]]:
        done: list[tuple[int, float]] = []

        async def step(number: int) -> None:
            done.append((number, loop.time()))

        process = SimulatedProcess("starved", loop)
        process.callback_cost_s = 2.0
        for number in range(4):
            process.start(step(number))
        await asyncio.sleep(20)
        return done

    assert run(work) == [(0, 0.0), (1, 2.0), (2, 4.0), (3, 6.0)]


def test_the_wall_clock_follows_virtual_time_and_can_be_set_wrong() -> None:
    async def work(loop: VirtualLoop) -> None:
        clock = VirtualClock(loop)
        await clock.sleep(90)
        assert clock.now() == STARTED_AT + timedelta(seconds=90)
        clock.offset_s = -3600
        assert clock.now() == STARTED_AT + timedelta(seconds=90 - 3600)
        assert clock.monotonic_s() == 90

    run(work)


def test_many_tasks_with_random_sleeps_end_in_the_order_of_their_times() -> None:
    async def work(loop: VirtualLoop) -> list[tuple[float, int]]:
        ended: list[tuple[float, int]] = []
        chance = Random(3)

        async def one(number: int) -> None:
            await asyncio.sleep(chance.uniform(0, 100))
            ended.append((loop.time(), number))

        async with asyncio.TaskGroup() as group:
            for number in range(500):
                group.create_task(one(number))
        return ended

    first = run(work)
    assert first == sorted(first)
    assert first == run(work)


def test_module_keeps_no_state_between_runs() -> None:
    async def work(loop: VirtualLoop) -> float:
        return loop.time()

    assert [run(work) for _ in range(2)] == [0.0, 0.0]
    assert virtual_loop.STARTED_AT.tzinfo is not None
