"""Selectors as text mean what they mean to the API server, and what is none is refused in its words."""

import pytest

from gpufleet.kube.codec.selector_text import read_selector, selector_document, selector_text
from gpufleet.model.model_errors import InputError

LABELS = {"app": "web", "tier": "", "example.com/pool": "a"}


@pytest.mark.parametrize(
    "text",
    [
        "",
        "app",
        "app=web",
        "app == web",
        "tier=",
        "app!=db",
        "absent!=web",
        "!absent",
        "app in (web, db)",
        "app notin (db,other)",
        "app in (web),!absent,example.com/pool=a",
        "tier in (,x)",
    ],
)
def test_it_accepts(text: str) -> None:
    assert read_selector(text).accepts(LABELS)


@pytest.mark.parametrize(
    "text", ["absent", "app=db", "!app", "app!=web", "app in (db)", "app notin (web)", "app=web,tier=x"]
)
def test_it_does_not_accept(text: str) -> None:
    assert not read_selector(text).accepts(LABELS)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("=", "found '=', expected: !, identifier, or 'end of string'"),
        ("app=web,", "found '', expected: identifier after ','"),
        ("app in", "found '', expected: '('"),
        ("app in (a", "found '', expected: ',' or ')'"),
        ("app ? web", "found '?', expected: in, notin, =, ==, !="),
        ("a b", "found 'b', expected: in, notin, =, ==, !="),
        ("app=web)", "found ')', expected: ','"),
    ],
)
def test_what_is_no_selector_is_refused(text: str, problem: str) -> None:
    with pytest.raises(InputError) as refused:
        read_selector(text)
    assert refused.value.problem == problem


def test_a_selector_that_is_longer_than_any_is_refused() -> None:
    with pytest.raises(InputError, match="characters"):
        read_selector("a" * 20_000)


def test_it_is_written_as_the_api_writes_it() -> None:
    selector = read_selector("b in (y,x),a=1,!c,d,e!=2,f notin (3,4)")
    assert selector_text(selector) == "a=1,b in (x,y),!c,d,e!=2,f notin (3,4)"
    assert selector_document(selector) == {
        "matchLabels": {"a": "1"},
        "matchExpressions": [
            {"key": "b", "operator": "In", "values": ["x", "y"]},
            {"key": "c", "operator": "DoesNotExist"},
            {"key": "d", "operator": "Exists"},
            {"key": "e", "operator": "NotIn", "values": ["2"]},
            {"key": "f", "operator": "NotIn", "values": ["3", "4"]},
        ],
    }
    assert selector_document(read_selector("")) is None
