"""The pages about malformed inputs and live faults name tests that exist, and none is left out."""

import re

from tests.agent.test_faults_document import defined_in
from tests.conventions.project import ROOT

PAGE = (ROOT / "docs" / "malformed-inputs.md").read_text(encoding="utf-8")
NAMED = re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", PAGE)
FAULTS_PAGE = (ROOT / "docs" / "faults-live.md").read_text(encoding="utf-8")
FAULTS_NAMED = re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", FAULTS_PAGE)
INPUTS = {15, *range(38, 53)}
"""Those of queues, gangs, topology and claims."""


def test_every_test_that_the_pages_name_exists() -> None:
    named = [*NAMED, *FAULTS_NAMED]
    missing = [f"{file}::{name}" for file, name in named if name not in defined_in(ROOT / file)]
    assert missing == []


def test_every_input_has_its_row_and_every_row_a_test() -> None:
    rows = re.findall(r"^\| (\d+) \|.*$", PAGE, re.MULTILINE)
    assert [int(number) for number in rows] == sorted(INPUTS)
    lines = [line for line in PAGE.splitlines() if re.match(r"\| \d", line)]
    assert all("::test_" in line for line in lines)


def test_every_test_that_names_an_input_or_a_fault_of_queues_is_on_its_row() -> None:
    numbered = re.compile(r"test_(input_\d+|fault_20|fault_40)_")
    for path in (ROOT / "tests").rglob("test_*.py"):
        for name in defined_in(path):
            if match := numbered.match(name):
                file = path.relative_to(ROOT).as_posix()
                kind, number = match[1].split("_")
                page = PAGE if kind == "input" else FAULTS_PAGE
                rows = [line for line in page.splitlines() if line.startswith(f"| {number} |")]
                assert any(f"`{file}::{name}`" in row for row in rows), name
