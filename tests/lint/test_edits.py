"""An edit changes what it names, in the manner of what stands around it, and nothing else."""

import pytest

from gpufleet.lint.edits.applying import DocumentFix, apply_fixes
from gpufleet.lint.edits.edits import (
    Append,
    Edit,
    Fix,
    Insert,
    Remove,
    Rename,
    Replace,
    removal,
    removals,
)
from gpufleet.lint.source.fields import Field
from gpufleet.lint.source.nodes import Data
from gpufleet.lint.source.parse import parse
from gpufleet.lint.source.text import SourceText


def root(text: str) -> Field:
    return Field(parse(SourceText("a.yaml", text)).documents[0])


def edited(text: str, *edits: Edit) -> str:
    source = SourceText("a.yaml", text)
    return apply_fixes(source, parse(source), [DocumentFix(0, Fix("", edits))]).text


@pytest.mark.parametrize(
    ("text", "after"),
    [
        ("a: 1 # one\nb: 2\n", "b: 2\n"),
        ("b: 2\n# about a\na:\n  x: [1,\n    2]\n\n# end\n", "b: 2\n# about a\n\n# end\n"),
        ("{a: 1, b: 2}\n", "{b: 2}\n"),
        ("{b: 2, a: 1}", "{b: 2}"),
        ('{\n  "a": 1,\n  "b": 2\n}\n', '{\n  "b": 2\n}\n'),
        ("a: |\n  text\nb: 2\n", "b: 2\n"),
        ("a: 1\r\nb: 2\r\n", "b: 2\r\n"),
        ("a: 1\n", "{}\n"),
    ],
)
def test_a_field_is_removed(text: str, after: str) -> None:
    assert edited(text, Remove(root(text).at("a"))) == after


@pytest.mark.parametrize(
    ("text", "index", "after"),
    [
        ("- a: 1\n  b: 2\n- c\n", 0, "- c\n"),
        ("- x # ex\n# why\n- c # see\n", 1, "- x # ex\n# why\n"),
        ("[a, b, c]", 1, "[a, c]"),
        ("[a, b, c]", 2, "[a, b]"),
        ("- x\n", 0, "[]\n"),
    ],
)
def test_an_item_is_removed(text: str, index: int, after: str) -> None:
    assert edited(text, Remove(root(text).items()[index])) == after


def test_the_field_behind_a_dash_gives_its_place_to_the_next() -> None:
    text = "- a: 1 # one\n  # two\n  b: 2\n"
    assert edited(text, Remove(root(text).items()[0].at("a"))) == "- # two\n  b: 2\n"


def test_what_is_left_empty_goes_too_where_empty_says_nothing() -> None:
    text = "name: x\nresources:\n  requests:\n    cpu: 1\n"
    assert edited(text, removal(root(text).at("resources", "requests", "cpu"))) == "name: x\n"


@pytest.mark.parametrize(
    ("text", "value", "after"),
    [
        ("a: 1 # one\n", 2, "a: 2 # one\n"),
        ("a: 'it'\n", "it's", "a: 'it''s'\n"),
        ('a: "x"\n', "y", 'a: "y"\n'),
        ("a: x\n", "yes", 'a: "yes"\n'),
        ("{a: x}\n", "y: z", '{a: "y: z"}\n'),
    ],
)
def test_a_value_is_replaced(text: str, value: str | int, after: str) -> None:
    assert edited(text, Replace(root(text).at("a"), value)) == after


def test_a_name_is_replaced() -> None:
    text = "old/name : 1 # kept\n"
    assert edited(text, Rename(root(text).at("old/name"), "new.io/name")) == "new.io/name : 1 # kept\n"


@pytest.mark.parametrize(
    ("text", "value", "after"),
    [
        ("m:\n  a: 1 # one\n\n# next\nz: 1\n", 2, "m:\n  a: 1 # one\n  n: 2\n\n# next\nz: 1\n"),
        ("m: {a: 1}\n", "x", "m: {a: 1, n: x}\n"),
        ("m: {}\n", 2, "m: {n: 2}\n"),
        ("m: # none yet\nz: 1\n", {"b": [1]}, "m: # none yet\n  n:\n    b:\n      - 1\nz: 1\n"),
        ("z: 1", 2, "z: 1\nm:\n  n: 2"),
        ("m:\n  a: |\n    text\nz: 1\n", 2, "m:\n  a: |\n    text\n  n: 2\nz: 1\n"),
        ('{"m": {\n  "a": 1\n}}', "x", '{"m": {\n  "a": 1,\n  "n": "x"\n}}'),
        ("m:\r\n  a: 1\r\n", 2, "m:\r\n  a: 1\r\n  n: 2\r\n"),
    ],
)
def test_a_field_is_added(text: str, value: Data, after: str) -> None:
    assert edited(text, Insert(root(text).at("m"), "n", value)) == after


@pytest.mark.parametrize(
    ("text", "after"),
    [
        ("m:\n- x # ex\n# end\n", "m:\n- x # ex\n- a: 1\n  b: [2]\n# end\n".replace("b: [2]", "b:\n    - 2")),
        ("m: [x]\n", "m: [x, {a: 1, b: [2]}]\n"),
        ("m: []\n", "m: [{a: 1, b: [2]}]\n"),
        ("z: 1\n", "z: 1\nm:\n  - a: 1\n    b:\n      - 2\n"),
    ],
)
def test_an_item_is_added(text: str, after: str) -> None:
    assert edited(text, Append(root(text).at("m"), {"a": 1, "b": [2]})) == after


def test_what_an_alias_repeats_is_left_alone() -> None:
    text = "a: &x\n  b: 1\nc: *x\n"
    assert edited(text, Replace(root(text).at("a", "b"), 2)) == text
    assert edited(text, Replace(root(text).at("c", "b"), 2)) == text
    assert edited(text, Insert(root(text).at("c"), "n", 2)) == text


def test_one_document_of_several_is_edited() -> None:
    text = "a: 1\n--- # two\na: 1\n"
    source = SourceText("a.yaml", text)
    parsed = parse(source)
    fix = Fix("", (Replace(Field(parsed.documents[1]).at("a"), 2),))
    assert apply_fixes(source, parsed, [DocumentFix(1, fix)]).text == "a: 1\n--- # two\na: 2\n"


def test_of_fixes_that_spoil_each_other_those_after_them_are_applied_too() -> None:
    text = "a:\n  - x\n  - x\nb: 1\nc: 1\n"
    source = SourceText("a.yaml", text)
    parsed = parse(source)
    first, second = root(text).at("a").items()
    edits: list[Edit] = [Remove(first), Remove(second)]
    edits += [Replace(root(text).at(name), 2) for name in ("b", "c")]
    fixes = [DocumentFix(0, Fix("", (edit,))) for edit in edits]
    mended = apply_fixes(source, parsed, fixes)
    assert mended.text == "a:\n  - x\nb: 2\nc: 2\n"
    assert len(mended.applied) == 3


def test_what_several_removals_leave_empty_goes_too() -> None:
    text = "name: x\nvolumeMounts:\n- a\n- b\nvolumes:\n- c\n- d\n"
    mounts, volumes = (root(text).at(name).items() for name in ("volumeMounts", "volumes"))
    assert edited(text, *removals([*mounts, volumes[0]])) == "name: x\nvolumes:\n- d\n"
    assert edited(text, *removals([*mounts, *volumes])) == "name: x\n"
