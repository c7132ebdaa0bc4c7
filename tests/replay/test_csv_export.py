"""Exported tables: no cell runs as a formula, numbers stay numbers, times stay exact (input 60)."""

import csv
import io

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpufleet.replay.csv_export import Placement, safe_cell, seconds_text, write_csv, write_placements
from gpufleet.replay.trace_tasks import read_tasks
from tests.replay.trace_files import CORPUS, MODELS

MICROSECONDS = 1_000_000


@pytest.mark.parametrize(
    "text",
    [
        "=1+1",
        "+1",
        "-1+1",
        "@SUM(A1)",
        "\t=1",
        "\n=1",
        " =1",
        "\uff1d1",
        "\uff0b1",
        "\uff0d1",
        "\uff20x",
        "-",
        "--5",
    ],
)
def test_text_that_a_spreadsheet_would_run_is_escaped(text: str) -> None:
    assert safe_cell(text) == "'" + text


def test_a_character_that_hides_a_formula_is_written_out() -> None:
    assert safe_cell("\r=1") == r"\r=1"


@pytest.mark.parametrize(
    "value", ["-5", "-5.25", -5, -0.5, 0, 7, "openb-pod-0001", "a=b", "", "'quoted", None]
)
def test_the_rest_is_left_alone(value: str | float | None) -> None:
    assert safe_cell(value) == value


def test_placements_are_a_table() -> None:
    file = io.StringIO(newline="")
    write_placements(
        file,
        [
            Placement("a,b", "node-1", ("node-1/0", "node-1/1"), 1000, 1_500_000),
            Placement("=c", None, reason="no GPU left"),
        ],
    )
    assert file.getvalue() == (
        "pod,node,devices,gpu_milli,at_s,reason\r\n"
        '"a,b",node-1,node-1/0;node-1/1,1000,1.5,\r\n'
        "'=c,,,0,0,no GPU left\r\n"
    )


def test_names_from_a_hostile_trace_come_back_escaped() -> None:
    tasks = read_tasks(CORPUS / "60-formula-names.pods.csv", MODELS).tasks
    file = io.StringIO(newline="")
    write_placements(file, [Placement(task.name, "-node", ("-node/0",)) for task in tasks])
    rows = list(csv.reader(io.StringIO(file.getvalue(), newline="")))[1:]
    assert [row[0] for row in rows] == ["'" + task.name for task in tasks]
    assert all(row[1:3] == ["'-node", "'-node/0"] for row in rows)


@given(st.lists(st.lists(st.text() | st.integers() | st.none(), min_size=2, max_size=2)))
def test_no_cell_begins_like_a_formula(rows: list[list[str | int | None]]) -> None:
    file = io.StringIO(newline="")
    write_csv(file, ["first", "second"], rows)
    written = list(csv.reader(io.StringIO(file.getvalue(), newline=""), strict=True))
    assert len(written) == len(rows) + 1
    for cell in (cell for row in written for cell in row):
        assert cell[:1] not in {"=", "+", "@", "\t", "\r"}
        assert cell[:1] != "-" or cell[1:].replace(".", "").isdigit()


@given(st.integers(-(2**63), 2**63))
def test_seconds_are_exact(time_us: int) -> None:
    text = seconds_text(time_us)
    whole, _, decimals = text.lstrip("-").partition(".")
    read = int(whole) * MICROSECONDS + int(decimals.ljust(6, "0"))
    assert (-read if text.startswith("-") else read) == time_us
    assert not decimals.endswith("0")
