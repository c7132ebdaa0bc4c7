"""docs/malformed-inputs.md names tests that exist, and every test that names an input is in it."""

import re

from tests.agent.test_faults_document import defined_in
from tests.house.project import ROOT

PAGE = (ROOT / "docs" / "malformed-inputs.md").read_text(encoding="utf-8")
NAMED = re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", PAGE)
INPUTS = {15, *range(38, 51)}
"""Those of queues, gangs and topology."""


def test_every_test_that_the_page_names_exists() -> None:
    missing = [f"{file}::{name}" for file, name in NAMED if name not in defined_in(ROOT / file)]
    assert missing == []


def test_every_input_has_its_row_and_every_row_a_test() -> None:
    rows = re.findall(r"^\| (\d+) \|.*$", PAGE, re.MULTILINE)
    assert [int(number) for number in rows] == sorted(INPUTS)
    lines = [line for line in PAGE.splitlines() if re.match(r"\| \d", line)]
    assert all("::test_" in line for line in lines)


def test_every_test_that_names_an_input_is_on_its_row() -> None:
    numbered = re.compile(r"test_input_(\d+)_")
    for path in (ROOT / "tests").rglob("test_*.py"):
        for name in defined_in(path):
            if match := numbered.match(name):
                file = path.relative_to(ROOT).as_posix()
                row = next(line for line in PAGE.splitlines() if line.startswith(f"| {match[1]} |"))
                assert f"`{file}::{name}`" in row
