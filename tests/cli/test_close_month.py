"""``gpufleet close-month``: what it says, and that `gpufleet cost` answers from what it wrote."""

import json
from pathlib import Path

import pytest

from gpufleet.cli.main import ExitCode, main
from gpufleet.ledger.interval_log import IntervalLog
from gpufleet.ledger.log_file import written
from gpufleet.ledger.months import end_us, month_of
from gpufleet.ledger.versions import Followed, ObjectKind
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
