"""What ``gpufleet cost --budgets`` and ``--unusual`` print, and which options do not go with them."""

import csv
import io
import json
from decimal import Decimal
from pathlib import Path

import pytest

from gpufleet.cli.main import ExitCode, main
from gpufleet.ledger.charges import ChargesHeading, write_charges
from gpufleet.ledger.cost_rows import CostRow
from gpufleet.ledger.interval_log import LedgerPod
from gpufleet.ledger.stamps import US_PER_S
from gpufleet.model.identifiers import PodUid

DAY_US = 86_400 * US_PER_S
FIRST_US = 1_788_220_800 * US_PER_S
"""Tuesday, the first of September 2026."""

DAYS = 76
"""Until the 15th of November."""

POD = LedgerPod(PodUid("u"), "team", "p", "research", "Job/one", "", ())
BUDGETS = "by,name,period,amount,currency\nqueue,research,month,{},EUR\nqueue,other,year,5,EUR\n"


@pytest.fixture(autouse=True)
def _place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Charges of 10 EUR a day, and of 100 EUR on the last but one."""
    monkeypatch.chdir(tmp_path)
    rows = [
        CostRow(
            FIRST_US + day * DAY_US, "n", "m", "d", "used", "", POD, "p", False, 1_000,
            (100 if day == DAYS - 2 else 10) * US_PER_S,
        )
        for day in range(DAYS)
    ]  # fmt: skip
    heading = ChargesHeading("c", "EUR", FIRST_US, FIRST_US + DAYS * DAY_US)
    write_charges(Path("all.parquet"), rows, heading)


def said(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert main(["cost", "all.parquet", *arguments]) == ExitCode.DONE
    return capsys.readouterr().out


def budgets(amount: str) -> str:
    Path("budgets.csv").write_text(BUDGETS.format(amount), encoding="utf-8")
    return "budgets.csv"


def test_budgets_are_told_in_each_form(capsys: pytest.CaptureFixture[str]) -> None:
    """Fifteen days cost 240 EUR; fifteen days more at 10 EUR make 390, which is 350 after eleven of them."""
    asked = "--budgets", budgets("345.50")
    document = json.loads(said(capsys, *asked, "-o", "json"))
    first, second = document["budgets"]
    expected = {
        "by": "queue",
        "name": "research",
        "from": "2026-11-01",
        "until": "2026-12-01",
        "budget": "345.500000",
        "cost": "240.000000",
        "percent": "69",
        "reached": "50",
        "forecast": "390.000000",
        "exceeded_on": "2026-11-26",
        "state": "will be exceeded",
    }
    assert (document["currency"], first) == ("EUR", expected)
    assert (second["cost"], second["reached"], second["state"]) == ("0.000000", None, "within")
    rows = list(csv.DictReader(io.StringIO(said(capsys, *asked, "-o", "csv"))))
    assert rows == [{key: value or "" for key, value in one.items()} for one in (first, second)]
    line = said(capsys, *asked).splitlines()[1].split()
    assert line[:8] == ["queue", "research", "2026-11-30", "345.50", "240.00", "69", "%", "390.00"]
    early = json.loads(said(capsys, *asked, "--until", "2026-09-08", "-o", "json"))["budgets"][0]
    assert (early["cost"], early["forecast"]) == ("70.000000", None)


def test_unusual_days_are_told_in_each_form(capsys: pytest.CaptureFixture[str]) -> None:
    (day,) = json.loads(said(capsys, "--unusual", "-o", "json"))["days"]
    costs = {"cost": "100.000000", "usual": "10.000000", "above": "90.000000"}
    assert day == {"day": "2026-11-14", "queue": "research", **costs}
    assert list(csv.DictReader(io.StringIO(said(capsys, "--unusual", "-o", "csv")))) == [day]
    row = said(capsys, "--unusual", "--by", "namespace,model").splitlines()[1].split()
    assert row == ["2026-11-14", "team", "m", "100.00", "10.00", "90.00"]
    assert said(capsys, "--unusual", "--from", "2026-11-15").startswith("No day cost much more")
    assert Decimal(day["above"]) == Decimal(day["cost"]) - Decimal(day["usual"])


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--budgets", "budgets.csv", "--by", "queue"), "goes with no budget"),
        (("--budgets", "budgets.csv", "--from", "2026-11-01"), "goes with no budget"),
        (("--budgets", "budgets.csv", "--unusual"), "two questions at once"),
        (("--idle", "--unusual"), "two questions at once"),
        (("--unusual", "-o", "focus"), "no form of days"),
        (("--unusual", "--by", "queue,day"), "is not asked for"),
        (("--budgets", "dollars.csv"), "another currency than costs"),
    ],
)
def test_what_does_not_go_together_is_told(
    arguments: tuple[str, ...], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("dollars.csv").write_text(Path(budgets("5")).read_text("utf-8").replace("EUR", "USD"), "utf-8")
    assert main(["cost", "all.parquet", *arguments]) == ExitCode.BAD_INPUT
    assert words in capsys.readouterr().err
