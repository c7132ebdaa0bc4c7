"""YAML says one thing, and only what its writer meant; and no file costs more than it is long."""

import contextlib
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpufleet.devices.device_errors import MachineError
from gpufleet.devices.yaml_text import SIZE_MAX_BYTES, VALUES_MAX, read_yaml


def read(text: str | bytes) -> object:
    return read_yaml(text, "file", MachineError)


def test_what_both_versions_of_yaml_agree_on_is_read() -> None:
    text = "{a: 1, b: -2, c: 1.5, d: true, e: null, f: text, g: 'no', h: \"010\", i: [], j: 0x1F, k: .inf}"
    assert read(text) == {
        "a": 1,
        "b": -2,
        "c": 1.5,
        "d": True,
        "e": None,
        "f": "text",
        "g": "no",
        "h": "010",
        "i": [],
        "j": 31,
        "k": float("inf"),
    }
    assert read("version: 580.95.05") == {"version": "580.95.05"}
    assert read("") is None


@pytest.mark.parametrize(
    "word",
    [
        "no",
        "No",
        "on",
        "off",
        "yes",
        "010",
        "0o10",
        "0b1",
        "1_000",
        "12:30:00",
        "1:0",
        "2026-01-01",
        "1e3",
        "=",
    ],
)
def test_a_word_of_two_meanings_is_refused(word: str) -> None:
    with pytest.raises(MachineError, match=r"a\[1\]: .* means different things .*text in quotes"):
        read(f"a: [1, {word}]")


def test_a_key_written_twice_is_refused_where_it_stands() -> None:
    with pytest.raises(MachineError, match=r"file, a\[0\].b: is written twice \(line 3\)"):
        read("a:\n- b: 1\n  b: 2\n")


def test_aliases_are_values_that_count_each_time() -> None:
    assert read("{a: &x [1, 2], b: *x}") == {"a": [1, 2], "b": [1, 2]}
    bomb = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n"
    bomb += "".join(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]\n" for n in range(1, 30))
    with pytest.raises(MachineError, match="too many values"):
        read(bomb)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("a: 1\n--- \nb: 2", "several documents"),
        ("a: !!python/object:os.system 1", "has the tag"),
        ("a: !!str 1", "has the tag"),
        ("a: *b", "no value is called 'b'"),
        ("a: &a [*a]", "no value is called 'a'"),
        ("<<: {a: 1}", "different things"),
        ("1: a", "no name of a field"),
        ("[a]: b", "no name of a field"),
        ("a:\n\t- b", "not YAML"),
        ("a: {", "not YAML"),
        (b"a: \xff\xfe", "not YAML"),
        ("a: \x00", "not YAML"),
        ("a: \ud800", "not text"),
        ("[" * 100 + "]" * 100, "nested too deep"),
        ("{a: " * 10_000, "nested too deep"),
        (f"[{'1,' * (VALUES_MAX + 1)}]", "too many values"),
        ("#" * (SIZE_MAX_BYTES + 1), "longer than 262144 bytes"),
        ("a: " + "1" * 5000, "different things"),
    ],
)
def test_what_nobody_writes_is_refused(text: str | bytes, problem: str) -> None:
    with pytest.raises(MachineError, match=problem):
        read(text)


WORDS = st.text(st.characters(exclude_categories=["Cc", "Cf", "Cn", "Co", "Cs", "Zl", "Zp"]))
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**9), 10**9) | WORDS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(WORDS, inner, max_size=4),
    max_leaves=20,
)


@given(VALUES)
def test_json_is_read_as_it_is_meant(value: object) -> None:
    assert read(json.dumps(value, ensure_ascii=False)) == value


@given(st.text(alphabet="ab:-[]{}&*!|>'\"#%@,?\n\t 01.~<=") | st.binary(max_size=40))
def test_any_text_is_read_or_refused(text: str | bytes) -> None:
    with contextlib.suppress(MachineError):
        read(text)
