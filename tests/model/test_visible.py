"""Nothing that hides, moves a cursor or turns the direction of reading goes out."""

import json
import sys
import unicodedata

import msgspec
import yaml
from hypothesis import given
from hypothesis import strategies as st

from gpufleet.kube.yaml_documents import yaml_text
from gpufleet.model.visible import json_text, visible_json, visible_line, visible_text

HIDING = ("Cc", "Cf", "Cs", "Zl", "Zp")
"""The categories of Unicode: controls, formats, halves of pairs, ends of lines and paragraphs."""

ANY_TEXT = st.text(st.characters())
ALARMING = st.text(
    st.sampled_from(
        "ab\x1b[31m\x00\x07\r\n\t\x7f\x85\x9b\xad\u061c\u200b\u200f\u2028\u202e\u2066\ufeff\ud800\U000e0041é漢"
    )
)


class Named(msgspec.Struct):
    """What somebody named."""

    name: str
    others: dict[str, str]


def hides(text: str, kept: str = "") -> list[str]:
    return [one for one in text if unicodedata.category(one) in HIDING and one not in kept]


def test_every_character_that_hides_is_written_out() -> None:
    every = "".join(map(chr, range(sys.maxunicode + 1)))
    assert not hides(visible_text(every), "\n\t")
    assert not hides(visible_json(every), "\n\t")
    assert visible_line(every).isprintable()


@given(ALARMING | ANY_TEXT)
def test_a_line_stays_a_line(text: str) -> None:
    assert visible_line(text).isprintable()
    assert not hides(visible_text(text), "\n\t")


@given(st.text(st.characters(categories=("L", "N", "P", "S"))))
def test_what_can_be_read_stays_as_it_is(text: str) -> None:
    seen = text.replace("\u115f", "").replace("\u1160", "").replace("\u3164", "").replace("\uffa0", "")
    assert visible_text(seen) == seen


@given(ALARMING, ALARMING, ALARMING, st.sampled_from([0, 1, 2]))
def test_json_says_the_same_to_every_parser_and_hides_nothing(
    name: str, key: str, value: str, indent: int
) -> None:
    text = json_text(Named(name, {key: value}), indent)
    assert json.loads(text) == {"name": name, "others": {key: value}}
    assert not hides(text, "\n")


@given(ALARMING.filter(lambda text: "\ud800" not in text))
def test_yaml_says_the_same_to_every_parser_and_hides_nothing(name: str) -> None:
    text = yaml_text(Named(name, {}))
    assert yaml.safe_load(text) == {"name": name, "others": {}}
    assert not hides(text, "\n")


def test_escapes_are_those_that_programmers_write() -> None:
    assert visible_line("a\x1b[2Jb\u202e\r\n\t\U000e0041") == "a\\x1b[2Jb\\u202e\\r\\n\\t\\U000e0041"
    assert visible_text("one\n\ttwo\x9b") == "one\n\ttwo\\x9b"
    assert visible_json('"\u202e\U000e0041"') == '"\\u202e\\udb40\\udc41"'
