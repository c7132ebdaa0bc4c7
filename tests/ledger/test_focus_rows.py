"""Rows of FOCUS add up to what the nodes cost, and pass the lint of the specification's version."""

import csv
import io
import json
import subprocess
import sys
from collections import defaultdict
from decimal import Decimal
from importlib.resources import files
from pathlib import Path

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpufleet.cli.main import ExitCode, main
from gpufleet.ledger.focus_rows import FOCUS_12, FOCUS_14, RATIO_DIGITS, ratios

EXAMPLES = Path(__file__).parents[2] / "examples/cost"
DAY = ("--from", "2026-11-27", "--until", "2026-11-28")
COST_COLUMNS = ("BilledCost", "ContractedCost", "EffectiveCost", "ListCost")
Row = dict[str, str]


def said(capsys: pytest.CaptureFixture[str], *options: str) -> str:
    prices = str(EXAMPLES / "prices.csv")
    assert main(["cost", str(EXAMPLES / "day.ledger"), "--prices", prices, *DAY, *options]) == ExitCode.DONE
    return capsys.readouterr().out


def rows(text: str) -> list[Row]:
    return list(csv.DictReader(io.StringIO(text)))


@pytest.mark.parametrize("form", ["focus", "focus-1.2"])
def test_rows_add_up_to_what_the_nodes_cost(form: str, capsys: pytest.CaptureFixture[str]) -> None:
    total = Decimal(json.loads(said(capsys, "-o", "json"))["total"]["cost"])
    found = rows(said(capsys, "-o", form))
    for column in COST_COLUMNS:
        assert sum(Decimal(row[column]) for row in found) == total


def test_rows_of_a_queue_are_what_the_queue_costs(capsys: pytest.CaptureFixture[str]) -> None:
    groups = json.loads(said(capsys, "-o", "json"))["groups"]
    found: dict[str | None, Decimal] = defaultdict(Decimal)
    for row in rows(said(capsys, "-o", "focus")):
        tags = json.loads(row["AllocatedTags"] or "{}")
        found[tags.get("queue")] += Decimal(row["EffectiveCost"])
    assert found == {group["queue"]: Decimal(group["cost"]) for group in groups}


def test_ratios_of_a_charge_are_exactly_one_and_each_fits_its_schema(
    capsys: pytest.CaptureFixture[str],
) -> None:
    schema = json.loads(
        files("focus_data_toolkit")
        .joinpath("model/json_schemas/allocatedmethoddetailsobjectschema.json")
        .read_text(encoding="utf-8")
    )
    found: dict[str, Decimal] = defaultdict(Decimal)
    for row in rows(said(capsys, "-o", "focus")):
        details = json.loads(row["AllocatedMethodDetails"], parse_float=Decimal)
        jsonschema.validate(json.loads(row["AllocatedMethodDetails"]), schema)
        found[row["x_OriginId"]] += sum(Decimal(one["AllocatedRatio"]) for one in details["Elements"])
    assert set(found.values()) == {Decimal(1)}
    # A charge for the GPUs and one for the host, for each hour of both nodes.
    assert len(found) == 2 * 2 * 24


def test_a_day_passes_the_lint_of_focus_1_4(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "day.csv"
    file.write_text(said(capsys, "-o", "focus"), encoding="utf-8")
    answer = subprocess.run(
        [sys.executable, "-m", "focus_data_toolkit", "validate", file],
        capture_output=True,
        text=True,
        check=False,
    )
    assert answer.returncode == 0, answer.stdout + answer.stderr
    assert "SEMANTIC_VALID" in answer.stdout


def test_columns_are_those_of_the_version() -> None:
    model = json.loads(
        files("focus_data_toolkit").joinpath("model/focus_1_4_model.json").read_text(encoding="utf-8")
    )
    columns = model["datasets"]["Cost and Usage"]["columns"]
    ours = {column for column in FOCUS_14.columns if not column.startswith("x_")}
    assert ours <= columns.keys()
    assert {name for name, one in columns.items() if one["feature_level"] == "Mandatory"} <= ours
    # Version 1.2 knows neither split rows nor hosts, and has providers and publishers.
    assert {"ProviderName", "PublisherName"} <= set(FOCUS_12.columns)
    assert not [one for one in FOCUS_12.columns if one.startswith(("Allocated", "Host"))]


@given(st.lists(st.integers(0, 10**12), min_size=1, max_size=9))
def test_ratios_of_any_amounts_add_up(amounts: list[int]) -> None:
    found = [Decimal(one) for one in ratios(amounts)]
    assert sum(found) == 1
    if sum(amounts):
        unit = Decimal(1).scaleb(-RATIO_DIGITS)
        for ratio, amount in zip(found, amounts, strict=True):
            assert abs(ratio - Decimal(amount) / sum(amounts)) <= unit


def test_rows_need_prices(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["cost", str(EXAMPLES / "day.ledger"), *DAY, "-o", "focus"]) == ExitCode.BAD_INPUT
    assert "FOCUS has rows of charges" in capsys.readouterr().err
