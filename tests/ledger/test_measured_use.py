"""Which part of what pods hold is used and which is idle, by agents, dcgm-exporter and a real server."""

import csv
import io
from array import array
from collections.abc import Iterator, Mapping
from fractions import Fraction
from pathlib import Path

import msgspec
import pytest

from gpufleet.cli.main import ExitCode, main
from gpufleet.ledger.buckets import BusySpan, Holding
from gpufleet.ledger.interval_log import IntervalLog, Intervals, LedgerPod
from gpufleet.ledger.log_file import written
from gpufleet.ledger.measured_use import DCGM_USE, measured_use
from gpufleet.ledger.node_hour import LedgerDevice, NodeRecords
from gpufleet.ledger.price_book import PricedNode
from gpufleet.ledger.spans import Span
from gpufleet.model.identifiers import DeviceId, NodeName, PodUid
from gpufleet.usage.agent_series import POD_USED
from gpufleet.usage.prometheus.answer import PrometheusAnswer, Series
from gpufleet.usage.prometheus.window import Window
from tests.ledger.example_day import CLUSTER, FILE, H100, START_US, ExampleDay, at, card
from tests.usage.prometheus.server import prometheus
from tests.usage.prometheus.stories import Story

NODE = NodeName("n")
CARD = DeviceId("GPU-0")
MORNING = Span(at(9 * 60), at(11 * 60))
START_S = START_US // 1_000_000

Points = Mapping[int, float]
"""Values by minute of the day."""


class Use:
    """A server that has these series, by metric."""

    url = "http://prometheus"

    def __init__(self, *told: tuple[str, Mapping[str, str], Points]) -> None:
        self.asked: list[Window] = []
        self._told = told

    def over(self, promql: str, window: Window, name: str) -> Iterator[PrometheusAnswer]:
        """Those of a metric whose points are within the window."""
        assert f"avg_over_time({name}" in promql
        assert "[300s]" in promql
        self.asked.append(window)
        found = []
        for metric, labels, points in self._told:
            within = {
                START_S + minute * 60: value
                for minute, value in points.items()
                if window.first_s <= START_S + minute * 60 <= window.last_s
            }
            if metric == name and within:
                found.append(Series(dict(labels), array("q", within), array("d", within.values())))
        yield PrometheusAnswer(tuple(found))


def of_pod(pod: str, points: Points, **more: str) -> tuple[str, Mapping[str, str], Points]:
    return POD_USED, {"uuid": CARD, "namespace": "ns", "pod": pod, **more}, points


def of_card(points: Points) -> tuple[str, Mapping[str, str], Points]:
    return DCGM_USE, {"UUID": CARD}, points


def held(
    *pods: tuple[str, Fraction], since: int = 8 * 60, model: str = "", computes: int | None = None
) -> Intervals:
    """A node with one card, of which pods hold parts from a minute on."""
    started_us = at(since if computes is None else computes)
    holdings = tuple(
        Holding(CARD, PodUid(name), part, Span(at(since)), gang_whole_us=at(since), started_us=started_us)
        for name, part in pods
    )
    priced_as = msgspec.structs.replace(PricedNode(), gpu_model=model)
    there = Span(START_US)
    node = NodeRecords(NODE, "n", there, priced_as, (LedgerDevice(CARD, there),), holdings)
    return Intervals((node,), tuple(LedgerPod(PodUid(name), "ns", name, "", "", "", ()) for name, _ in pods))


def busy(
    intervals: Intervals, *told: tuple[str, Mapping[str, str], Points], span: Span = MORNING
) -> list[tuple]:  # type: ignore[type-arg]
    """Pod, first and last minute, and percent of each measurement."""
    return [
        (one.pod_uid, _minute(one.span.from_us), _minute(one.span.until_us or 0), one.busy / 10_000)
        for one in measured_use(Use(*told), intervals, span)
    ]


def _minute(at_us: int) -> int:
    return (at_us - START_US) // 60_000_000


HALF = Fraction(1, 2)
WHOLE = Fraction(1)


def steps(first: int, last: int, value: float) -> Points:
    """A value at the end of each step of five minutes."""
    return dict.fromkeys(range(first, last + 1, 5), value)


def test_runs_of_steps_have_one_mean_an_hour() -> None:
    """40 minutes at 30 % and 20 at 90 % are half of an hour; the next hour has a gap of ten minutes."""
    points = {**steps(545, 580, 0.3), **steps(585, 600, 0.9), **steps(605, 620, 0.2), **steps(635, 660, 0.4)}
    assert busy(held(("a", WHOLE)), of_pod("a", points)) == [
        ("a", 540, 600, 50),
        ("a", 600, 620, 20),
        ("a", 630, 660, 40),
    ]


def test_a_share_is_used_by_what_it_holds() -> None:
    """A quarter of a card's time is half of a share of one half, and more than a share is all of it."""
    both = held(("a", HALF), ("b", Fraction(3, 10)))
    told = of_pod("a", steps(545, 600, 0.25)), of_pod("b", steps(545, 600, 0.45))
    hour = Span(at(540), at(600))
    assert busy(both, *told, span=hour) == [("a", 540, 600, 50), ("b", 540, 600, 100)]


def test_an_instance_is_used_by_its_own_time() -> None:
    """A 3g.40gb of a H100 is 4/8 of its memory; two pods that take turns on it hold 1/4 of the card each."""
    instance = {"mig_id": "1", "mig_profile": "3g.40gb"}
    alone = held(("a", HALF), model="H100-80GB")
    assert busy(alone, of_pod("a", steps(545, 600, 0.6), **instance), span=Span(at(540), at(600)))[0][3] == 60
    turns = held(("a", Fraction(1, 4)), ("b", Fraction(1, 4)), model="H100-80GB")
    told = of_pod("a", steps(545, 600, 0.3), **instance), of_pod("b", steps(545, 600, 0.1), **instance)
    assert [one[3] for one in busy(turns, *told, span=Span(at(540), at(600)))] == [60, 20]


def test_dcgm_counts_for_a_card_that_one_pod_holds_where_no_agent_tells() -> None:
    hour = Span(at(540), at(600))
    assert busy(held(("a", WHOLE)), of_card(steps(545, 600, 25)), span=hour) == [("a", 540, 600, 25)]
    both = of_card(steps(545, 600, 25)), of_pod("a", steps(545, 600, 0.5))
    assert busy(held(("a", WHOLE)), *both, span=hour) == [("a", 540, 600, 50)]
    assert busy(held(("a", HALF), ("b", HALF)), of_card(steps(545, 600, 25)), span=hour) == []


def test_time_before_a_pod_computes_and_values_that_cannot_be_are_not_measured() -> None:
    late = held(("a", WHOLE), since=500, computes=555)
    assert busy(late, of_pod("a", steps(545, 570, 0.4)), span=Span(at(540), at(570))) == [("a", 555, 570, 40)]
    assert busy(held(("a", WHOLE)), of_pod("a", steps(545, 600, 1.5))) == []
    assert busy(held(("a", WHOLE)), of_pod("another", steps(545, 600, 0.5))) == []


def test_long_times_are_asked_day_by_day() -> None:
    source = Use()
    list(measured_use(source, held(("a", WHOLE)), Span(START_US, at(2 * 24 * 60 + 7))))
    assert [(one.first_s - START_S, one.last_s - START_S) for one in source.asked[::2]] == [
        (300, 86_400),
        (86_700, 172_800),
        (173_100, 173_100),
    ][: len(source.asked[::2])]


class Written(Story):
    """Six pods of a gang, measured by two exporters every minute."""

    def openmetrics(self) -> str:
        """From nine to ten: three quarters on four cards by agents, 40 % on two by dcgm-exporter."""
        ours, dcgm = [f"# TYPE {POD_USED} gauge"], [f"# TYPE {DCGM_USE} gauge"]
        for number in range(6):
            for minute in range(540, 601):
                at_s = START_S + minute * 60 - 15
                labels = f'node="{H100}",uuid="{card(H100, number)}",namespace="research",pod="llm-{number}"'
                if number < 4:
                    ours.append(f"{POD_USED}{{{labels}}} 0.75 {at_s}")
                else:
                    dcgm.append(f'{DCGM_USE}{{UUID="{card(H100, number)}",gpu="{number}"}} 40 {at_s}')
        return "\n".join([*ours, *dcgm, "# EOF", ""])


def unmeasured_day() -> IntervalLog:
    """The example day without measurements."""
    log = IntervalLog()
    for seen in ExampleDay().log.seen():
        log.take(seen)
    return log


def said(capsys: pytest.CaptureFixture[str], *asked: str) -> str:
    assert main(["cost", *asked]) == ExitCode.DONE
    return capsys.readouterr().out


def test_a_real_prometheus_and_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Eight cards for an hour: 4 x 0.75 + 2 x 0.4 are used, 4 x 0.25 + 2 x 0.6 idle, and two not measured."""
    file, saved = tmp_path / "day.ledger", tmp_path / "saved.ledger"
    file.write_bytes(b"".join(written(unmeasured_day(), CLUSTER)))
    times = ("--from", "2026-11-27T09:00:00Z", "--until", "2026-11-27T10:00:00Z")
    prices = ("--prices", str(FILE.with_name("prices.csv")))
    research = ("--by", "queue,bucket", "-o", "csv")
    with prometheus(tmp_path, Written()) as url:
        server = ("--prometheus", url)
        told = said(capsys, str(file), *prices, *times, *research, *server, "--save", str(saved))
        idle = said(capsys, str(file), *prices, *times, *server, "--idle", "-o", "csv")
    found = [row for row in csv.DictReader(io.StringIO(told)) if row["queue"] == "research"]
    assert {row["bucket"]: row["gpu_hours"] for row in found if row["gpu_hours"]} == {
        "used": "3.800000000",
        "idle-held": "2.200000000",
        "unmeasured": "2.000000000",
    }
    (job,) = csv.DictReader(io.StringIO(idle))
    assert (job["job"], job["measured"], job["idle"]) == ("research/llm", "6.000000000", "2.200000000")
    # What was measured is in the file, which needs no server any more.
    assert said(capsys, str(saved), *prices, *times, *research) == told


def test_a_server_without_use_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    times = ("--from", "2026-11-27T09:00:00Z", "--until", "2026-11-27T10:00:00Z")
    with prometheus(tmp_path) as url:
        told = said(capsys, str(FILE), *times, "--prometheus", url)
    assert f"{url} has no use of GPUs that pods held in this time" in told


def test_measurements_are_in_order_and_not_doubled() -> None:
    told = of_pod("a", steps(545, 660, 0.5)), of_pod("b", steps(545, 660, 0.5))
    found = list(measured_use(Use(*told), held(("a", HALF), ("b", HALF)), MORNING))
    log = IntervalLog()
    assert all(log.measure(one) for one in found)
    assert not any(log.measure(one) for one in found)
    assert [type(one) for one in found] == [BusySpan] * 4
