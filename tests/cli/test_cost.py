"""What ``gpufleet cost`` prints of a recording, and that what it prints adds up."""

import csv
import gzip
import io
import json
from decimal import Decimal
from pathlib import Path

import pytest
from msgspec import structs

from gpufleet.cli.main import ExitCode, main
from gpufleet.ledger.buckets import BusySpan
from gpufleet.ledger.cluster_reading import Seen
from gpufleet.ledger.interval_log import IntervalLog
from gpufleet.ledger.log_file import heading_line, read_log, written
from gpufleet.ledger.spans import Span
from gpufleet.ledger.versions import Followed, NodeVersion, ObjectKind
from tests.ledger.example_day import ExampleDay
from tests.ledger.recording import observations

PRICES = "unit,amount,currency,gpu_amount\nnode-hour,36000,USD,28800\n"
"""Ten dollars a second, as the recording is of some seconds."""


@pytest.fixture(autouse=True)
def _place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder with a log and prices."""
    monkeypatch.chdir(tmp_path)
    Path("prices.csv").write_text(PRICES, encoding="utf-8")
    Path("a.ledger").write_bytes(b"".join(written(recorded(), "c-1")))


def recorded() -> IntervalLog:
    log = IntervalLog()
    for seen in observations():
        log.take(seen)
    for holding in log.intervals().nodes[0].holdings:
        log.measure(BusySpan(holding.device, holding.pod_uid, Span(holding.span.from_us), 500_000))
    return log


def said(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert main(["cost", *arguments]) == ExitCode.DONE
    return capsys.readouterr().out


def cells(table: str, name: str) -> list[str]:
    """The figures of a row."""
    (row,) = (line for line in table.splitlines() if line.startswith(name))
    return row.removeprefix(name).split()


def test_the_table_names_queues_causes_and_what_they_cost(capsys: pytest.CaptureFixture[str]) -> None:
    text = said(capsys, "a.ledger", "--prices", "prices.csv")
    costs, waste = text.split("\n\nWASTE")
    assert costs.splitlines()[2].split() == ["QUEUE", "GPU-HOURS", "COMPUTED", "COST", "USD", "WASTE"]
    parts = [Decimal(cells(costs, name)[2]) for name in ("research", "(held by no pod)")]
    assert sum(parts) == Decimal(cells(costs, "sum")[2])
    assert cells(costs, "sum")[3] == cells(waste, "sum")[1]
    for cause in (
        "held by pods that computed nothing",
        "held by members of gangs that were not whole",
        "held while pods that run were not ready",
        "held by pods that were told to end",
        "on nodes that were cordoned or leaving",
        "kept for waiting work: research",
        "ill GPUs: unhealthy",
        "CPU and memory that no pod held",
    ):
        assert cells(waste, cause), cause


@pytest.mark.parametrize("by", ["queue", "bucket", "namespace,owner", "label:team", "day,node,pod"])
def test_csv_and_json_add_up_to_one_bill(by: str, capsys: pytest.CaptureFixture[str]) -> None:
    rows = list(
        csv.DictReader(
            io.StringIO(said(capsys, "a.ledger", "--prices", "prices.csv", "--by", by, "-o", "csv"))
        )
    )
    document = json.loads(said(capsys, "a.ledger", "--prices", "prices.csv", "--by", by, "-o", "json"))
    total = Decimal(document["total"]["cost"])
    assert sum(Decimal(row["cost"]) for row in rows) == total
    assert sum(Decimal(one["cost"]) for one in document["groups"]) == total
    assert Decimal(100) < total < Decimal(130)
    assert {row["currency"] for row in rows} == {"USD"}
    assert list(rows[0])[: len(by.split(","))] == by.split(",")


def test_without_prices_hours_are_told_and_the_way_to_amounts(capsys: pytest.CaptureFixture[str]) -> None:
    text = said(capsys, "a.ledger")
    assert "COST" not in text
    assert "no price is known for these nodes; --prices takes a table of them" in text
    row = json.loads(said(capsys, "a.ledger", "-o", "json"))["total"]
    assert (row["cost"], row["waste"]) == (None, None)


def test_logs_are_put_together_and_saved_alike_each_time(capsys: pytest.CaptureFixture[str]) -> None:
    lines = Path("a.ledger").read_bytes().splitlines(keepends=True)
    Path("half.ledger").write_bytes(b"".join([lines[0], *lines[1::2]]))
    Path("rest.ledger").write_bytes(b"".join([lines[0], *lines[2::2]]))
    expected = said(capsys, "a.ledger", "--prices", "prices.csv")
    for _ in range(2):
        both = said(capsys, "half.ledger", "rest.ledger", "--prices", "prices.csv", "--save", "all.ledger")
        assert both == expected
        assert Path("all.ledger").read_bytes() == Path("a.ledger").read_bytes()


def test_a_time_of_which_nothing_is_known_has_no_gpu(capsys: pytest.CaptureFixture[str]) -> None:
    assert "No GPU is known of that time." in said(capsys, "a.ledger", "--until", "2020-01-01")


def test_a_time_after_all_that_is_known_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["cost", "a.ledger", "--from", "2100-01-01"]) == ExitCode.BAD_INPUT
    assert "--from: nothing is known since then" in capsys.readouterr().err


def test_two_runs_at_once_keep_what_both_saw(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A run that asked the cluster first and writes last loses nothing of the one between."""
    first, second = (Followed(ObjectKind.POD, begin, begin + 10) for begin in (1_000, 2_000))

    def other_run(_: object) -> Seen:
        monkeypatch.setattr("gpufleet.cli.cost_input.seen_in", lambda _: Seen((second,), 1, cluster="c-1"))
        said(capsys, "--save", "all.ledger")
        return Seen((first,), 1, cluster="c-1")

    Path("all.ledger").write_bytes(heading_line("c-1"))
    monkeypatch.setattr("gpufleet.cli.cost_input.seen_in", other_run)
    said(capsys, "--save", "all.ledger")
    assert list(read_all("all.ledger").seen()) == [first, second]


def read_all(name: str) -> IntervalLog:
    log = IntervalLog()
    read_log(Path(name).read_bytes().splitlines(keepends=True), name, log)
    return log


@pytest.mark.parametrize("cut", [0, 20])
def test_what_a_kill_cut_off_does_not_spoil_what_is_added(
    cut: int, capsys: pytest.CaptureFixture[str]
) -> None:
    """A cut-off heading or a cut-off last line of a file that is added to."""
    whole = Path("a.ledger").read_bytes()
    Path("cut.ledger").write_bytes(whole[: cut or len(whole) - 9])
    said(capsys, "a.ledger", "--save", "cut.ledger")
    assert sorted(Path("cut.ledger").read_bytes().splitlines()) == sorted(whole.splitlines())


def test_a_packed_file_and_a_foreign_one_are_not_added_to(capsys: pytest.CaptureFixture[str]) -> None:
    for content, words in (
        (gzip.compress(Path("a.ledger").read_bytes()), "is packed"),
        (b"notes", "no ledger"),
    ):
        Path("kept").write_bytes(content)
        assert main(["cost", "a.ledger", "--save", "kept"]) == ExitCode.BAD_INPUT
        assert words in capsys.readouterr().err
        assert Path("kept").read_bytes() == content


def test_a_file_of_another_cluster_is_neither_read_with_others_nor_added_to(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("other.ledger").write_bytes(heading_line("c-2"))
    assert main(["cost", "a.ledger", "other.ledger"]) == ExitCode.BAD_INPUT
    assert "other.ledger, cluster: is of another cluster than a.ledger" in capsys.readouterr().err
    monkeypatch.setattr("gpufleet.cli.cost_input.seen_in", lambda _: Seen((), 1, cluster="c-1"))
    assert main(["cost", "--save", "other.ledger"]) == ExitCode.BAD_INPUT
    words = "other.ledger, cluster: is of another cluster than the cluster that was asked"
    assert words in capsys.readouterr().err
    assert Path("other.ledger").read_bytes() == heading_line("c-2")


def test_without_the_right_to_tell_clusters_apart_nothing_is_saved(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("gpufleet.cli.cost_input.seen_in", lambda _: Seen((), 1))
    assert main(["cost", "--save", "new.ledger"]) == ExitCode.BAD_INPUT
    assert "you may not get the namespace kube-system" in capsys.readouterr().err
    assert not Path("new.ledger").exists()


def test_csv_tells_what_no_pod_holds_from_pods_without_that(capsys: pytest.CaptureFixture[str]) -> None:
    """Two rows with an empty name would be one for those who add them up."""
    text = said(capsys, "a.ledger", "--prices", "prices.csv", "--by", "gang", "-o", "csv")
    names = [row["gang"] for row in csv.DictReader(io.StringIO(text))]
    assert sorted(names) == ["(held by no pod)", "(none)", "default/train"]


def test_cpu_and_memory_have_no_hours_of_gpus(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ("a.ledger", "--prices", "prices.csv", "--by", "bucket")
    table = said(capsys, *arguments).split("\n\nWASTE")[0]
    assert cells(table, "host-idle")[:2] == ["-", "-"]
    assert cells(table, "idle-held")[0] != "-"
    rows = {row["bucket"]: row for row in csv.DictReader(io.StringIO(said(capsys, *arguments, "-o", "csv")))}
    assert (rows["host-idle"]["gpu_hours"], rows["host-idle"]["computed"]) == ("", "")
    groups = json.loads(said(capsys, *arguments, "-o", "json"))["groups"]
    assert [one["gpu_hours"] for one in groups if one["bucket"] == "host-idle"] == [None]


def test_charges_answer_as_the_logs_do_that_they_are_of(capsys: pytest.CaptureFixture[str]) -> None:
    logged = said(
        capsys, "a.ledger", "--prices", "prices.csv", "--by", "queue,bucket", "--charges", "day.parquet"
    )
    assert said(capsys, "day.parquet", "--by", "queue,bucket") == logged
    for words, arguments in {
        "charges, which are worked out": ("--prices", "prices.csv"),
        "charges beside observations": ("a.ledger",),
    }.items():
        assert main(["cost", "day.parquet", *arguments]) == ExitCode.BAD_INPUT
        assert words in capsys.readouterr().err


def test_what_was_billed_counts_before_prices_and_all_of_it_is_in_the_answer(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The day of the page's example, with bills of twelve of its hours and of a bucket of files."""
    day, node = "2026-11-27", "h100-1"
    log = IntervalLog()
    for seen in ExampleDay().log.seen():
        is_node = isinstance(seen, NodeVersion) and seen.node == node
        log.take(structs.replace(seen, provider_id="aws:///a/i-1") if is_node else seen)
    Path("day.ledger").write_bytes(b"".join(written(log, "c-1")))
    lines = [
        f"arn:aws:ec2:a:1:instance/i-1,0.33333333,USD,{day}T{hour:02}:00:00Z,{day}T{hour + 1:02}:00:00Z"
        for hour in range(12)
    ]
    lines += [f"files,2.5,USD,{day}T00:00:00Z,{day}T01:00:00Z"]
    heading = "ResourceId,EffectiveCost,BillingCurrency,ChargePeriodStart,ChargePeriodEnd"
    Path("bill.csv").write_text("\n".join([heading, *lines, ""]), encoding="utf-8")
    arguments = (
        "day.ledger",
        "--bill",
        "bill.csv",
        "--from",
        day,
        "--until",
        "2026-11-28",
        "--by",
        "state,queue",
    )
    document = json.loads(said(capsys, *arguments, "-o", "json", "--charges", "charges.parquet"))
    # 12 x 0.33333333 + 2.5 = 6.49999996, which is 6.500000 in micro-units.
    assert (document["total"]["cost"], document["total"]["other_cost"]) == ("6.500000", "2.500000")
    assert document["currency"] == "USD"
    words = "of the bill of 6.500000 USD 4.000000 USD are for 1 node and 2.500000 USD for no node"
    assert words in document["notes"]
    assert (
        json.loads(said(capsys, "charges.parquet", "--by", "state,queue", "-o", "json"))["groups"]
        == document["groups"]
    )
    focus = csv.DictReader(io.StringIO(said(capsys, *arguments, "-o", "focus")))
    assert sum(Decimal(row["EffectiveCost"]) for row in focus) == 4
    Path("packed.csv.gz").write_bytes(gzip.compress(Path("bill.csv").read_bytes()))
    packed = [one.replace("bill.csv", "packed.csv.gz") for one in arguments]
    assert json.loads(said(capsys, *packed, "-o", "json")) == document
    assert main(["cost", *arguments, "--prices", "prices.csv"]) == ExitCode.DONE
    Path("euro.csv").write_text(PRICES.replace("USD", "EUR"), encoding="utf-8")
    assert main(["cost", *arguments, "--prices", "euro.csv"]) == ExitCode.BAD_INPUT
    assert "a bill in another currency" in capsys.readouterr().err


def test_idle_jobs_are_told_with_what_would_help(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ("a.ledger", "--prices", "prices.csv", "--idle")
    document = json.loads(said(capsys, *arguments, "-o", "json"))
    rows = list(csv.DictReader(io.StringIO(said(capsys, *arguments, "-o", "csv"))))
    assert [(one["job"], one["idle_cost"]) for one in document["jobs"]] == [
        (one["job"], one["idle_cost"]) for one in rows
    ]
    total = sum(
        Decimal(one["cost"])
        for one in csv.DictReader(io.StringIO(said(capsys, *arguments[:3], "--by", "bucket", "-o", "csv")))
        if one["bucket"] == "idle-held"
    )
    assert sum(Decimal(one["idle_cost"]) for one in rows) == total > 0
    table = said(capsys, *arguments)
    for one in rows:
        assert one["command"] == f"gpufleet advise sharing --prometheus URL --namespace {one['namespace']}"
        assert one["command"] in table
    assert said(capsys, "a.ledger", "--idle", "--until", "2020-01-01").startswith("No job is known")
    for option, words in (("--by", "puts no idle jobs together"), ("-o", "no form of what is idle")):
        assert (
            main(["cost", *arguments, option, "focus" if option == "-o" else "queue"]) == ExitCode.BAD_INPUT
        )
        assert words in capsys.readouterr().err
