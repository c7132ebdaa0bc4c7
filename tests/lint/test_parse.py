"""What is read stands where it stands, and what is malformed is told with line, column and reason."""

import pytest
import yaml

from gpufleet.lint.source.fields import Field
from gpufleet.lint.source.nodes import data_of
from gpufleet.lint.source.parse import DEPTH_MAX, RENDER_FIRST, parse
from gpufleet.lint.source.scalars import plain_value
from gpufleet.lint.source.text import Position, SourceText


def problem_of(text: str) -> str:
    (problem,) = parse(SourceText("a.yaml", text)).problems
    return str(problem)


def place(text: str, *keys: str) -> Position:
    source = SourceText("a.yaml", text)
    return source.position(Field(parse(source).documents[0]).at(*keys).offset)


def test_places_are_those_of_an_editor() -> None:
    text = "# ü€😀\na:\r\n  'ß😀': {x: 1, y: [2]}\n"
    assert place(text, "a", "ß😀", "y") == Position(3, 16)


def test_a_line_break_of_old_yaml_is_no_line_of_an_editor() -> None:
    assert place('a: "x\u2028y"\nb: 1\n', "b") == Position(2, 1)


def test_a_missing_field_stands_where_the_nearest_around_it_does() -> None:
    assert place("a:\n  b: 1\n", "a", "c", "d") == Position(1, 1)


def test_aliases_and_merges_read_as_if_written_out() -> None:
    text = "base: &base {a: 1, b: 2}\nsame: *base\nmore:\n  <<: *base\n  b: 3\n"
    (document,) = parse(SourceText("a.yaml", text)).documents
    assert data_of(document) == {"base": {"a": 1, "b": 2}, "same": {"a": 1, "b": 2}, "more": {"a": 1, "b": 3}}


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("a: 1\nb: 2\na: 3\n", "a.yaml:3:1: the field 'a' is written twice"),
        ("a: *nobody\n", "a.yaml:1:4: no value above is called 'nobody'"),
        ("a: &a [*a]\n", "a.yaml:1:8: no value above is called 'a'"),
        ("a: 1\n? [x]\n: 2\n", "a.yaml:2:3: a list or mapping stands where the name of a field was expected"),
        ("a: b: c\n", "a.yaml:1:5: not YAML: mapping values are not allowed in this context"),
        ("a: 1\nb: \x07\n", "a.yaml:2:4: not YAML: the control character 0x07 is not allowed"),
        (
            "{{ .Values.x }}: 1\n",
            f"a.yaml:1:2: a list or mapping stands where the name of a field was expected{RENDER_FIRST}",
        ),
    ],
)
def test_malformed_text_is_told_with_its_place(text: str, told: str) -> None:
    assert problem_of(text) == told


def test_what_stands_before_a_malformed_document_is_kept() -> None:
    parsed = parse(SourceText("a.yaml", "a: 1\n---\nb: [\n"))
    assert [data_of(document) for document in parsed.documents] == [{"a": 1}]
    assert parsed.problems


def test_hostile_texts_end_soon() -> None:
    bomb = "a0: &a0 [x, x]\n" + "".join(
        f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]\n" for n in range(1, 12)
    )
    assert "more than" in problem_of(bomb)
    assert f"nested deeper than {DEPTH_MAX} levels" in problem_of("- " * 5000)
    assert problem_of("[" * 100_000)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "~",
        "null",
        "true",
        "No",
        "on",
        "1",
        "-7",
        "010",
        "0x1F",
        "1.5",
        ".5",
        "1e3",
        "abc",
        "1a",
        "2024-10-07",
        "1_0",
    ],
)
def test_words_mean_what_the_reader_of_kubernetes_makes_of_them(text: str) -> None:
    # PyYAML follows the same YAML 1.1, but for exponents without a dot, digits with underscores, and dates.
    differs: dict[str, object] = {"1e3": 1000.0, "2024-10-07": "2024-10-07", "1_0": "1_0"}
    assert plain_value(text) == differs.get(text, yaml.safe_load(text))
