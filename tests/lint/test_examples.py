"""The broken examples show what they say they show, and the others are free of errors."""

import re
from pathlib import Path

import pytest

from gpufleet.lint.rule import Severity
from tests.conventions.project import ROOT
from tests.lint.linting import fixed, found, report_of

BROKEN = sorted((ROOT / "examples" / "broken").glob("*.yaml"))
EXAMPLES = sorted((ROOT / "examples").glob("*.yaml"))
# What cannot run shows so on purpose; of these, a manifest alone tells of the gang that is never whole.
ON_PURPOSE = {"90-cannot-run.yaml": [("GPU024", "Deployment playground/short-gang")]}


def name_of(path: Path) -> str:
    return path.name


@pytest.mark.parametrize("path", BROKEN, ids=name_of)
def test_a_broken_example_shows_what_it_says(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    said = re.search(r"^# Lint finds: (.*)$", text, flags=re.MULTILINE)
    assert said
    assert found(text) == said[1].split()


@pytest.mark.parametrize("path", BROKEN, ids=name_of)
def test_a_broken_example_is_mended_with_its_comments(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    mended = fixed(text)
    assert mended != text
    assert all(one.fix is None for one in report_of(mended).findings)
    assert [line for line in mended.splitlines() if line.startswith("#")] == text.splitlines()[:2]


@pytest.mark.parametrize("path", EXAMPLES, ids=name_of)
def test_the_examples_have_no_error_but_on_purpose(path: Path) -> None:
    report = report_of(path.read_text(encoding="utf-8"))
    errors = [(one.rule.id, one.object) for one in report.findings if one.severity is Severity.ERROR]
    assert errors == ON_PURPOSE.get(path.name, [])
    assert report.problems == ()
