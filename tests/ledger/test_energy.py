"""Whose energy counters tell, by hand: resets, gaps, what is older than the time, and whole joules."""

import csv
import io
from array import array
from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from pathlib import Path

import pytest

from gpufleet.cli.cost_energy import EnergyFigures
from gpufleet.cli.main import ExitCode, main
from gpufleet.ledger.costs import Group, Key
from gpufleet.ledger.counters import STEP_S
from gpufleet.ledger.energy import OTHER_JOULES, POD_JOULES, Energy, energy_of
from gpufleet.ledger.spans import Span
from gpufleet.ledger.stamps import US_PER_S
from gpufleet.ledger.versions import PodVersion
from gpufleet.model.model_errors import InputError
from gpufleet.usage.prometheus.access import Access
from gpufleet.usage.prometheus.answer import PrometheusAnswer, Series
from gpufleet.usage.prometheus.client import Prometheus
from gpufleet.usage.prometheus.window import Window
from tests.ledger.example_day import FILE, H100, START_US, ExampleDay, at
from tests.usage.prometheus.server import prometheus
from tests.usage.prometheus.stories import Story

NODE = str(H100)
START_S = START_US // US_PER_S
HOUR = Span(at(9 * 60), at(10 * 60))
"""From nine to ten in the morning."""

Points = Mapping[int, float]
"""Values by minute of the day."""


class Answering:
    """A server that has these series."""

    url = "http://prometheus"

    def __init__(self, pods: Mapping[str, Points] | None = None, others: Points | None = None) -> None:
        self.asked: list[Window] = []
        self._series = {
            POD_JOULES: [_series(points, *name.split("/")) for name, points in (pods or {}).items()]
        }
        self._series[OTHER_JOULES] = [_series(others)] if others else []

    def over(self, promql: str, window: Window, name: str) -> Iterator[PrometheusAnswer]:
        """All of them, in one part."""
        assert f"last_over_time({name}[{window.step_s}s])" in promql
        self.asked.append(window)
        yield PrometheusAnswer(tuple(self._series[name]))


def _series(points: Points, namespace: str = "", pod: str = "") -> Series:
    labels = {"node": NODE, "uuid": "GPU-0", "namespace": namespace, "pod": pod}
    times = array("q", (START_S + minute * 60 for minute in points))
    return Series(labels, times, array("d", points.values()))


def by(source: Answering, *groupings: str, span: Span = HOUR) -> Mapping[Key, int]:
    return energy_of(source, ExampleDay().log.by_node(), span, groupings).joules


def test_what_a_counter_grew_is_of_its_pods_queue_and_the_rest_of_no_pod() -> None:
    source = Answering({"research/llm-0": {540: 1000.0, 570: 1500.4, 600: 3000.4}}, {540: 7.0, 600: 107.6})
    assert by(source, "queue") == {("research",): 2000, (None,): 101}
    assert source.asked[0] == Window(START_S + 540 * 60, START_S + 600 * 60, STEP_S)


def test_a_counter_that_began_anew_counts_from_nothing_and_a_gap_changes_nothing() -> None:
    source = Answering({"research/llm-0": {540: 1000.0, 545: 1100.0, 585: 30.0, 600: 50.0}})
    assert by(source, "pod") == {("research/llm-0",): 150}


def test_what_was_counted_before_the_first_value_counts_for_new_pods_alone() -> None:
    """The first value of a pod that was bound hours ago may be older than the time."""
    assert by(Answering({"research/llm-0": {570: 9000.0, 600: 9100.0}}), "queue") == {("research",): 100}
    pods = [one for one in ExampleDay().log.seen() if isinstance(one, PodVersion) and one.name == "llm-0"]
    bound = min(one.bound_us for one in pods if one.bound_us is not None)
    minute = (bound - START_US) // 60_000_000
    first = minute // 5 * 5 + 5
    span = Span(at(minute - 30), at(minute + 60))
    source = Answering({"research/llm-0": {first: 40.0, first + 30: 140.0}})
    assert by(source, "queue", span=span) == {("research",): 140}


def test_a_pod_that_the_ledger_has_not_seen_has_its_names() -> None:
    source = Answering({"elsewhere/x": {540: 0.0, 600: 10.0}})
    assert by(source, "namespace", "queue") == {("elsewhere", ""): 10}


def test_parts_of_a_joule_are_rounded_together_on_a_node() -> None:
    """Three pods of half a joule are 1.5 J, which are 2 J in whole ones."""
    names = ("research/llm-0", "research/llm-1", "research/llm-2")
    found = by(Answering({name: {540: 0.0, 600: 0.5} for name in names}), "pod")
    assert sorted(found.values()) == [0, 1, 1]


@pytest.mark.parametrize("grouping", ["bucket", "device", "reason", "price", "state"])
def test_energy_is_of_no_bucket_and_no_card(grouping: str) -> None:
    with pytest.raises(InputError, match="no grouping of energy"):
        by(Answering(), grouping)


def group(name: str) -> Group:
    return Group((name,), 0, 0, 0, 0, None, None, None)


def test_kilowatt_hours_and_kilograms_add_up() -> None:
    """36 MJ are 10 kWh, which are 3.81 kg at 381 g; thirds are rounded together."""
    names = ("a", "b", "c")
    energy = Energy({(name,): 12_000_000 for name in names})
    *each, total = EnergyFigures(energy, Fraction(381)).of_groups([group(name) for name in names])
    assert total == {"energy_joules": "36000000", "energy_kwh": "10.000000", "carbon_kg": "3.810000"}
    assert [one["energy_kwh"] for one in each] == ["3.333334", "3.333333", "3.333333"]
    assert {one["carbon_kg"] for one in each} == {"1.270000"}
    without = EnergyFigures(energy).of_groups([group("a")])
    assert "carbon_kg" not in without[0], "nothing is guessed of the grid"


def openmetrics(lines: Sequence[tuple[str, Points]]) -> str:
    """Series as promtool reads them."""
    told = [
        f"{series} {value} {START_S + minute * 60 - 15}"
        for series, points in lines
        for minute, value in points.items()
    ]
    kinds = [f"# TYPE {name.removesuffix('_total')} counter" for name in (POD_JOULES, OTHER_JOULES)]
    pods = [one for one in told if one.startswith(POD_JOULES)]
    others = [one for one in told if one.startswith(OTHER_JOULES)]
    return "\n".join([kinds[0], *pods, kinds[1], *others, "# EOF", ""])


class Written(Story):
    """A story in words of its own."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self._text = text

    def openmetrics(self) -> str:
        """What promtool makes blocks of."""
        return self._text


def test_a_real_prometheus_tells_the_same(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A pod counts to its last scrape; what two addresses of an agent tell counts once."""
    minutes = range(535, 601)
    of_pod = f'{{node="{NODE}",namespace="research",pod="llm-0",uuid="GPU-0",gpu="0",instance="%s"}}'
    grows = {minute: 100.0 * (minute - 535) for minute in minutes if minute <= 592}
    later = {minute: value for minute, value in grows.items() if minute > 580}
    rest = f'{OTHER_JOULES}{{node="{NODE}",uuid="GPU-0",gpu="0"}}'
    told = {minute: minute - 535.0 for minute in minutes}
    lines = [(POD_JOULES + of_pod % "a", grows), (POD_JOULES + of_pod % "b", later), (rest, told)]
    story = Written(openmetrics(lines))
    with prometheus(tmp_path, story) as url:
        source = Prometheus(Access(url, None, None))
        found = energy_of(source, ExampleDay().log.by_node(), HOUR, ("queue",)).joules
        times = ("--from", "2026-11-27T09:00:00Z", "--until", "2026-11-27T10:00:00Z")
        asked = ("cost", str(FILE), *times, "--prometheus", url, "-o", "csv")
        assert main([*asked, "--grid-intensity", "400"]) == ExitCode.DONE
    # From the scrape before nine to the pod's last one 52 minutes later, and an hour of the rest.
    assert found == {("research",): 5200, (None,): 60}
    rows = {row["queue"]: row for row in csv.DictReader(io.StringIO(capsys.readouterr().out))}
    # 5,200 J are 0.001444 kWh, and at 400 g a kWh 0.000578 kg.
    assert [rows["research"][name] for name in ("energy_joules", "energy_kwh", "carbon_kg")] == [
        "5200",
        "0.001444",
        "0.000578",
    ]
    assert sum(int(row["energy_joules"]) for row in rows.values()) == 5260


CARBON = ("--prometheus", "http://127.0.0.1:1", "--grid-intensity", "381")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--grid-intensity", "381"), "there is no energy for it"),
        (("--prometheus", "http://127.0.0.1:1", "--grid-intensity", "-1"), "not an amount"),
        ((*CARBON, "--idle"), "has no energy"),
        ((*CARBON, "-o", "focus"), "has no energy"),
        ((*CARBON, "--by", "bucket"), "no grouping of energy"),
        (("--prometheus", "http://127.0.0.1:1", "--unusual"), "which use does not change"),
    ],
)
def test_what_energy_does_not_go_with_is_refused(
    options: tuple[str, ...], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["cost", str(FILE), *options]) == ExitCode.BAD_INPUT
    assert words in capsys.readouterr().err
