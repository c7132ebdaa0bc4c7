"""The table of judged errors keeps its terms, and lint says of the files what the table says.

The sweep runs where the files are:
``GPUFLEET_PUBLIC_MANIFESTS=FOLDER pytest tests/lint/test_judged_errors.py``.
"""

import re

import pytest

from gpufleet.lint.rule import Severity
from gpufleet.lint.rules import all_rules
from gpufleet.lint.run import lint, read
from gpufleet.lint.source.text import SourceText
from tests.conventions.project import ROOT
from tests.lint.judged_errors import RIGHT, WRONG, files, judgements, lines, told_today
from tests.lint.public_manifests import SETTING, Source, folder, sources

FILES = files()
JUDGED = judgements()
FOLDER = folder()
LEAST_PROJECTS = 30
LEAST_WORDS = 10
LEAST_PRECISION = 0.95


def test_the_projects_are_many_and_no_rule_was_tried_on_them() -> None:
    projects = {one.repository for one in FILES}
    assert len(projects) >= LEAST_PROJECTS
    assert projects.isdisjoint(one.repository for one in sources())
    names = [one.name for one in FILES]
    assert names == sorted(set(names))
    assert all(re.fullmatch(r"[0-9a-f]{40}", one.commit) for one in FILES)


def test_each_error_is_of_a_file_of_the_table_and_is_judged_with_a_reason() -> None:
    known = {rule.id for rule in all_rules()}
    assert {one.file for one in JUDGED} <= {one.name for one in FILES}
    assert {one.rule for one in JUDGED} <= known
    assert {one.verdict for one in JUDGED} <= {RIGHT, WRONG}
    assert all(one.reason.count(" ") >= LEAST_WORDS for one in JUDGED)
    assert len({(one.file, one.rule, one.object) for one in JUDGED}) == len(JUDGED)


def test_a_rule_that_was_right_still_speaks_and_one_that_was_wrong_says_something_else() -> None:
    for one in JUDGED:
        if one.verdict == RIGHT:
            # Where the evidence is not in the file itself, it is a warning since round 7.
            assert one.now in {Severity.ERROR.word, Severity.WARNING.word}
        else:
            assert "; now " in one.reason


def test_a_rule_errs_only_where_what_it_errs_on_was_right() -> None:
    for rule in {one.rule for one in JUDGED}:
        errors = [one.verdict for one in JUDGED if one.rule == rule and one.now == Severity.ERROR.word]
        assert errors.count(RIGHT) >= LEAST_PRECISION * len(errors), rule


def test_the_page_has_the_figures_of_the_table() -> None:
    page = (ROOT / "docs" / "lint.md").read_text(encoding="utf-8")
    assert "\n".join(lines()) in page
    assert "\n".join(told_today()) in page


@pytest.mark.skipif(FOLDER is None, reason=f"{SETTING} names no folder of public repositories")
@pytest.mark.parametrize("source", [pytest.param(one, id=one.name) for one in FILES if FOLDER])
def test_lint_says_of_the_file_what_the_table_says(source: Source) -> None:
    assert FOLDER is not None
    text = (FOLDER / source.name).read_bytes().decode("utf-8")
    assert len(text) == source.characters
    report = lint([read(SourceText(source.name, text))], all_rules())
    told = {(one.rule.id, one.object, one.severity.word) for one in report.findings}
    expected = {(one.rule, one.object, one.now) for one in JUDGED if one.file == source.name}
    assert {one for one in expected if one[2] != "none"} <= told
    assert {one for one in told if one[2] == Severity.ERROR.word} <= expected
