"""docs/faults-agent.md names tests that exist, and every test that names a fault is in it."""

import re
from pathlib import Path

from tests.conventions.project import ROOT

PAGE = (ROOT / "docs" / "faults-agent.md").read_text(encoding="utf-8")
NAMED = re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", PAGE)
FAULTS = {*range(24, 36), 37, 39, 41, 42}
"""The faults of a node, those of claims among them."""


def defined_in(path: Path) -> set[str]:
    """The tests that a file defines, machines of random stories among them."""
    tests = r"^(?:async )?def (test_\w+)|^(Test\w+) = \w+\.TestCase"
    return {
        name for found in re.findall(tests, path.read_text(encoding="utf-8"), re.MULTILINE) for name in found
    }


def test_every_test_that_the_page_names_exists() -> None:
    assert NAMED
    missing = [f"{file}::{name}" for file, name in NAMED if name not in defined_in(ROOT / file)]
    assert missing == []


def test_every_fault_has_its_row() -> None:
    rows = [int(number) for number in re.findall(r"^\| (\d+) \|", PAGE, re.MULTILINE)]
    assert rows == sorted(FAULTS)


def test_every_test_that_names_a_fault_of_a_node_is_on_the_page() -> None:
    numbered = re.compile(r"test_fault_(\d+)_")
    found = {
        name
        for folder in ("agent", "kube")
        for path in (ROOT / "tests" / folder).rglob("test_*.py")
        for name in defined_in(path)
        if (match := numbered.match(name)) and int(match[1]) in FAULTS
    }
    assert found - {name for _, name in NAMED} == set()
