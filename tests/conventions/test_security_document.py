"""docs/security.md names tests that exist, on every line, and what is said of reporting can be found."""

import re
from pathlib import Path

import pytest

from tests.conventions.project import ROOT

PAGE = (ROOT / "docs" / "security.md").read_text(encoding="utf-8")
TEST = re.compile(r"`(tests/[\w/-]+\.py)::(\w+)`")
ACTORS = (
    "A tenant with `edit` in a namespace",
    "A tenant with all rights in a namespace",
    "A tenant before admission and in a project",
    "A compromised container",
    "A compromised node",
    "An operator who errs",
    "A person or a site before the page",
)


def lines_of(actor: str) -> list[str]:
    """The rows of the table under an actor's heading, without the head of the table."""
    section = re.search(rf"^## {re.escape(actor)}\n(.*?)(?=^## |\Z)", PAGE, flags=re.DOTALL | re.MULTILINE)
    assert section, f"docs/security.md has no section {actor}"
    return re.findall(r"^\| .* \|$", section[1], flags=re.MULTILINE)[2:]


def defined_in(path: Path) -> set[str]:
    """The tests and state machines that a file defines."""
    text = path.read_text(encoding="utf-8")
    return set(re.findall(r"^(?:(?:async )?def )?(test_\w+(?=\()|Test\w+(?= = ))", text, re.MULTILINE))


@pytest.mark.parametrize("actor", ACTORS)
def test_every_line_of_an_actor_names_its_test(actor: str) -> None:
    rows = lines_of(actor)
    assert rows
    assert [row for row in rows if not TEST.search(row)] == []


def test_every_test_that_the_page_names_exists() -> None:
    missing = [f"{file}::{test}" for file, test in TEST.findall(PAGE) if test not in defined_in(ROOT / file)]
    assert missing == []


def test_the_page_says_what_is_out_of_scope() -> None:
    assert "## What is out of scope, and why" in PAGE


def test_the_policy_names_the_page_and_the_page_the_policy() -> None:
    policy = (ROOT / "SECURITY.md").read_text(encoding="utf-8")
    assert "docs/security.md" in policy
    assert "SECURITY.md" in PAGE
    assert "private vulnerability reporting" in policy
