"""A cost is at most five minutes old, in the virtual time of a ledger that follows a cluster."""

import asyncio
import json
from functools import partial
from pathlib import Path

from gpufleet.kube.client import Client
from gpufleet.kube.transport import Request
from gpufleet.ledger.costs import cost_of
from gpufleet.ledger.interval_log import IntervalLog
from gpufleet.ledger.month_files import MonthFiles
from gpufleet.ledger.months import month_of
from gpufleet.ledger.price_files.recognised import book_of, read_prices
from gpufleet.ledger.service import Ledger
from gpufleet.ledger.spans import Span
from gpufleet.ledger.versions import PodVersion
from gpufleet.simulation.virtual_loop import VirtualLoop, run
from tests.scheduler.world import World

LATE_S = 300
STEP_S = 7
STEPS = 120
"""Fourteen minutes: at any moment of them the files may be read."""

PRICES = b"unit,amount,currency,gpu_amount\nnode-hour,36,EUR,36\n"
MICRO_PER_S = 10_000
"""36 EUR an hour are a cent a second."""

ROUNDED_MICRO = 16
"""Each of eight cards is rounded by less than a millionth in each of two hours."""

SECOND_US = 1_000_000


def moment_us(world: World) -> int:
    return int(world.clock.now().timestamp() * SECOND_US)


def written(folder: Path, world: World) -> IntervalLog:
    """What the month's file has."""
    request = Request("GET", "/api/v1/namespaces/kube-system")
    system = json.loads(world.server.answer(request, "system:masters").body)
    return MonthFiles(folder, system["metadata"]["uid"]).read_open(month_of(moment_us(world)))


def known(log: IntervalLog, world: World) -> tuple[int, int]:
    """Until when all is known, and what the pod has cost until then."""
    until_us = log.known_until_us()
    span = Span(moment_us(world) - 3600 * SECOND_US, until_us)
    cost = cost_of(log.by_node(), book_of([read_prices(PRICES, "prices.csv")]), span, ("pod",))
    return until_us, sum(one.gpu_micro or 0 for one in cost.groups if one.key == ("default/p",))


def test_what_a_pod_costs_is_known_within_five_minutes_at_any_moment(tmp_path: Path) -> None:
    ages_s: list[float] = []

    async def story(loop: VirtualLoop) -> None:
        world = World(loop, 1)
        world.start()
        world.node("n", gpus=8)
        client = Client(world.transport("system:masters"), world.clock, world.random)
        ledger = asyncio.create_task(
            Ledger(client, "gpufleet-system", "one", partial(MonthFiles, tmp_path)).run()
        )
        await world.settle(60)
        world.pod("p", gpus=8)
        await world.settle(LATE_S)
        assert world.node_of("p") == "n"
        seen = [one for one in written(tmp_path, world).seen() if isinstance(one, PodVersion)]
        bound_us = min(one.bound_us for one in seen if one.bound_us is not None)
        for _ in range(STEPS):
            await world.settle(STEP_S)
            until_us, cost_micro = known(written(tmp_path, world), world)
            ages_s.append((moment_us(world) - until_us) / SECOND_US)
            exact = (until_us - bound_us) * MICRO_PER_S // SECOND_US
            assert abs(cost_micro - exact) <= ROUNDED_MICRO
        ledger.cancel()
        await asyncio.gather(ledger, return_exceptions=True)
        await world.stop()

    run(story, 1, threads=True)
    assert len(ages_s) == STEPS
    assert max(ages_s) <= LATE_S
