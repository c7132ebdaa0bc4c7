"""What is written is what Prometheus reads, whatever stands in a label."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.parser import text_string_to_metric_families

from gpufleet.agent.exporter.text import Family, encoded, is_label_name, labelled, number, series
from gpufleet.model.visible import visible_text

HOSTILE = [
    'a"} 1\ngpufleet_fake{pod="b',
    "line\nend",
    "\\",
    '\\"',
    "\\n",
    "$(reboot)",
    "{{ .Values }}",
    "../../etc",
    "a,b=c",
    "\u202eabc",
    "\x00",
    "tab\tcr\r",
]


def read_back(value: str) -> str:
    line = series("m", labelled([("pod", value)]), 1)
    (family,) = text_string_to_metric_families(Family("m", "gauge", "Help.").header + line)
    (one,) = family.samples
    assert list(one.labels) == ["pod"]
    read: str = one.labels["pod"]
    return read


@pytest.mark.parametrize("value", HOSTILE)
def test_hostile_text_stays_in_its_label(value: str) -> None:
    assert read_back(value) == visible_text(value)


@given(st.text(st.characters(exclude_categories=["Cc", "Cf", "Cs", "Zl", "Zp"]), min_size=1))
def test_any_text_that_hides_nothing_is_read_back_as_it_was(value: str) -> None:
    assert read_back(value) == visible_text(value)


@given(st.text(st.characters(), min_size=1))
def test_nothing_of_a_label_is_hidden(value: str) -> None:
    assert read_back(value) == visible_text(value)


def test_half_of_a_pair_of_characters_is_written_out() -> None:
    assert encoded(labelled([("job", "a\ud800")])) == rb'job="a\\ud800"'


def test_a_label_without_a_value_is_none() -> None:
    assert labelled([("pod", ""), ("gpu", "0")]) == 'gpu="0"'


def test_values_are_written_whole() -> None:
    assert number(2**63) == "9223372036854775808"
    assert number(0.1) == "0.1"
    assert number(value=True) == "1"
    assert number(0) == "0"


@pytest.mark.parametrize("value", [None, math.nan, math.inf, -math.inf])
def test_what_is_no_number_is_no_series(value: float | None) -> None:
    assert series("m", "", value) == ""


def test_help_cannot_end_its_line() -> None:
    header = Family("m", "counter", "one\ntwo \\ three").header
    assert header == "# HELP m one\\ntwo \\\\ three\n# TYPE m counter\n"


@pytest.mark.parametrize(
    ("name", "right"),
    [("app_kubernetes_io_name", True), ("1a", False), ("a-b", False), ("__a", False), ("", False)],
)
def test_names_of_labels(name: str, right: bool) -> None:
    assert is_label_name(name) == right
