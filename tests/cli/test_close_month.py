"""``gpufleet close-month``: what it says, and that `gpufleet cost` answers from what it wrote."""

import csv
import io
import json
import subprocess
import sys
from collections import defaultdict
from decimal import Decimal
from pathlib import Path

import pytest
from msgspec import structs

from gpufleet.cli.main import ExitCode, main
from gpufleet.ledger.interval_log import IntervalLog
from gpufleet.ledger.log_file import written
from gpufleet.ledger.months import end_us, month_of
from gpufleet.ledger.versions import Followed, NodeVersion, ObjectKind
from tests.ledger.example_day import ExampleDay
from tests.ledger.recording import observations

PRICES = "unit,amount,currency,gpu_amount\nnode-hour,36,USD,28.8\n"


@pytest.fixture(autouse=True)
def month(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A folder with prices and with a log of a month that is over."""
    monkeypatch.chdir(tmp_path)
    Path("prices.csv").write_text(PRICES, encoding="utf-8")
    Path("dearer.csv").write_text(PRICES.replace("36", "72"), encoding="utf-8")
    log = IntervalLog()
    for seen in observations():
        log.take(seen)
    found = month_of(log.known_until_us())
    Path("open.ledger").write_bytes(b"".join(written(log, "c-1")))
    # Pods are followed until two months later.
    following = month_of(end_us(found))
    log.take(Followed(ObjectKind.POD, log.known_until_us(), end_us(following)))
    Path("whole.ledger").write_bytes(b"".join(written(log, "c-1")))
    return found


def closed(*arguments: str) -> int:
    return main(["close-month", *arguments, "--accounts", "accounts"])


def total(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert main(["cost", *arguments, "-o", "json"]) == ExitCode.DONE
    cost: str = json.loads(capsys.readouterr().out)["total"]["cost"]
    return cost


def test_a_month_is_closed_and_a_later_price_corrects_it(
    month: str, capsys: pytest.CaptureFixture[str]
) -> None:
    following = month_of(end_us(month))
    assert closed(month, "whole.ledger", "--prices", "prices.csv") == ExitCode.DONE
    said = capsys.readouterr().out.splitlines()
    files = f"accounts/{month}.charges.parquet", f"accounts/{following}.charges.parquet"
    first = total(capsys, files[0], "--from", f"{month}-01")
    assert said[0] == f"{month} is closed: {first} USD"
    assert said[1] == f"Note: {first} USD are by prices, as no bill for them was given"
    content = Path(files[0]).read_bytes()
    assert closed(following, "whole.ledger", "--prices", "dearer.csv", "--correct", month) == ExitCode.DONE
    corrected = capsys.readouterr().out.splitlines()[1]
    assert corrected.startswith(f"{month} is corrected by ")
    assert f"from {first} USD to " in corrected
    assert Path(files[0]).read_bytes() == content
    since = ("--from", f"{month}-01")
    by_log = total(capsys, "whole.ledger", "--prices", "dearer.csv", *since)
    assert total(capsys, *files, *since) == by_log


def test_what_cannot_be_closed_is_told(month: str, capsys: pytest.CaptureFixture[str]) -> None:
    for arguments, words in (
        ((month, "open.ledger", "--prices", "prices.csv"), "is not known whole"),
        ((month, "whole.ledger"), "no amount is known"),
        (("2026-13", "whole.ledger", "--prices", "prices.csv"), "no month"),
    ):
        assert closed(*arguments) == ExitCode.BAD_INPUT
        assert words in capsys.readouterr().err
    assert not list(Path("accounts").iterdir())


def billed_and_corrected(capsys: pytest.CaptureFixture[str]) -> list[str]:
    """November with a bill, and December with a credit for it; the files of both."""
    log = IntervalLog()
    for seen in ExampleDay().log.seen():
        is_node = isinstance(seen, NodeVersion) and seen.node == "h100-1"
        log.take(structs.replace(seen, provider_id="aws:///a/i-1") if is_node else seen)
    log.take(Followed(ObjectKind.POD, log.known_until_us(), end_us("2026-12")))
    Path("day.ledger").write_bytes(b"".join(written(log, "c-1")))
    day = "2026-11-27T"
    hours = [(f"{day}{hour:02}:00:00Z", f"{day}{hour + 1:02}:00:00Z") for hour in range(12)]
    lines = [f"i-1,0.33333333,USD,{begin},{end}," for begin, end in hours]
    lines.append(f"files,2.5,USD,{day}00:00:00Z,{day}01:00:00Z,")
    heading = "ResourceId,EffectiveCost,BillingCurrency,ChargePeriodStart,ChargePeriodEnd,ChargeClass"
    Path("bill.csv").write_text("\n".join([heading, *lines, ""]), encoding="utf-8")
    credit = f"i-1,-0.5,USD,{day}03:00:00Z,{day}04:00:00Z,Correction"
    Path("credit.csv").write_text(f"{heading}\n{credit}\n", encoding="utf-8")
    assert closed("2026-11", "day.ledger", "--bill", "bill.csv") == ExitCode.DONE
    assert capsys.readouterr().out.splitlines()[0] == "2026-11 is closed: 6.500000 USD"
    bills = ("--bill", "bill.csv", "--bill", "credit.csv")
    assert closed("2026-12", "day.ledger", *bills, "--correct", "2026-11") == ExitCode.DONE
    told = "2026-11 is corrected by -0.500000 USD, from 6.500000 USD to 6.000000 USD"
    assert told in capsys.readouterr().out
    return [f"accounts/2026-{month}.charges.parquet" for month in (11, 12)]


def test_a_showback_adds_up_to_the_bill_by_cents(capsys: pytest.CaptureFixture[str]) -> None:
    """12 hours of a node and files of nobody are billed in November; a credit of 0.50 comes later.

    12 x 0.33333333 + 2.50 - 0.50 are 6.00 in cents.
    """
    files = billed_and_corrected(capsys)
    for by in ("queue", "namespace,owner", "bucket", "state", "day"):
        assert main(["cost", *files, "--from", "2026-11-01", "--by", by, "-o", "csv"]) == ExitCode.DONE
        rows = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
        assert sum(Decimal(row["cost"] or 0) for row in rows) == 6, by
    assert main(["cost", *files, "--from", "2026-11-01"]) == ExitCode.DONE
    table = capsys.readouterr().out.split("\n\n")[1].splitlines()
    place = table[0].index("COST USD") + len("COST USD")
    shown = [row[:place].split()[-1] for row in table[1:]]
    assert sum(Decimal(amount) for amount in shown[:-1] if amount != "-") == Decimal(shown[-1]) == 6


def test_closed_months_and_their_corrections_are_rows_of_focus(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """12 x 0.33333333 are billed in November, and of them a credit of 0.50 in December."""
    files = billed_and_corrected(capsys)
    assert main(["cost", *files, "--from", "2026-11-01", "-o", "focus"]) == ExitCode.DONE
    text = capsys.readouterr().out
    rows = list(csv.DictReader(io.StringIO(text)))
    assert sum(Decimal(row["EffectiveCost"]) for row in rows) == Decimal("3.5")
    changes = [row for row in rows if row["ChargeClass"] == "Correction"]
    assert sum(Decimal(row["EffectiveCost"]) for row in changes) == Decimal("-0.5")
    assert {row["ChargePeriodStart"] for row in changes} == {"2026-11-27T03:00:00Z"}
    assert {row["BillingPeriodStart"] for row in changes} == {"2026-12-01T00:00:00Z"}
    ratios: dict[str, Decimal] = defaultdict(Decimal)
    for row in rows:
        details = json.loads(row["AllocatedMethodDetails"], parse_float=Decimal)
        ratios[row["x_OriginId"]] += sum(Decimal(one["AllocatedRatio"]) for one in details["Elements"])
    assert set(ratios.values()) == {Decimal(1)}
    (tmp_path / "months.csv").write_text(text, encoding="utf-8")
    command = [sys.executable, "-m", "focus_data_toolkit", "validate", str(tmp_path / "months.csv")]
    answer = subprocess.run(command, capture_output=True, text=True, check=False)
    assert answer.returncode == 0, answer.stdout + answer.stderr
