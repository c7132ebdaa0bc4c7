"""What we depend on is declared, locked with hashes, explained, and names no package index."""

import re

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.conventions.project import ROOT, pyproject

LOCKS = ("requirements.txt", "requirements-dev.txt")
PINNED = re.compile(r"^([A-Za-z0-9._-]+)==([^\s;]+)", flags=re.MULTILINE)


def declared() -> list[Requirement]:
    """Every requirement that pyproject.toml names: to run, for extras, to develop."""
    project = pyproject()["project"]
    texts = list(project["dependencies"])
    for extra in project["optional-dependencies"].values():
        texts += extra
    for group in pyproject()["dependency-groups"].values():
        texts += group
    return [Requirement(text) for text in texts]


def pins(lock: str) -> dict[str, str]:
    """Version by name in one lock."""
    text = (ROOT / lock).read_text(encoding="utf-8")
    return {canonicalize_name(found[1]): found[2] for found in PINNED.finditer(text)}


@pytest.mark.parametrize("requirement", declared(), ids=str)
def test_dependency_has_its_reason_in_the_documents(requirement: Requirement) -> None:
    rows = (ROOT / "docs" / "dependencies.md").read_text(encoding="utf-8").splitlines()
    assert any(row.startswith(f"| `{requirement.name}` |") for row in rows), (
        f"docs/dependencies.md has no row for {requirement.name}: why do we need it?"
    )


@pytest.mark.parametrize("requirement", declared(), ids=str)
def test_dependency_is_locked_at_a_version_that_is_allowed(requirement: Requirement) -> None:
    locked = pins("requirements-dev.txt").get(canonicalize_name(requirement.name))
    assert locked is not None, f"{requirement.name} is not locked: make lock"
    assert requirement.specifier.contains(locked), f"{requirement} is locked at {locked}: make lock"


def test_what_runs_is_what_is_tested() -> None:
    run, develop = (pins(lock) for lock in LOCKS)
    assert run, "requirements.txt locks nothing"
    assert run.items() <= develop.items()


@pytest.mark.parametrize("lock", LOCKS)
def test_every_pin_has_hashes_and_no_address(lock: str) -> None:
    text = (ROOT / lock).read_text(encoding="utf-8")
    for entry in re.split(r"\n(?=\S)", text):
        assert entry.startswith("#") or "--hash=sha256:" in entry, entry.splitlines()[0]
    assert "://" not in text
    assert not re.search(r"^\s*-(i|f|-index-url|-extra-index-url|-find-links)\b", text, flags=re.MULTILINE)


def test_only_pythons_that_ci_runs_are_claimed() -> None:
    claimed = [text for text in pyproject()["project"]["classifiers"] if re.search(r":: 3\.\d+$", text)]
    assert claimed == ["Programming Language :: Python :: 3.11"]
