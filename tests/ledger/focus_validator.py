"""Rows of FOCUS 1.2 before the public validator, which needs an environment of its own.

``make check-focus`` makes it and runs this: ``python -m tests.ledger.focus_validator FOLDER``. The validator
takes ids of digits in CSV for numbers, so it gets Parquet with the types of the specification.
"""

import re
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import click
import duckdb

from tests.conventions.project import ROOT

EXAMPLES = ROOT / "examples" / "cost"
VERSION = "1.2.0.1"
"""The version whose rules the validator 2.2.1 brings along."""

DECIMALS = re.compile("Cost$|Quantity$|UnitPrice$")
TIMES = re.compile("Period(Start|End)$")

KNOWN = {
    "CapacityReservationStatus-C-004-C": "asks for a status also where CapacityReservationId is null",
    "CommitmentDiscountStatus-C-004-C": "asks for a status also where CommitmentDiscountId is null",
    "InvoiceId-C-005-C": "asks for an invoice, which showback has not",
}
"""Rules that fail for what is right, each with its reason; rules above that only sum these up fail too."""

RULE = re.compile(r"❌ (\S+): FAIL +\(violations=\d+, msg=(.*)")


def rows(folder: Path) -> Path:
    """The example day as Parquet."""
    day = ("--from", "2026-11-27", "--until", "2026-11-28", "-o", "focus-1.2")
    asked = ["cost", str(EXAMPLES / "day.ledger"), "--prices", str(EXAMPLES / "prices.csv"), *day]
    answer = subprocess.run([sys.executable, "-m", "gpufleet", *asked], stdout=subprocess.PIPE, check=True)
    table, found = folder / "day.csv", folder / "day.parquet"
    table.write_bytes(answer.stdout)
    with duckdb.connect() as database:
        source = f"read_csv('{table}', all_varchar = true)"
        names = [str(name) for name, *_ in database.execute(f"DESCRIBE SELECT * FROM {source}").fetchall()]  # noqa: S608
        cells = ", ".join(f'CAST(nullif("{name}", \'\') AS {kind(name)}) AS "{name}"' for name in names)
        database.execute(f"COPY (SELECT {cells} FROM {source}) TO '{found}' (FORMAT parquet)")  # noqa: S608
    return found


def kind(column: str) -> str:
    """The type of a column."""
    if DECIMALS.search(column):
        return "DOUBLE"
    return "TIMESTAMP" if TIMES.search(column) else "VARCHAR"


def failures(environment: Path, file: Path) -> dict[str, str]:
    """The rules that fail and do not only sum others up, with what is said of each."""
    # It reads its list of currencies by a path relative to its own folder.
    (place,) = environment.glob("lib/python3*/site-packages")
    asked = ["--data-file", str(file), "--validate-version", VERSION, "--focus-dataset", "CostAndUsage"]
    options = ["--block-download", "--applicability-criteria", "ALL", "--output-type", "console"]
    typed = [str(environment.resolve() / "bin" / "focus-validator"), *asked, *options]
    answer = subprocess.run(typed, cwd=place, capture_output=True, text=True, check=False)
    summary = re.search(r"^Total: .*$", answer.stdout, re.MULTILINE)
    assert summary is not None, answer.stdout + answer.stderr
    click.echo(summary[0])
    return {rule: words for rule, words in RULE.findall(answer.stdout) if "failed child rules" not in words}


def main(environment: Path) -> int:
    """Print what fails; 1 where that is more or less than is known."""
    with TemporaryDirectory(prefix="gpufleet-focus-") as folder:
        found = failures(environment, rows(Path(folder)))
    for rule, words in found.items():
        click.echo(f"{rule}: {KNOWN.get(rule, words)}")
    return 0 if found.keys() == KNOWN.keys() else 1


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
