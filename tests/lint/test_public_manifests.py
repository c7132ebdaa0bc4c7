"""Lint over what the field's own projects publish: it reads all of it, errs with reasons, mends cleanly.

The table is held to its terms everywhere; the sweep itself runs where the files are:
``GPUFLEET_PUBLIC_MANIFESTS=FOLDER pytest tests/lint/test_public_manifests.py``.
"""

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from gpufleet.lint.edits.edits import Append, Edit, Insert
from gpufleet.lint.findings import Finding, Report
from gpufleet.lint.fixing import fix
from gpufleet.lint.rule import Severity
from gpufleet.lint.rules import all_rules
from gpufleet.lint.run import Reading, lint, read
from gpufleet.lint.source.text import SourceText
from tests.lint.public_manifests import ERRORS, MALFORMED, SETTING, Source, folder, sources

SOURCES = sources()
PERMISSIVE = {"Apache-2.0", "MIT", "MIT-0", "BSD-2-Clause", "BSD-3-Clause"}
LEAST = 120
LEAST_WORDS = 10
FOLDER = folder()
MISSING = pytest.mark.skip(reason=f"{SETTING} names no folder of public repositories")


def each(chosen: list[Source]) -> pytest.MarkDecorator:
    """Every one of these where the files are; one skipped test where they are not."""
    found = [pytest.param(one, id=one.name) for one in chosen]
    return pytest.mark.parametrize("source", found if FOLDER else [pytest.param(None, marks=MISSING)])


def text_of(source: Source) -> str:
    assert FOLDER is not None
    return (FOLDER / source.name).read_bytes().decode("utf-8")


def judged(reading: Reading) -> Report:
    return lint([reading], all_rules())


def test_the_table_is_large_and_each_file_may_be_used() -> None:
    names = [one.name for one in SOURCES]
    assert len(names) == len(set(names)) >= LEAST
    assert {one.licence for one in SOURCES} <= PERMISSIVE
    assert all(re.fullmatch(r"[0-9a-f]{40}", one.commit) for one in SOURCES)
    assert names == sorted(names)


def test_what_is_argued_is_of_the_table_and_of_a_rule_that_errs() -> None:
    names = {one.name for one in SOURCES}
    errs = {rule.id for rule in all_rules() if rule.severity is Severity.ERROR}
    assert {name for name, _, _ in ERRORS} | set(MALFORMED) <= names
    assert {rule for _, rule, _ in ERRORS} <= errs
    assert all(why.count(" ") >= LEAST_WORDS for why in ERRORS.values())


@each(SOURCES)
def test_the_file_is_the_one_of_the_table(source: Source) -> None:
    assert len(text_of(source)) == source.characters


@each(SOURCES)
def test_it_is_read_and_every_error_is_argued(source: Source) -> None:
    report = judged(read(SourceText(source.name, text_of(source))))
    told = [one.reason for one in report.problems]
    if source.name in MALFORMED:
        beginning, _ = MALFORMED[source.name]
        assert len(told) == 1
        assert told[0].startswith(beginning)
    else:
        assert told == []
        assert report.objects_count > 0
    errors = {(one.rule.id, one.object) for one in report.findings if one.severity is Severity.ERROR}
    assert errors == {(rule, name) for path, rule, name in ERRORS if path == source.name}


def place(edit: Edit) -> tuple[str | int, ...]:
    """The mapping or list that the edit changes."""
    match edit:
        case Insert():
            return edit.mapping.keys
        case Append():
            return edit.sequence.keys
    return edit.field.keys[:-1]


def without(value: Any, places: set[tuple[str | int, ...]], path: tuple[str | int, ...] = ()) -> Any:
    """What remains of a document beside these places; None where that is nothing."""
    if path in places:
        return None
    if isinstance(value, dict):
        kept = {key: without(child, places, (*path, key)) for key, child in value.items()}
        return {key: child for key, child in kept.items() if child is not None} or None
    if isinstance(value, list):
        return [without(child, places, (*path, index)) for index, child in enumerate(value)] or None
    return value


def documents(text: str) -> list[Any]:
    """What PyYAML, which lint does not edit with, makes of a text."""
    return list(yaml.safe_load_all(text))


def comments(text: str) -> list[str]:
    return [line.strip() for line in text.splitlines() if line.lstrip().startswith("#")]


@each([one for one in SOURCES if one.name not in MALFORMED])
def test_a_fix_changes_what_it_names_once_and_leaves_nothing_that_it_mends(source: Source) -> None:
    text = text_of(source)
    places: dict[int, set[tuple[str | int, ...]]] = {}

    def judge(reading: Reading) -> list[Finding]:
        found = list(judged(reading).findings)
        for one in found:
            if one.fix is not None:
                places.setdefault(one.document, set()).update(map(place, one.fix.edits))
        return found

    mended = fix(read(SourceText(source.name, text)), judge)
    after = judged(read(mended.source))
    assert after.problems == ()
    assert [one.rule.id for one in after.findings if one.fix is not None] == []
    assert fix(read(mended.source), judge).does == ()
    assert bool(mended.does) == (mended.source.text != text)
    assert comments(mended.source.text) == comments(text)
    old, new = documents(text), documents(mended.source.text)
    assert len(old) == len(new)
    for number, (before, now) in enumerate(zip(old, new, strict=True)):
        allowed = places.get(number, set())
        assert () not in allowed
        assert without(now, allowed) == without(before, allowed)


def test_a_folder_that_is_named_is_there() -> None:
    assert FOLDER is None or Path(FOLDER).is_dir()
