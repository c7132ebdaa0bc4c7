"""Each hour that is over is measured once, also by a ledger that was started again."""

import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from gpufleet.kube.client import Client
from gpufleet.ledger.buckets import BusySpan
from gpufleet.ledger.hourly_use import HourlyUse
from gpufleet.ledger.interval_log import IntervalLog
from gpufleet.ledger.month_files import MonthFiles
from gpufleet.ledger.open_months import OpenMonths
from gpufleet.ledger.service import LedgerWriter
from gpufleet.model.model_errors import WorldError
from gpufleet.simulation.virtual_loop import VirtualLoop, run
from gpufleet.usage.agent_series import POD_USED
from gpufleet.usage.prometheus.answer import PrometheusAnswer
from gpufleet.usage.prometheus.window import Window
from tests.ledger.example_day import CLUSTER, H100, at, card
from tests.ledger.test_measured_use import Use, steps, unmeasured_day
from tests.scheduler.world import World

SERIES = {"uuid": card(H100, 0), "namespace": "research", "pod": "llm-0"}
MONTH = "2026-11"


def source() -> Use:
    """One pod of the example day, which computes half of the time from nine to half past eleven."""
    return Use((POD_USED, SERIES, steps(545, 690, 0.5)))


def found(use: HourlyUse, log: IntervalLog, minute: int) -> list[tuple[int, int, int]]:
    """First and last minute of what is measured then, and how busy in percent."""
    told = use.measure({MONTH: log}.get, at(minute)).busy()
    return [((one.span.from_us - at(0)) // 60_000_000, _end(one), one.busy // 10_000) for one in told]


def _end(one: BusySpan) -> int:
    return ((one.span.until_us or 0) - at(0)) // 60_000_000


def test_hours_are_measured_once_they_are_over() -> None:
    log, use = unmeasured_day(), HourlyUse(source())
    assert found(use, log, 609) == [], "samples of the hour to ten may still come"
    assert not use.is_due(at(609)), "and the hour before is measured"
    assert use.is_due(at(615))
    assert found(use, log, 615) == [(540, 600, 50)]
    assert found(use, log, 670) == [(600, 625, 50)], "the pod ended at 10:25"


def test_one_that_is_started_again_goes_on_and_makes_up_for_a_day_at_most() -> None:
    log = unmeasured_day()
    for one in HourlyUse(source()).measure({MONTH: log}.get, at(615)).busy():
        log.measure(one)
    again = Use((POD_USED, SERIES, steps(545, 690, 0.5)))
    HourlyUse(again).measure({MONTH: log}.get, at(670))
    assert {(one.first_s, one.last_s) for one in again.asked} == {
        (at(605) // 1_000_000, at(660) // 1_000_000)
    }
    late = Use()
    HourlyUse(late).measure({MONTH: unmeasured_day()}.get, at(1440 + 135))
    assert min(one.first_s for one in late.asked) == at(125) // 1_000_000


class Silent(Use):
    """A server that does not answer."""

    def over(self, promql: str, window: Window, name: str) -> Iterator[PrometheusAnswer]:
        """Nothing."""
        raise WorldError(f"no answer to {promql} for {name} over {window}")


def test_a_server_that_does_not_answer_is_asked_again_later() -> None:
    use = HourlyUse(Silent())
    with pytest.raises(WorldError):
        use.measure({MONTH: unmeasured_day()}.get, at(615))
    assert not use.is_due(at(617))
    assert use.is_due(at(621))


def test_a_ledger_writes_what_it_measures(tmp_path: Path) -> None:
    months = OpenMonths(MonthFiles(tmp_path, CLUSTER))
    months.begin(MONTH)
    months.add(unmeasured_day())

    async def story(loop: VirtualLoop) -> None:
        world = World(loop, 1)
        client = Client(world.transport("system:masters"), world.clock, random.Random(1))
        ahead_us = at(615) - int(world.clock.now().timestamp() * 1_000_000)
        writer = LedgerWriter(client, months, ahead_us)
        await writer.measure(HourlyUse(source()))
        await writer.measure(HourlyUse(Silent()))
        await writer.round()

    run(story, 1, threads=True)
    kept = OpenMonths(MonthFiles(tmp_path, CLUSTER)).log.busy()
    assert [(one.pod_uid, one.busy) for one in kept] == [("uid-llm-0", 500_000)]
