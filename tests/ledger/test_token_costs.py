"""What a million tokens cost, by hand and by the case that OpenCost documents."""

import csv
import io
from array import array
from collections.abc import Iterator, Mapping
from fractions import Fraction
from pathlib import Path

import pytest

from gpufleet.cli.main import ExitCode, main
from gpufleet.ledger.buckets import Holding
from gpufleet.ledger.interval_log import Intervals, LedgerPod
from gpufleet.ledger.node_hour import HOUR_US, HostHolding, LedgerDevice, NodeRecords
from gpufleet.ledger.price_book import Price, PriceBook, PricedNode, PriceScope, PriceUnit
from gpufleet.ledger.spans import Span
from gpufleet.ledger.stamps import US_PER_S
from gpufleet.ledger.token_costs import TokenCost, token_costs
from gpufleet.model.identifiers import DeviceId, NodeName, PodUid
from gpufleet.usage.prometheus.answer import PrometheusAnswer, Series
from gpufleet.usage.prometheus.window import Window
from tests.ledger.example_day import FILE
from tests.usage.prometheus.server import prometheus
from tests.usage.prometheus.stories import Story

NINE_US = 1_795_770_000 * US_PER_S
"""Nine in the morning of the 27th of November 2026."""

HOUR = Span(NINE_US, NINE_US + HOUR_US)
CARD = DeviceId("GPU-0")
UID = PodUid("u")
BOOK = PriceBook([Price("p", PriceScope(), PriceUnit.NODE_HOUR, 3_200_000, "USD", 0, gpu_micro=3_200_000)])
"""3.20 $ for an hour of the node, all of it for its GPU."""

Points = Mapping[int, float]
"""Values by minute of the hour."""


class Engines:
    """A server that has these counters, by metric and model."""

    url = "http://prometheus"

    def __init__(self, told: Mapping[tuple[str, str], Points]) -> None:
        self._told = told

    def over(self, promql: str, window: Window, name: str) -> Iterator[PrometheusAnswer]:
        """All of a metric."""
        assert f"last_over_time({name}[{window.step_s}s])" in promql
        found = [
            Series(
                {"namespace": "serving", "pod": "chat-0", "model_name": model, "engine": "0"},
                array("q", (NINE_US // US_PER_S + minute * 60 for minute in points)),
                array("d", points.values()),
            )
            for (metric, model), points in self._told.items()
            if metric == name
        ]
        yield PrometheusAnswer(tuple(found))


def intervals(from_us: int = NINE_US - HOUR_US) -> Intervals:
    """A node with one GPU, which a pod holds whole."""
    since = Span(from_us)
    held = Holding(CARD, UID, Fraction(1), since, gang_whole_us=from_us, started_us=from_us)
    host = HostHolding(UID, Fraction(1), since)
    there = Span(NINE_US - 2 * HOUR_US, NINE_US + 2 * HOUR_US)
    node = NodeRecords(
        NodeName("n"), "n", there, PricedNode(), (LedgerDevice(CARD, there),), (held,), host_holdings=(host,)
    )
    pod = LedgerPod(UID, "serving", "chat-0", "serving", "Deployment/chat", "", ())
    return Intervals((node,), (pod,))


def costs(
    told: Mapping[tuple[str, str], Points], *by: str, found: Intervals | None = None
) -> list[TokenCost]:
    return list(token_costs(Engines(told), found or intervals(), BOOK, HOUR, by or ("model",)))


IN, OUT = "vllm:prompt_tokens_total", "vllm:generation_tokens_total"


def test_the_case_that_opencost_documents() -> None:
    """3.20 $ an hour, 12 million tokens in and 3 million out: 0.213 $ for a million."""
    told = {(IN, "m"): {0: 5e6, 60: 17e6}, (OUT, "m"): {0: 1e6, 30: 2e6, 60: 4e6}}
    (found,) = costs(told)
    assert (found.key, found.prompt, found.generated) == (("m",), 12_000_000, 3_000_000)
    assert (found.amount_micro, found.per_million_micro) == (3_200_000, 213_333)


def test_a_pod_that_serves_two_models_divides_its_cost_by_tokens() -> None:
    told = {(OUT, "base"): {0: 0.0, 60: 300.0}, (OUT, "adapter"): {0: 0.0, 60: 100.0}}
    base, adapter = costs(told)
    assert (base.key, base.amount_micro) == (("base",), 2_400_000)
    assert (adapter.key, adapter.amount_micro) == (("adapter",), 800_000)
    assert base.per_million_micro == adapter.per_million_micro
    assert base.quantity + adapter.quantity == 1000 * HOUR_US
    (queue,) = costs(told, "queue")
    assert (queue.key, queue.amount_micro, queue.generated) == (("serving",), 3_200_000, 400)


def test_counters_that_began_anew_or_within_the_time_count_from_nothing() -> None:
    told = {(OUT, "m"): {0: 1000.0, 30: 1500.0, 45: 200.0}}
    assert costs(told)[0].generated == 700
    late = {(OUT, "m"): {30: 500.0, 60: 900.0}}
    assert costs(late)[0].generated == 400, "an older pod may have had them before"
    assert costs(late, found=intervals(NINE_US + 20 * 60 * US_PER_S))[0].generated == 900


@pytest.mark.parametrize(
    ("prompt", "generated"),
    [
        ("sglang:prompt_tokens_total", "sglang:generation_tokens_total"),
        ("tgi_request_input_length_sum", "tgi_request_generated_tokens_sum"),
    ],
)
def test_other_engines_count_too(prompt: str, generated: str) -> None:
    (found,) = costs({(prompt, ""): {0: 0.0, 60: 7.0}, (generated, ""): {0: 0.0, 60: 3.0}})
    assert (found.key, found.prompt, found.generated) == (("",), 7, 3)


def test_work_without_tokens_is_not_in_the_answer() -> None:
    assert costs({}) == []
    assert costs({(OUT, "m"): {0: 5.0, 60: 5.0}}) == []


class Written(Story):
    """Two pods of the example day serve one model for an hour, by a real Prometheus."""

    def openmetrics(self) -> str:
        """The counters of both, which begin at nine."""
        lines = []
        for metric, rate in ((IN, 4000), (OUT, 1000)):
            lines.append(f"# TYPE {metric.removesuffix('_total')} counter")
            for pod in PODS:
                labels = f'namespace="serving",pod="{pod}",model_name="llama",engine="0"'
                lines += [
                    f"{metric}{{{labels}}} {rate * minute} {NINE_US // US_PER_S + minute * 60 - 15}"
                    for minute in range(62)
                ]
        return "\n".join([*lines, "# EOF", ""])


PODS = ("chat-0", "chat-1")
SERVER = ("--prometheus", "http://127.0.0.1:1")


def test_a_real_prometheus_and_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    times = ("--from", "2026-11-27T09:00:00Z", "--until", "2026-11-27T10:00:00Z")
    asked = ["cost", str(FILE), "--prices", str(FILE.with_name("prices.csv")), *times]
    assert main([*asked, "--by", "pod", "-o", "csv"]) == ExitCode.DONE
    plain = {row["pod"]: row for row in csv.DictReader(io.StringIO(capsys.readouterr().out))}
    with prometheus(tmp_path, Written()) as url:
        server = ("--prometheus", url, "--per-million-tokens")
        assert main([*asked, *server, "--by", "pod,model", "-o", "csv"]) == ExitCode.DONE
        rows = {row["pod"]: row for row in csv.DictReader(io.StringIO(capsys.readouterr().out))}
        assert main([*asked, *server]) == ExitCode.DONE
        table = capsys.readouterr().out
    assert rows.keys() == {f"serving/{pod}" for pod in PODS}
    for pod, row in rows.items():
        # An hour of 4,000 and 1,000 a minute.
        assert (row["model"], row["prompt_tokens"], row["generated_tokens"]) == ("llama", "240000", "60000")
        assert (row["cost"], row["gpu_hours"]) == (plain[pod]["cost"], plain[pod]["gpu_hours"])
        per_million = Fraction(row["cost"]) / 300_000 * 1_000_000
        assert abs(Fraction(row["cost_per_million"]) - per_million) <= Fraction(1, 2_000_000)
    assert table.splitlines()[1].split()[:3] == ["llama", "480,000", "120,000"]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--per-million-tokens",), "there are no tokens for it"),
        (("--per-million-tokens", *SERVER, "--idle"), "has no tokens"),
        (
            ("--per-million-tokens", "--prometheus", "http://127.0.0.1:1", "--by", "day"),
            "no grouping of tokens",
        ),
        (("--per-million-tokens", *SERVER, "--grid-intensity", "1"), "is of energy"),
    ],
)
def test_what_tokens_do_not_go_with_is_refused(
    options: tuple[str, ...], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["cost", str(FILE), *options]) == ExitCode.BAD_INPUT
    assert words in capsys.readouterr().err
